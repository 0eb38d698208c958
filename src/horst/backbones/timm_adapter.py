"""Any network of timm as a backbone, with the normalisation of its weights.

timm is optional and imports torchvision, so it is imported when such a backbone is built.

Shapes: N frames, H x W pixels, C channels, h x w the map's size.
"""

from contextlib import suppress

import torch
from torch import Tensor, nn

from horst.backbones.base import Backbone, Normalise, register_backbone
from horst.errors import ConfigError, MissingExtraError, did_you_mean
from horst.extras import import_torchvision, require


@register_backbone("timm")
class TimmBackbone(Backbone):
    """One feature map of a timm model: `out_index` counts its maps from the largest, -1 is the smallest.

    `pretrained` downloads the weights that timm names for the model.
    """

    def __init__(self, *, model: str, out_index: int = -1, pretrained: bool = False, frozen: bool = True) -> None:
        super().__init__(frozen=frozen)
        try:
            with suppress(ModuleNotFoundError):
                import_torchvision()
            timm = require("timm", "timm")
        except RuntimeError as error:  # from a torchvision that was built for another torch
            needed = f"it needs the torchvision that matches torch {torch.__version__}"
            raise MissingExtraError(f"timm is installed but cannot be imported ({error}): {needed}") from error
        # timm also takes hf-hub:... and local-dir:..., but a config must not open other places
        if not timm.is_model(model):
            raise ConfigError(f"unknown timm model {model!r}{did_you_mean(model, timm.list_models())}")
        try:
            net = timm.create_model(model, features_only=True, out_indices=(out_index,), pretrained=pretrained)
        except (AssertionError, IndexError, RuntimeError) as error:
            what = f"no map {out_index} of {model!r} (pretrained={pretrained})"
            raise ConfigError(f"timm gives {what}: {error}") from error
        config = require("timm.data", "timm").resolve_model_data_config(net)
        self.channels = int(net.feature_info.channels()[-1])
        self.normalise = Normalise(config["mean"], config["std"], scale=255.0)
        self.net: nn.Module = net
        self._channels_last = getattr(getattr(net, "output_fmt", None), "value", "NCHW") == "NHWC"
        self._sizes: dict[tuple[int, int], tuple[int, int]] = {}
        self._freeze()

    def features(self, x: Tensor) -> Tensor:
        out: Tensor = self.net(x)[-1]
        return out.permute(0, 3, 1, 2) if self._channels_last else out  # (N, C, h, w)

    def output_size(self, height: int, width: int) -> tuple[int, int]:
        # Every family of networks rounds differently, so run the network on the meta device, which computes shapes
        # only. Two frames, because BatchNorm cannot train on a single value.
        if (height, width) not in self._sizes:
            frames = torch.empty(2, self.input_channels, height, width, device="meta")
            tensors = (*self.named_parameters(), *self.named_buffers())
            shadow = {name: tensor.detach().to("meta") for name, tensor in tensors}
            out: Tensor = torch.func.functional_call(self, shadow, (frames,))
            self._sizes[height, width] = (out.shape[2], out.shape[3])
        return self._sizes[height, width]
