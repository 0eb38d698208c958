"""V-JEPA 2 and VideoMAE of the package transformers, as windows over a stream.

The package is optional and is imported when such a backbone is built. A saved model has the encoder's config, so it is
opened without the Hub.

Shapes: N windows of W frames, H x W pixels, C channels, h x w patches.
"""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from horst.backbones.base import IMAGENET_MEAN, IMAGENET_STD, Normalise, register_backbone
from horst.backbones.window import WindowBackbone
from horst.config import check_positive, check_type
from horst.errors import CheckpointError, ConfigError, InputError, MissingExtraError, did_you_mean
from horst.extras import import_torchvision, require

EXTRA = "transformers"
LEFT_OUT = ("transformers_version", "architectures", "dtype", "model_type")  # of a config: not of the encoder
Tokens = Literal["last", "mean"]


class VideoEncoder(WindowBackbone):
    """The tokens of a video transformer over the last frames of a stream, as a map with one cell per patch."""

    model_type: ClassVar[str]  # in config.json
    classes: ClassVar[tuple[str, str]]  # of transformers: the config and the model
    size_option: ClassVar[str]  # the option of its config for height and width
    frames_option: ClassVar[str]  # and for the frames of a clip

    def __init__(
        self,
        *,
        pretrained: str | Path | None = None,
        config: dict[str, Any] | None = None,
        window: int | None = None,
        stride: int = 1,
        image_size: int | None = None,
        tokens: Tokens = "last",
        grid: Sequence[int] | None = None,
        mean: Sequence[float] | None = None,
        std: Sequence[float] | None = None,
        frozen: bool = True,
    ) -> None:
        """
        Args:
            pretrained: A folder of transformers' `save_pretrained`, or a name of the Hub, which is downloaded.
            config: Options of transformers' config, for new weights; with `pretrained`, they must agree with its own.
            window: Frames that the encoder reads; by default those of its config.
            stride: Run the encoder at every stride-th frame; the frames between keep the last map.
            image_size: Height and width of the frames; by default those of its config.
            tokens: The map has the tokens of the newest frames ("last") or their mean over the window.
            grid: Average each map over height x width cells.
            mean: RGB in 0..1, with `std`; by default those of `pretrained`, or ImageNet's.
            std: RGB in 0..1.
            frozen: Keep the weights.
        """
        check_type("tokens", tokens, Tokens)
        if pretrained is None and config is None:
            raise ConfigError(f"{type(self).__name__} needs pretrained, a folder or a name of the Hub, or a config")
        with suppress(ModuleNotFoundError, RuntimeError):
            import_torchvision()  # transformers imports it if it is installed
        package = require("transformers", EXTRA)
        shapes_only = torch.get_default_device().type == "meta"
        chosen = self._config(package, None if shapes_only and config is not None else pretrained, config)
        described = {name: value for name, value in chosen.to_diff_dict().items() if name not in LEFT_OUT}
        if window is not None:
            check_positive(window=window)
            setattr(chosen, self.frames_option, window)
        if image_size is not None:
            check_positive(image_size=image_size)
            setattr(chosen, self.size_option, image_size)
        frames, side = getattr(chosen, self.frames_option), getattr(chosen, self.size_option)
        if side % chosen.patch_size:
            near = max(1, round(side / chosen.patch_size)) * chosen.patch_size
            patch = f"patches of {chosen.patch_size} pixels do not divide it"
            raise ConfigError(f"image_size of {type(self).__name__} is {side}; {patch}: use {near}")
        super().__init__(window=frames, tubelet=chosen.tubelet_size, stride=stride, grid=grid, frozen=frozen)
        self.tokens = tokens
        self.side, self.patch, self.channels = side, chosen.patch_size, chosen.hidden_size
        self.native_size = (side, side)
        self.config = described  # before `window` and `image_size` changed it
        stored = (None, None) if pretrained is None or shapes_only else _normalisation(package, pretrained)
        self.mean = list(mean or stored[0] or IMAGENET_MEAN)
        self.std = list(std or stored[1] or IMAGENET_STD)
        self.normalise = Normalise(self.mean, self.std, scale=255.0)
        self.net = self._network(package, None if shapes_only else pretrained, chosen)
        self._freeze()

    def _config(self, package: Any, pretrained: str | Path | None, options: dict[str, Any] | None) -> Any:
        kind = _class(package, self.classes[0])
        given = options or {}
        if not isinstance(given, dict):
            raise ConfigError(f"config is {given!r}; it takes options of transformers' {self.classes[0]}")
        known = kind().to_dict()
        if unknown := [name for name in given if name not in known]:
            what = f"config of {type(self).__name__} has no option {unknown[0]!r}"
            raise ConfigError(what + did_you_mean(unknown[0], known))
        if pretrained is None:
            try:
                return kind(**given)
            except Exception as error:  # transformers validates by an error of huggingface_hub
                raise ConfigError(f"config of {type(self).__name__}: {error}") from error
        try:
            found = package.AutoConfig.from_pretrained(str(pretrained))
        except (OSError, ValueError, KeyError) as error:
            reason = str(error).strip().splitlines()[0]
            what = f"a folder with a config.json of {self.model_type}, or a name of the Hub"
            raise CheckpointError(f"pretrained is {str(pretrained)!r}; it takes {what}: {reason}") from error
        if found.model_type != self.model_type:
            raise CheckpointError(f"{pretrained} is a model of the type {found.model_type!r}, not {self.model_type!r}")
        for name, value in given.items():
            if getattr(found, name) != value:
                raise ConfigError(f"config says {name}: {value}, and {pretrained} has {getattr(found, name)}")
        return found

    def _network(self, package: Any, pretrained: str | Path | None, config: Any) -> nn.Module:
        kind = _class(package, self.classes[1])
        if pretrained is None:
            try:
                return self._encoder(kind(config))
            except ValueError as error:  # such as heads that do not divide the channels
                raise ConfigError(f"config of {type(self).__name__}: {error}") from error
        try:
            net, report = kind.from_pretrained(
                str(pretrained), config=config, dtype=torch.float32, output_loading_info=True
            )
        except (OSError, ValueError, RuntimeError) as error:
            raise CheckpointError(f"the weights of {pretrained} cannot be loaded: {error}") from error
        unused = [name for name in report["missing_keys"] if not name.startswith("predictor.")]
        if unused:
            raise CheckpointError(f"{pretrained} has no weights for {len(unused)} tensors, such as {sorted(unused)[0]}")
        return self._encoder(net)

    def _encoder(self, net: Any) -> nn.Module:
        """The part of the model that is used."""
        raise NotImplementedError

    def saved_options(self, given: dict[str, Any]) -> dict[str, Any]:
        return {**given, "config": self.config, "mean": self.mean, "std": self.std}

    def check_size(self, height: int, width: int) -> None:
        if (height, width) != self.native_size:
            takes = f"{type(self).__name__} takes frames of {self.side} x {self.side}"
            raise InputError(f"{takes}; got {height} x {width}: resize them, or give the backbone image_size")

    def encoded_size(self, height: int, width: int) -> tuple[int, int]:
        return height // self.patch, width // self.patch

    def encode(self, windows: Tensor) -> Tensor:
        tokens: Tensor = self.net(windows).last_hidden_state  # (N, tubelets * h * w, C)
        rows, columns = self.encoded_size(*windows.shape[-2:])
        cells = tokens.unflatten(1, (-1, rows, columns))
        chosen = cells[:, -1] if self.tokens == "last" else cells.mean(1)
        return chosen.permute(0, 3, 1, 2).contiguous()


@register_backbone("vjepa2")
class VJEPA2(VideoEncoder):
    """The encoder of V-JEPA 2 (Assran et al., 2025), without its predictor.

    Its rotary positions are those of square frames of `image_size`, which may differ from those of its training.
    """

    model_type = "vjepa2"
    classes = ("VJEPA2Config", "VJEPA2Model")
    size_option, frames_option = "crop_size", "frames_per_clip"

    def _encoder(self, net: Any) -> nn.Module:
        encoder: nn.Module = net.encoder
        return encoder


@register_backbone("videomae")
class VideoMAE(VideoEncoder):
    """The encoder of VideoMAE (Tong et al., 2022)."""

    model_type = "videomae"
    classes = ("VideoMAEConfig", "VideoMAEModel")
    size_option, frames_option = "image_size", "num_frames"

    def _encoder(self, net: Any) -> nn.Module:
        model: nn.Module = net
        return model


def _class(package: Any, name: str) -> Any:
    try:
        return getattr(package, name)
    except (AttributeError, ImportError) as error:  # an older version, or a package that it imports is damaged
        what = f"transformers {package.__version__} does not give {name} ({error})"
        raise MissingExtraError(f"{what}: pip install 'horst-video[{EXTRA}]'") from error


def _normalisation(package: Any, pretrained: str | Path) -> tuple[Any, Any]:
    """Mean and deviation that the model's preprocessor_config.json states, if it has one."""
    try:
        stored, _ = package.image_processing_base.ImageProcessingMixin.get_image_processor_dict(str(pretrained))
    except (OSError, ValueError):
        return None, None
    return stored.get("image_mean"), stored.get("image_std")
