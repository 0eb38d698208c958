"""The inputs and outputs of an exported graph: names, shapes and dtypes, and what else a client has to know.

    step   frame, state of every layer      ->  logits of every task, the next state
    clip   frames                           ->  logits of every task at every frame

A stream starts from a state of zeros. `about` is this contract as JSON, stored in the file.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor

import horst
from horst.backbones import PrecomputedMaps
from horst.errors import ConfigError
from horst.models import Predictor

What = Literal["step", "clip"]
Format = Literal["onnx", "torch", "aoti"]

FORMAT = 1
"""Version of the contract; it changes when clients have to."""
KEY = "horst"
"""The key of `about` in a file."""
BATCH, TIME = "batch", "time"
NEXT = "next_"


@dataclass(frozen=True, slots=True)
class Port:
    """An input or output tensor."""

    name: str
    shape: tuple[int | str, ...]
    """Axes of variable length are named."""
    dtype: str

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name, "shape": list(self.shape), "dtype": self.dtype}


@dataclass(frozen=True, slots=True)
class Contract:
    what: What
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    state: tuple[Port, ...]
    """For a step: the inputs that are the state. The output next_NAME is the input NAME of the next step."""
    about: dict[str, Any]


def contract(model: Predictor, what: What, *, frames: int | None = None, unroll: int | None = None) -> Contract:
    """The contract of a model's step, or of its clip of any or a fixed number of frames."""
    _check(model, what, frames, unroll)
    kind = "float32" if isinstance(model.backbone, PrecomputedMaps) else "uint8"
    image = (model.backbone.input_channels, *model.size)
    state: tuple[Port, ...] = ()
    time: tuple[int | str, ...] = ()
    if what == "step":
        seen = Port("frame", (BATCH, *image), kind)
        state = tuple(
            Port(name, (BATCH, *tensor.shape[1:]), str(tensor.dtype).removeprefix("torch."))
            for name, tensor in model.init_state(1, *model.size).tensors()
        )
    else:
        time = (frames or TIME,)
        seen = Port("frames", (BATCH, *time, *image), kind)
    logits = tuple(Port(task, (BATCH, *time, count), "float32") for task, count in model.head.classes.items())
    after = tuple(Port(f"{NEXT}{port.name}", port.shape, port.dtype) for port in state)
    about = {
        "format": FORMAT,
        "horst": horst.__version__,
        "what": what,
        "model": model.core.config.about,
        "variant": getattr(model.core.config, "variant", None),
        "size": list(model.size),
        "fps": model.fps,
        "pixels": "RGB, 0..255" if kind == "uint8" else "maps of a backbone",
        "normalisation": _normalisation(model),
        "tasks": dict(model.head.classes),
        "labels": model.labels or {},
        "unroll": unroll,
        "inputs": [port.to_dict() for port in (seen, *state)],
        "outputs": [port.to_dict() for port in (*logits, *after)],
        "state": {port.name: f"{NEXT}{port.name}" for port in state},
        "start": "zeros",
    }
    return Contract(what, (seen, *state), (*logits, *after), state, about)


def _check(model: Predictor, what: What, frames: int | None, unroll: int | None) -> None:
    if frames is not None and (what == "step" or frames < 1):
        raise ConfigError(f"frames is {frames}; it must be 1 or more, and only for what='clip' (here {what!r})")
    if what == "step" and not model.core.streaming:
        raise ConfigError(f"{model.core.config.title} takes only whole clips: export what='clip'")
    if model.head.unrolls and unroll is None:
        raise ConfigError(
            "this model's head unrolls until the action, and a graph needs a fixed number of steps: "
            "pass unroll (tau_a * fps steps)"
        )
    if not model.head.unrolls and unroll is not None:
        raise ConfigError(f"unroll is {unroll}, but this model's head does not unroll: leave it out")
    if unroll is not None and unroll < 1:
        raise ConfigError(f"unroll is {unroll}; it counts LSTM steps and must be 1 or more")


def _normalisation(model: Predictor) -> dict[str, Any]:
    """For information only: the graph normalises. Mean and deviation are for 0..255, in the network's channel order."""
    found: dict[str, Any] = {"in_graph": True}
    normalise = getattr(model.backbone, "normalise", None)
    for name in ("mean", "std"):
        values = getattr(normalise, name, None)
        if isinstance(values, Tensor):
            found[name] = [round(v, 4) for v in values.flatten().tolist()]
    return found
