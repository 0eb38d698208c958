"""Parameters around the operators: the HORST layer, its state, the stack of layers, and the contract of all cores."""

from horst.layers.cell import HORSTCell
from horst.layers.config import HORSTConfig
from horst.layers.core import Core, CoreConfig, CoreOutput, State
from horst.layers.horst import HORST
from horst.layers.recurrent import CoreStep, LSTMCell, Memory, RecurrentCore, RecurrentState, VectorCore
from horst.layers.state import HORSTState, LayerState
from horst.layers.window import WindowCore

__all__ = [
    "HORST",
    "Core",
    "CoreConfig",
    "CoreOutput",
    "CoreStep",
    "HORSTCell",
    "HORSTConfig",
    "HORSTState",
    "LSTMCell",
    "LayerState",
    "Memory",
    "RecurrentCore",
    "RecurrentState",
    "State",
    "VectorCore",
    "WindowCore",
]
