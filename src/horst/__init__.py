"""horst: predict human actions from video while they unfold.

    video -> data -> backbones -> layers (over ops) -> heads -> models
          -> evaluation -> synth -> training -> streaming -> finetune -> { export, viz, serving, studies, cli }

A folder imports only from folders to its left; `ops`, `layers` and `heads` need torch only. The names below are
imported when they are first used, so that `import horst` and `horst --help` are fast.
"""

from typing import TYPE_CHECKING

from horst.extras import lazy_names

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

__version__ = "0.1.0"

_MODULES = (
    "backbones", "compat", "configs", "data", "errors", "evaluation", "export", "finetune", "heads", "layers", "models",
    "ops", "serving", "streaming", "studies", "synth", "training", "video", "viz",
)  # fmt: skip
_NAMES = {
    "BatchedStep": "models", "HORST": "layers", "HORSTConfig": "layers", "HorstError": "errors", "Predictor": "models",
    "create_model": "models", "list_models": "models", "open_model": "models", "register_backbone": "backbones",
    "register_core": "layers", "register_head": "heads", "register_loss": "training", "register_method": "models",
    "register_model": "models", "register_source": "data",
}  # fmt: skip
"""The public names, and the modules that define them."""
__all__ = [*_NAMES, "__version__"]
__getattr__ = lazy_names(__name__, _NAMES, _MODULES)


def __dir__() -> list[str]:
    return sorted((*__all__, *_MODULES))
