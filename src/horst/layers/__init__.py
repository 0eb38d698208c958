"""Parameters around the operators: the HORST layer, its state, the stack of layers, and the contract of all cores."""

from horst.layers.cell import HORSTCell
from horst.layers.config import HORSTConfig
from horst.layers.core import Core, CoreConfig, CoreOutput, State
from horst.layers.folded import FoldedCore, LSTMCell, Memory, RecurrentState, Said, VectorCore
from horst.layers.horst import HORST
from horst.layers.state import HORSTState, LayerState
from horst.layers.window import WindowCore

__all__ = [
    "HORST",
    "Core",
    "CoreConfig",
    "CoreOutput",
    "FoldedCore",
    "HORSTCell",
    "HORSTConfig",
    "HORSTState",
    "LSTMCell",
    "LayerState",
    "Memory",
    "RecurrentState",
    "Said",
    "State",
    "VectorCore",
    "WindowCore",
]
