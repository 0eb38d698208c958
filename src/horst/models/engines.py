"""Which engine runs the step of live streams.

    kernels       on a GPU, `horst.ops.fused`: the whole step, from pixels to logits, in one CUDA graph
    onnxruntime   on a CPU, where it is installed and there are graphs for the model; see `horst.export.engine`.
                  Of other cores than HORST it runs the backbone
    torch         elsewhere, `Predictor.step`

The code decides first, then the environment variable HORST_ENGINE.
"""

import importlib.util
import os
from typing import TYPE_CHECKING, Literal

import torch

from horst.config import check_type
from horst.errors import ConfigError, HorstError
from horst.layers import HORST
from horst.models.predictor import Predictor

if TYPE_CHECKING:
    from horst.export.engine import Engine

EngineName = Literal["auto", "onnxruntime", "torch"]
VARIABLE = "HORST_ENGINE"


def choose_engine(
    model: Predictor, wanted: EngineName = "auto", *, size: tuple[int, int] | None = None, export: bool = False
) -> tuple[str, str, "Engine | None"]:
    """The name of the engine, why, and onnxruntime's if that is the one. Arguments: see `BatchedStep`."""
    by, device = "requested", next(model.parameters()).device
    if wanted == "auto" and (variable := os.environ.get(VARIABLE)):
        wanted, by = variable, f"set by {VARIABLE}"  # type: ignore[assignment]
    check_type("engine", wanted, EngineName)
    if model.backbone.window > 1:
        why = f"the backbone {type(model.backbone).__name__} has a memory, which only torch runs"
        if wanted == "onnxruntime":
            raise ConfigError(f"the engine onnxruntime ({by}) cannot run: {why}")
        return "torch", why, None
    backend = model.core.backend(device)
    has_kernels = isinstance(model.core, HORST) and not model.head.unrolls
    if wanted != "onnxruntime" and backend.name == "triton" and has_kernels:
        return "kernels", backend.why, None
    if wanted == "torch":
        return "torch", by, None
    try:
        engine = _open_engine(model, size or model.size, device, export=export or wanted == "onnxruntime")
    except HorstError as error:
        if wanted == "onnxruntime":
            raise ConfigError(f"the engine onnxruntime ({by}) cannot run: {error}") from error
        return "torch", str(error), None
    return "onnxruntime", by if wanted == "onnxruntime" else "it is installed and has graphs for this model", engine


def _open_engine(model: Predictor, size: tuple[int, int], device: torch.device, *, export: bool) -> "Engine":
    if device.type != "cpu" or next(model.parameters()).dtype != torch.float32:
        raise ConfigError("onnxruntime runs models in fp32 on a CPU")
    if model.head.unrolls or size != model.size:
        raise ConfigError("the graphs are for models that do not unroll, at their own size")
    if model.head.video is not None and model.head.video.sequence is not None:
        raise ConfigError("the graphs have no sequence of the next actions")
    for name in ("onnxruntime", "onnx", "onnxscript"):
        if not importlib.util.find_spec(name):  # without importing it
            raise ConfigError(f"{name} is not installed: pip install 'horst-video[export]'")
    from horst.export.engine import open_engine

    return open_engine(model, export=export)
