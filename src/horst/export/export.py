"""Write, check, and only then put in place."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import torch

from horst.config import check_type
from horst.errors import ConfigError, ExportError
from horst.export.check import ExportReport, compare, time_both
from horst.export.contract import Format, What, contract
from horst.export.graph import open_graph
from horst.export.scan import clip_of
from horst.export.to_onnx import OPSET, to_onnx
from horst.export.to_torch import compile_program, save_program
from horst.export.trace import trace
from horst.io import atomic_write
from horst.models import Predictor

SUFFIX: dict[str, str] = {"onnx": ".onnx", "torch": ".pt2", "aoti": ".pt2"}
COMPARED = 24
"""Frames: the ring of S states goes round, and a stream that starts half way fills it."""


def export_model(
    model: Predictor,
    path: Path,
    *,
    what: What = "step",
    format: Format = "onnx",
    frames: int | None = None,
    unroll: int | None = None,
    opset: int | None = None,
    force: bool = False,
    repeat: int = 50,
) -> ExportReport:
    """Write `model` to the file `path`. What does not say what the model says is not kept.

    Args:
        model: In evaluation mode, fp32, on the CPU.
        path: An .onnx or a .pt2 file. One that exists is replaced only by `force`.
        what: A step with its state, or a clip that starts afresh.
        format: onnx; torch (torch.export); aoti (AOTInductor, compiled for this machine).
        frames: Of a clip: a fixed number; any number by default.
        unroll: Of an unrolling head: LSTM steps until the action, at every frame.
        opset: Of ONNX; 20 by default.
        force: Replace a file that exists.
        repeat: How many frames to time.
    """
    check_type("what", what, What)
    check_type("format", format, Format)
    path = Path(path)
    if path.suffix != SUFFIX[format]:
        raise ConfigError(f"{path} does not end with {SUFFIX[format]}, as a file of the format {format} does")
    if what == "clip" and format != "onnx":
        raise ConfigError(f"a clip is exported as onnx alone: the format {format} takes --what step")
    if opset is not None and format != "onnx":
        raise ConfigError(f"opset is {opset}, and is of ONNX alone: the format is {format}")
    if path.exists() and not force:
        raise ExportError(f"{path} exists: pass --force to replace it, or choose another name")
    wanted = contract(model, what, frames=frames, unroll=unroll)
    of_step = contract(model, "step", unroll=unroll)
    program = trace(model, of_step, unroll)
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / f"graph{path.suffix}"
        if format == "onnx":
            proto = to_onnx(program, of_step, OPSET if opset is None else opset)
            if what == "clip":
                proto = clip_of(proto, of_step, wanted)
            made.write_bytes(proto.SerializeToString())
        elif format == "torch":
            save_program(program, wanted, made)
        else:
            compile_program(program, wanted, made)
        graph = open_graph(made, format)
        compared = frames or COMPARED
        error = compare(graph, model, compared)
        graph_ms, eager_ms = time_both(
            graph, model, compared, repeat=repeat if what == "step" else -(-repeat // compared)
        )
        size = made.stat().st_size
        try:
            with atomic_write(path) as partial:
                shutil.copyfile(made, partial)
        except OSError as failure:
            raise ExportError(f"{path} cannot be written: {failure}") from failure
    return ExportReport(path, size, compared, error, graph_ms, eager_ms, torch.get_num_threads())
