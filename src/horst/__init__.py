"""horst: predict human actions from video while they unfold.

    video -> data -> backbones -> layers (over ops) -> heads -> models
          -> evaluation -> synth -> training -> streaming -> finetune -> { export, viz, serving, studies, cli }

A folder imports only from folders to its left; `ops`, `layers` and `heads` need torch only. The names below are
imported when they are first used, so that `import horst` and `horst --help` are fast.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from horst.backbones import register_backbone as register_backbone
    from horst.data import register_source as register_source
    from horst.errors import HorstError as HorstError
    from horst.heads import register_head as register_head
    from horst.layers import HORST as HORST
    from horst.layers import HORSTConfig as HORSTConfig
    from horst.layers import register_core as register_core
    from horst.models import BatchedStep as BatchedStep
    from horst.models import Predictor as Predictor
    from horst.models import create_model as create_model
    from horst.models import list_models as list_models
    from horst.models import open_model as open_model
    from horst.models import register_method as register_method
    from horst.models import register_model as register_model
    from horst.training import register_loss as register_loss

__version__ = "0.1.0.dev0"

_NAMES = {
    "backbones": ("register_backbone",),
    "data": ("register_source",),
    "errors": ("HorstError",),
    "heads": ("register_head",),
    "layers": ("HORST", "HORSTConfig", "register_core"),
    "models": (
        "BatchedStep", "Predictor", "create_model", "list_models", "open_model", "register_method", "register_model",
    ),
    "training": ("register_loss",),
}  # fmt: skip
_MODULE_OF = {name: module for module, names in _NAMES.items() for name in names}
_MODULES = (
    *_NAMES, "compat", "evaluation", "export", "finetune", "ops", "serving", "streaming", "studies", "synth",
    "video", "viz",
)  # fmt: skip
__all__ = [*_MODULE_OF, "__version__"]


def __getattr__(name: str) -> Any:
    if name in _MODULE_OF:
        return getattr(import_module(f"horst.{_MODULE_OF[name]}"), name)
    if name in _MODULES:
        return import_module(f"horst.{name}")
    raise AttributeError(f"module 'horst' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted((*__all__, *_MODULES))
