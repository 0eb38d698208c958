"""Modules around the operators: the HORST layer, its state, the stack of layers, and the interface of all cores."""

from horst.layers.cell import HORSTCell
from horst.layers.config import HORSTConfig
from horst.layers.core import (
    CORES,
    Core,
    CoreConfig,
    CoreOutput,
    Device,
    LayersConfig,
    State,
    core_config,
    create_core,
    register_core,
)
from horst.layers.horst import HORST
from horst.layers.recurrent import CoreStep, LSTMCell, Memory, RecurrentCore, RecurrentState, VectorCore, WindowCore
from horst.layers.state import HORSTState, LayerState
from horst.masks import Lengths

__all__ = [
    "CORES",
    "HORST",
    "Core",
    "CoreConfig",
    "CoreOutput",
    "CoreStep",
    "Device",
    "HORSTCell",
    "HORSTConfig",
    "HORSTState",
    "LSTMCell",
    "LayerState",
    "LayersConfig",
    "Lengths",
    "Memory",
    "RecurrentCore",
    "RecurrentState",
    "State",
    "VectorCore",
    "WindowCore",
    "core_config",
    "create_core",
    "register_core",
]
