"""The inputs and outputs of an exported graph: names, shapes and dtypes, and what else a client has to know.

    step   frame, state of every layer      ->  logits of every task, the next state
    clip   frames                           ->  logits of every task at every frame

A stream starts from a state of zeros. `about` is this contract as JSON, stored in the file.
"""

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from torch import Tensor

import horst
from horst.backbones import CellsBackbone
from horst.errors import ConfigError
from horst.models import Predictor
from horst.models.fused import FusedCore

What = Literal["step", "clip"]
Format = Literal["onnx", "torch", "aoti"]

FORMAT = 1  # version of the contract; it changes when clients have to
KEY = "horst"  # the key of `about` in a file
BATCH, TIME = "batch", "time"
NEXT = "next_"


class Port(NamedTuple):
    """An input or output tensor. Axes of variable length are named."""

    name: str
    shape: list[int | str]
    dtype: str


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
    kind = "float32" if model.backbone.precomputed else "uint8"
    image = (model.backbone.input_channels, *model.size)
    time = [frames or TIME] if what == "clip" else []
    seen = Port("frames" if time else "frame", [BATCH, *time, *image], kind)
    tensors = model.init_state(1, *model.size).tensors() if what == "step" else ()
    state = tuple(Port(n, [BATCH, *t.shape[1:]], str(t.dtype).removeprefix("torch.")) for n, t in tensors)
    logits = tuple(Port(task, [BATCH, *time, count], "float32") for task, count in model.head.classes.items())
    after = tuple(port._replace(name=f"{NEXT}{port.name}") for port in state)
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
        "inputs": [port._asdict() for port in (seen, *state)],
        "outputs": [port._asdict() for port in (*logits, *after)],
        "state": {port.name: f"{NEXT}{port.name}" for port in state},
        "start": "zeros",
    }
    return Contract(what, (seen, *state), (*logits, *after), state, about)


def _check(model: Predictor, what: What, frames: int | None, unroll: int | None) -> None:
    if frames is not None and (what == "step" or frames < 1):
        raise ConfigError(f"frames is {frames}; it must be 1 or more, and only for what='clip' (here {what!r})")
    if model.backbone.window > 1:
        name, maps = type(model.backbone).__name__, "export a model trained on its extracted maps (horst extract)"
        remedy = "export a model without `difference`" if isinstance(model.backbone, CellsBackbone) else maps
        raise ConfigError(f"the backbone {name} reads a window of frames, which graphs do not contain: {remedy}")
    if isinstance(model.core, FusedCore):
        remedy = "export the models of its runs one by one, and average their probabilities"
        raise ConfigError(f"a fused model has the states of several models, which graphs do not contain: {remedy}")
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
