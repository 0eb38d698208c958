"""Which implementation runs a HORST layer over a clip.

    reference   plain PyTorch, anywhere
    compiled    the recurrence through torch.compile
    triton      the kernels of `horst.ops.fused`: NVIDIA GPUs, all that the paper compares but joint attention

What the code or a config asks for goes first, then the environment's HORST_BACKEND, then the best that fits.
"""

from __future__ import annotations

import importlib.util
import logging
import os
from dataclasses import dataclass
from typing import Literal, get_args

import torch

from horst.config import check_type
from horst.errors import ConfigError

Name = Literal["reference", "compiled", "triton"]
Wanted = Literal["auto", "reference", "compiled", "triton"]
VARIABLE = "HORST_BACKEND"

log = logging.getLogger(__name__)
_told: set[str] = set()


@dataclass(frozen=True, slots=True)
class Choice:
    name: Name
    why: str

    def __str__(self) -> str:
        return f"{self.name}: {self.why}"


def choose(device: torch.device, unknown: str = "", wanted: Wanted = "auto") -> Choice:
    """The implementation for a device. `unknown` names the options of the layer that have no kernels."""
    choice = _choose(device, unknown, wanted)
    told = f"{choice} ({device})"
    if told not in _told:  # once, not for every layer
        _told.add(told)
        log.info("backend %s", told)
    return choice


def _choose(device: torch.device, unknown: str, wanted: Wanted) -> Choice:
    check_type("backend", wanted, Wanted)
    by = "asked for"
    if wanted == "auto" and (set_ := os.environ.get(VARIABLE)):
        if set_ not in get_args(Wanted):
            raise ConfigError(f"{VARIABLE} is {set_!r}; choose from {', '.join(get_args(Wanted))}")
        wanted, by = set_, f"{VARIABLE} says so"  # type: ignore[assignment]
    hindrance = _hindrance(device, unknown)
    if wanted == "auto":
        if hindrance or _interpreted():
            return Choice("reference", hindrance or "Triton's interpreter is for tests")
        return Choice("triton", f"{torch.cuda.get_device_name(device)} and Triton are here")
    if wanted == "triton" and hindrance:
        raise ConfigError(f"the backend triton was {by} and cannot run: {hindrance}")
    return Choice(wanted, by)


def _hindrance(device: torch.device, unknown: str) -> str:
    """Why the kernels cannot run; empty where they can."""
    if unknown:
        return f"there are no kernels for {unknown}"
    if importlib.util.find_spec("triton") is None:
        return "Triton is not installed: pip install 'horst-video[triton]'"
    if _interpreted():
        return ""
    if device.type != "cuda":
        return f"the kernels are for NVIDIA GPUs, this is {device.type}"
    if torch.cuda.get_device_capability(device) < (8, 0):
        return f"{torch.cuda.get_device_name(device)} is older than the kernels' oldest, compute capability 8.0"
    return ""


def _interpreted() -> bool:
    return os.environ.get("TRITON_INTERPRET") == "1"
