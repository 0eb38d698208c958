"""horst: predict human actions from video while they unfold.

    video -> data -> backbones -> layers (over ops) -> heads -> models
          -> evaluation -> synth -> training -> streaming -> finetune -> { export, viz, serving, studies, cli }

A folder imports only from folders to its left; `ops`, `layers` and `heads` need torch alone. Names below are imported
when they are first used, so that `import horst` and `horst --help` are quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from horst.errors import HorstError as HorstError
    from horst.layers import HORST as HORST
    from horst.layers import HORSTConfig as HORSTConfig
    from horst.models import BatchedStep as BatchedStep
    from horst.models import Predictor as Predictor
    from horst.models import create_model as create_model
    from horst.models import open_model as open_model

__version__ = "0.1.0.dev0"

_HOME = {
    "HORST": "horst.layers",
    "HORSTConfig": "horst.layers",
    "HorstError": "horst.errors",
    "Predictor": "horst.models",
    "BatchedStep": "horst.models",
    "create_model": "horst.models",
    "open_model": "horst.models",
}
_PARTS = (
    "backbones", "compat", "data", "errors", "evaluation", "finetune", "heads", "layers", "models", "ops", "serving",
    "streaming", "studies", "synth", "training", "video", "viz",
)  # fmt: skip
# Not "export": jsonargparse looks for a command's name here, and `horst --help` would wait for torch.
__all__ = [*_HOME, "__version__"]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    if name in _PARTS:
        return import_module(f"horst.{name}")
    raise AttributeError(f"module 'horst' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted((*__all__, *_PARTS))
