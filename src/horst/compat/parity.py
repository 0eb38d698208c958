"""Numerical checks on the current machine, for the demo and the benchmarks."""

import json
from importlib.resources import as_file, files
from typing import NamedTuple

import torch
from safetensors import safe_open
from torch import Tensor

from horst.compat import horst_from_official
from horst.layers import HORST
from horst.models import Predictor

LIMIT = 1e-5  # largest relative error in fp32 that counts as equal


def relative_error(found: Tensor, wanted: Tensor) -> float:
    """||found - wanted|| / ||wanted||, infinite if anything is NaN."""
    error = ((found - wanted).norm() / wanted.norm()).item()
    return error if error == error else float("inf")


class Release(NamedTuple):
    """Recorded outputs of the official release for random weights, and our core with these weights."""

    core: HORST
    tensors: dict[str, Tensor]
    lengths: list[int]


def recorded_release() -> Release:
    """The recorded run in the package: two blocks of one layer, S = 4, 9 frames of 8x10."""
    with as_file(files("horst") / "assets" / "official_horst.safetensors") as path, safe_open(path, "pt") as file:
        facts = {key: json.loads(value) for key, value in file.metadata().items()}
        tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118  (no mapping)
    weights = {key.removeprefix("weight."): value for key, value in tensors.items() if key.startswith("weight.")}
    config = facts["config"]
    core = horst_from_official(weights, stride=config["stride"], steps=config["steps"])
    return Release(core, tensors, facts["lengths"])


def against_release() -> dict[str, float]:
    """Relative errors of our released variant against the release's recorded outputs."""
    core, recorded, lengths = recorded_release()
    out, _ = core(recorded["input"])
    shorter, _ = core(recorded["input"], lengths=lengths)
    errors = {
        "y": relative_error(out.y, recorded["output"]),
        "y, clips of different lengths": relative_error(shorter.y, recorded["output_variable_length"]),
    }
    for title, name, ours in (("e", "e", out.e), ("STATT", "statt", out.statt)):
        layers = (relative_error(layer, recorded[f"{name}.b{i}l0"]) for i, layer in enumerate(ours))
        errors[f"{title}, all layers"] = max(layers)
    return errors


def clip_and_steps(model: Predictor, clip: Tensor) -> dict[str, float]:
    """Relative errors of the logits of single steps, and of a prefix followed by steps, against the whole clip."""
    batch, frames, _, height, width = clip.shape
    whole, errors = model(clip)[0].logits.action, {}
    for name, start in (("single steps", 0), ("prefix, then steps", frames // 2)):
        found, state = [], model.init_state(batch, height, width)
        if start:
            out, state = model(clip[:, :start])
            found = [out.logits.action]
        for frame in clip[:, start:].unbind(1):
            out, state = model.step(frame, state)
            found.append(out.logits.action.unsqueeze(1))
        errors[name] = relative_error(torch.cat(found, 1), whole)
    return errors
