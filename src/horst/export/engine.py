"""Run the step of a model by onnxruntime, from the graphs of `horst.export.stages`.

A graph belongs to an architecture, not to weights. Those of the packaged models come with the package; others are
written once into the cache folder (HORST_CACHE, by default ~/.cache/horst). An engine is compared with its model when
it is opened, so a graph of another version cannot give wrong predictions.
"""

from collections.abc import Callable, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from horst.errors import ExportError, HorstError
from horst.export import stages
from horst.export.check import LIMIT, random_frames
from horst.export.graph import onnx_session
from horst.extras import require
from horst.heads.base import TASKS
from horst.io import atomic_write, cache_folder, digest, disk_errors
from horst.models import Predictor
from horst.models.engines import choose_engine

CHECKED = 3  # frames of two streams


def graph_path(model: Predictor, name: str) -> Path:
    """Where the graph of a stage is, or where it will be written."""
    file = f"{name}-{digest(stages.architecture(model, name))[:16]}.onnx"
    shipped = Path(str(files("horst") / "assets" / "graphs" / file))
    return shipped if shipped.is_file() else cache_folder() / "graphs" / file


def open_engine(model: Predictor, *, export: bool = False) -> "Engine":
    """The engine of a model. ExportError if there is none. `export`: write missing graphs, which takes some seconds."""
    paths = [graph_path(model, name) for name in stages.stages(model)]
    missing = not all(path.is_file() for path in paths)
    if missing and not export:
        raise ExportError("there are no graphs for this model yet: pass export=True, or run horst serve once")
    try:
        write_graphs(model)
        return Engine(model)
    except ExportError:
        old = [path for path in paths if path.is_relative_to(cache_folder())]  # perhaps of another version
        if missing or not export or not old:
            raise
        for path in old:
            path.unlink(missing_ok=True)
        write_graphs(model)
        return Engine(model)


def fast_backbone(model: Predictor) -> Callable[[Tensor], Tensor]:
    """Frames to maps: the backbone of a model, by onnxruntime if that is its engine."""
    engine = choose_engine(model)[2]
    return model.backbone if engine is None or engine.advances else engine.maps


def write_graphs(model: Predictor) -> None:
    """Write the graphs that are missing."""
    for name in stages.stages(model):
        path = graph_path(model, name)
        if not path.is_file():
            graph = stages.graph(model, name)
            with disk_errors(path.parent, ExportError), atomic_write(path) as partial:
                partial.write_bytes(graph)


class Engine:
    """Both stages of a model, with its weights and with as many threads as torch has; see `open_engine`."""

    def __init__(self, model: Predictor) -> None:
        found = stages.stages(model)
        self.advances = "advance" in found
        """Whether there is a second stage. If not, the first one gives the maps of the backbone."""
        self.tasks = [task for task in TASKS if task in model.head.classes]
        try:
            self._run = {name: self._open(model, name, stage) for name, stage in found.items()}
            difference = self._difference(model)
        except HorstError:
            raise
        except Exception as error:  # errors of two libraries without a common class
            raise ExportError(f"onnxruntime cannot use the graphs of this model: {error}") from error
        if not difference <= LIMIT:  # NaN too
            raise ExportError(f"onnxruntime's predictions differ from the model's by {difference:.1e}")

    def observe(self, frames: Tensor) -> list[Any]:
        """frames (F, 3, H, W) uint8 -> arrays (F, ...)."""
        return self._run["observe"]([np.ascontiguousarray(frames.numpy())])

    def maps(self, frames: Tensor) -> Tensor:
        """As `observe`, of an engine without a second stage."""
        return torch.from_numpy(self.observe(frames)[0])

    def advance(self, observed: Sequence[Any], state: Sequence[Any]) -> tuple[dict[str, Any], list[Any]]:
        """The logits of each task, and an entry of each ring."""
        found = self._run["advance"]([*observed, *state])
        return dict(zip(self.tasks, found, strict=False)), found[len(self.tasks) :]

    def _open(self, model: Predictor, name: str, stage: torch.nn.Module) -> Any:
        onnx = require("onnx", "export")
        proto = onnx.load_from_string(graph_path(model, name).read_bytes())
        weights, inputs = stages.weights(stage), []
        for value in proto.graph.input:
            if value.name.startswith(stages.WEIGHT):
                weight = weights[value.name.removeprefix(stages.WEIGHT)].numpy()
                proto.graph.initializer.append(onnx.numpy_helper.from_array(weight, value.name))
            else:
                inputs.append(value)
        del proto.graph.input[:]
        proto.graph.input.extend(inputs)
        session = onnx_session(proto.SerializeToString(), torch.get_num_threads(), log_severity_level=3)  # errors
        names = [value.name for value in inputs]
        return lambda arrays: session.run(None, dict(zip(names, arrays, strict=True)))

    @torch.inference_mode()
    def _difference(self, model: Predictor) -> float:
        """The largest difference from the model's logits or maps, relative to the largest of these above 1."""
        state = model.init_state(2, *model.size)
        pairs: list[tuple[Tensor, Tensor]] = []
        for frame in random_frames(model, 2, CHECKED, seed=0).unbind(1):
            if not self.advances:
                pairs.append((self.maps(frame), model.backbone(frame)))
                break  # the backbone has no memory
            found, _ = self.advance(self.observe(frame), [tensor.numpy() for _, tensor in state.tensors()])
            out, state = model.step(frame, state)
            pairs += [(torch.from_numpy(found[task]), out.logits[task]) for task in self.tasks]
        # torch's maximum is NaN if a value is; Python's may drop it
        return float(torch.stack([(a - b).abs().max() / b.abs().max().clamp_min(1.0) for a, b in pairs]).max())
