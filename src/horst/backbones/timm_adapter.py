"""Any network of timm as a backbone, with the normalisation of its weights.

timm is optional and imports torchvision, so it is imported when such a backbone is built.

Shapes: N frames, H x W pixels, C channels, h x w the map's size.
"""

import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from horst.backbones.base import Backbone, Normalise, check_patches, register_backbone
from horst.errors import CheckpointError, ConfigError, InputError, MissingExtraError, did_you_mean
from horst.extras import import_torchvision, require


@register_backbone("timm")
class TimmBackbone(Backbone):
    """One feature map of a timm model: `out_index` counts its maps from the largest, -1 is the smallest.

    The maps of a vision transformer (DINOv2, DINOv3, SigLIP, ...) are the tokens of its blocks after its last norm, one
    per patch. Prefix tokens (class and registers) are left out. Frames have any size that its patches divide.
    """

    def __init__(
        self, *, model: str, out_index: int = -1, pretrained: bool | str | Path = False, frozen: bool = True
    ) -> None:
        """`pretrained`: True downloads the weights that timm names for the model; a path is a file with weights."""
        super().__init__(frozen=frozen)
        timm = _import_timm()
        # timm also takes hf-hub:... and local-dir:..., but a config must not open other places
        if not timm.is_model(model):
            raise ConfigError(f"unknown timm model {model!r}{did_you_mean(model, timm.list_models())}")
        with torch.device("meta"):
            plan = timm.create_model(model, num_classes=0)
        options: dict[str, Any] = {}
        if torch.get_default_device().type != "meta":  # there, only shapes are wanted
            options["pretrained"] = bool(pretrained)
            if pretrained and not isinstance(pretrained, bool):
                _check_file(plan, Path(pretrained))
                options["pretrained_cfg_overlay"] = {"file": str(pretrained)}
        self._patch: tuple[int, int] | None = None
        if isinstance(getattr(plan, "num_prefix_tokens", None), int) and hasattr(plan, "dynamic_img_size"):
            self._patch = _pair(plan.patch_embed.feat_ratio())
        try:
            if self._patch is None:
                net = timm.create_model(model, features_only=True, out_indices=(out_index,), **options)
            else:
                net = timm.create_model(model, num_classes=0, dynamic_img_size=True, **options)
                getter = require("timm.models._features", "timm").FeatureGetterNet
                net = getter(net, out_indices=(out_index,), norm=True)
        except (AssertionError, IndexError, RuntimeError) as error:
            what = f"no map {out_index} of {model!r} (pretrained={pretrained})"
            raise ConfigError(f"timm gives {what}: {error}") from error
        except Exception as error:  # of httpx, huggingface_hub or the disk, without a common class
            if not options.get("pretrained"):
                raise
            remedy = "connect to the Hub, or give pretrained the path of a file"
            raise CheckpointError(f"timm cannot load the weights of {model!r} ({error}): {remedy}") from error
        config = require("timm.data", "timm").resolve_model_data_config(plan)
        self.channels = int(net.feature_info.channels()[-1])
        self.normalise = Normalise(config["mean"], config["std"], scale=255.0)
        self.net: nn.Module = net
        self._channels_last = getattr(getattr(net, "output_fmt", None), "value", "NCHW") == "NHWC"
        self._sizes: dict[tuple[int, int], tuple[int, int]] = {}
        self._freeze()

    def check_size(self, height: int, width: int) -> None:
        super().check_size(height, width)
        if self._patch is not None:
            check_patches(type(self).__name__, (height, width), self._patch)

    def features(self, x: Tensor) -> Tensor:
        try:
            out: Tensor = self.net(x)[-1]
        except AssertionError as error:  # of transformers that take one size only
            raise InputError(f"{type(self).__name__} does not take {x.shape[-2]}x{x.shape[-1]}: {error}") from error
        return out.permute(0, 3, 1, 2) if self._channels_last else out  # (N, C, h, w)

    def output_size(self, height: int, width: int) -> tuple[int, int]:
        self.check_size(height, width)
        if self._patch is not None:
            return height // self._patch[0], width // self._patch[1]
        # Every family of networks rounds differently, so run the network on the meta device, which computes shapes
        # only. Two frames, because BatchNorm cannot train on a single value.
        if (height, width) not in self._sizes:
            frames = torch.empty(2, self.input_channels, height, width, device="meta")
            tensors = (*self.named_parameters(), *self.named_buffers())
            shadow = {name: tensor.detach().to("meta") for name, tensor in tensors}
            out: Tensor = torch.func.functional_call(self, shadow, (frames,))
            self._sizes[height, width] = (out.shape[2], out.shape[3])
        return self._sizes[height, width]


def _import_timm() -> Any:
    try:
        with suppress(ModuleNotFoundError):
            import_torchvision()
        return require("timm", "timm")
    except RuntimeError as error:  # from a torchvision that was built for another torch
        needed = f"it needs the torchvision that matches torch {torch.__version__}"
        raise MissingExtraError(f"timm is installed but cannot be imported ({error}): {needed}") from error


def _check_file(plan: nn.Module, path: Path) -> None:
    """CheckpointError if a file does not have all weights of a model: timm would keep random ones for the others."""
    if not path.is_file():
        raise CheckpointError(f"pretrained is {str(path)!r}, which is not a file: true takes timm's own weights")
    helpers = require("timm.models._helpers", "timm")
    rename = getattr(sys.modules[type(plan).__module__], "checkpoint_filter_fn", lambda state, _: state)
    try:
        state = rename(helpers.load_state_dict(str(path), device="cpu"), plan)
    except Exception as error:  # of torch.load, safetensors and timm's functions, without a common class
        raise CheckpointError(f"{path} is damaged or has no weights: {error}") from error
    wanted = plan.state_dict()
    if missing := [name for name in wanted if name not in state]:
        raise CheckpointError(f"{path} is not of this model: {len(missing)} weights are missing, such as {missing[0]}")
    if other := [name for name, tensor in wanted.items() if state[name].shape != tensor.shape]:
        shapes = f"{tuple(state[other[0]].shape)} and not {tuple(wanted[other[0]].shape)}"
        raise CheckpointError(f"{path} is not of this model: {other[0]} has the shape {shapes}")


def _pair(value: Any) -> tuple[int, int]:
    return (int(value[0]), int(value[1])) if isinstance(value, tuple | list) else (int(value), int(value))
