"""Which implementation runs a HORST layer over a clip.

    reference   PyTorch, on any device
    compiled    the recurrence through torch.compile
    triton      the kernels of `horst.ops.fused`: NVIDIA GPUs, all options of the paper except joint attention

The code or a config decides first, then the environment variable HORST_BACKEND, then the best one available.
"""

from __future__ import annotations

import importlib.util
import logging
import os
from dataclasses import dataclass
from typing import Any, Literal, get_args

import torch

from horst.config import check_type
from horst.errors import ConfigError

Name = Literal["reference", "compiled", "triton"]
Wanted = Literal["auto", "reference", "compiled", "triton"]
VARIABLE = "HORST_BACKEND"

log = logging.getLogger(__name__)
_logged: set[str] = set()
_chosen: dict[tuple[Any, ...], BackendChoice] = {}


@dataclass(frozen=True, slots=True)
class BackendChoice:
    name: Name
    why: str

    def __str__(self) -> str:
        return f"{self.name}: {self.why}"


def choose(device: torch.device, unknown: str = "", wanted: Wanted = "auto") -> BackendChoice:
    """The implementation for a device. `unknown` names the options of the layer that have no kernels."""
    key = (device, unknown, wanted, os.environ.get(VARIABLE), _interpreted())
    if key not in _chosen:  # streams ask at every frame
        _chosen[key] = _choose(device, unknown, wanted)
    choice = _chosen[key]
    text = f"{choice} ({device})"
    if text not in _logged:  # once, not for every layer
        _logged.add(text)
        log.info("backend %s", text)
    return choice


def by_kernels(part: Any, x: torch.Tensor) -> bool:
    """Whether the kernels run x in a part of a model. They compute in float32 and are opaque to compilers."""
    if torch.compiler.is_compiling() or x.dtype == torch.float64:
        return False
    return bool(part.backend(x.device).name == "triton")


def _choose(device: torch.device, unknown: str, wanted: Wanted) -> BackendChoice:
    check_type("backend", wanted, Wanted)
    by = "requested"
    if wanted == "auto" and (set_ := os.environ.get(VARIABLE)):
        if set_ not in get_args(Wanted):
            raise ConfigError(f"{VARIABLE} is {set_!r}; choose from {', '.join(get_args(Wanted))}")
        wanted, by = set_, f"set by {VARIABLE}"  # type: ignore[assignment]
    hindrance = _hindrance(device, unknown)
    if wanted == "auto":
        if hindrance or _interpreted():
            return BackendChoice("reference", hindrance or "Triton's interpreter is only for tests")
        return BackendChoice("triton", f"{torch.cuda.get_device_name(device)} and Triton are available")
    if wanted == "triton" and hindrance:
        raise ConfigError(f"the backend triton ({by}) cannot run: {hindrance}")
    return BackendChoice(wanted, by)


def _hindrance(device: torch.device, unknown: str) -> str:
    """Why the kernels cannot run; empty if they can."""
    if unknown:
        return f"there are no kernels for {unknown}"
    if importlib.util.find_spec("triton") is None:
        return "Triton is not installed: pip install 'horst-video[triton]'"
    if _interpreted():
        return ""
    if device.type != "cuda":
        return f"the kernels need an NVIDIA GPU, this is {device.type}"
    if torch.cuda.get_device_capability(device) < (8, 0):
        return f"{torch.cuda.get_device_name(device)} is too old: the kernels need compute capability 8.0"
    return ""


def _interpreted() -> bool:
    return os.environ.get("TRITON_INTERPRET") == "1"
