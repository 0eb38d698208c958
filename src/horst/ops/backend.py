"""Which implementation runs a HORST layer over a clip.

    reference   PyTorch, on any device
    compiled    the recurrence through torch.compile
    triton      the kernels of `horst.ops.fused`: NVIDIA GPUs, all options of the paper except joint attention

The code or a config decides first, then the environment variable HORST_BACKEND, then the best one available.
"""

import importlib.util
import logging
import os
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, get_args

import torch

from horst.config import check_type
from horst.errors import ConfigError

Name = Literal["reference", "compiled", "triton"]
Wanted = Literal["auto", "reference", "compiled", "triton"]
VARIABLE = "HORST_BACKEND"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class BackendChoice:
    name: Name
    why: str

    def __str__(self) -> str:
        return f"{self.name}: {self.why}"


def choose(device: torch.device, unknown: str = "", wanted: Wanted = "auto") -> BackendChoice:
    """The implementation for a device. `unknown` names the options of the layer that have no kernels."""
    interpreted = os.environ.get("TRITON_INTERPRET") == "1"
    choice = _choose(device, unknown, wanted, os.environ.get(VARIABLE), interpreted)
    _log_once(f"{choice} ({device})")  # not for every layer
    return choice


@cache
def _log_once(text: str) -> None:
    log.info("backend %s", text)


def by_kernels(part: Any, x: torch.Tensor) -> bool:
    """Whether the kernels run x in a part of a model. They compute in float32 and are opaque to compilers."""
    if torch.compiler.is_compiling() or x.dtype == torch.float64:
        return False
    return bool(part.backend(x.device).name == "triton")


@cache  # streams ask at every frame
def _choose(
    device: torch.device, unknown: str, wanted: Wanted, variable: str | None, interpreted: bool
) -> BackendChoice:
    check_type("backend", wanted, Wanted)
    by = "requested"
    if wanted == "auto" and variable:
        if variable not in get_args(Wanted):
            raise ConfigError(f"{VARIABLE} is {variable!r}; choose from {', '.join(get_args(Wanted))}")
        wanted, by = variable, f"set by {VARIABLE}"  # type: ignore[assignment]
    hindrance = _hindrance(device, unknown, interpreted)
    if wanted == "auto":
        if hindrance or interpreted:
            return BackendChoice("reference", hindrance or "Triton's interpreter is only for tests")
        return BackendChoice("triton", f"{torch.cuda.get_device_name(device)} and Triton are available")
    if wanted == "triton" and hindrance:
        raise ConfigError(f"the backend triton ({by}) cannot run: {hindrance}")
    return BackendChoice(wanted, by)


def _hindrance(device: torch.device, unknown: str, interpreted: bool) -> str:
    """Why the kernels cannot run; empty if they can."""
    if unknown:
        return f"there are no kernels for {unknown}"
    if importlib.util.find_spec("triton") is None:
        return "Triton is not installed: pip install 'horst-video[triton]'"
    if interpreted:
        return ""
    if device.type != "cuda":
        return f"the kernels need an NVIDIA GPU, this is {device.type}"
    if torch.cuda.get_device_capability(device) < (8, 0):
        return f"{torch.cuda.get_device_name(device)} is too old: the kernels need compute capability 8.0"
    return ""
