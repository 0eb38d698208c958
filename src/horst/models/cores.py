"""The temporal cores by name: HORST and those of the methods that it is compared with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from horst.errors import ConfigError, did_you_mean
from horst.layers import HORST, Core, CoreConfig, HORSTConfig

CORES: dict[str, tuple[type[CoreConfig], Callable[[Any], Core]]] = {"horst": (HORSTConfig, HORST)}
"""The config and the core of each name. `horst.models.methods` adds its own."""


def core_config(data: dict[str, Any]) -> CoreConfig:
    """From plain data: {"name": ..., **options}; without a name it is HORST."""
    options = dict(data)
    name = options.pop("name", "horst")
    if name not in CORES:
        raise ConfigError(f"there is no core {name!r}{did_you_mean(name, CORES, 'There are')}")
    return CORES[name][0].from_dict(options)


def create_core(config: CoreConfig) -> Core:
    """The core of a config, with fresh weights."""
    return CORES[config.name][1](config)
