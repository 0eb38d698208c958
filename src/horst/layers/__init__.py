"""Parameters around the operators: the HORST layer, its state, and the stack of layers."""

from horst.layers.cell import HORSTCell
from horst.layers.config import HORSTConfig
from horst.layers.horst import HORST, CoreOutput
from horst.layers.state import HORSTState, LayerState

__all__ = ["HORST", "CoreOutput", "HORSTCell", "HORSTConfig", "HORSTState", "LayerState"]
