"""Export a model: write a file, check it, and only then move it into place."""

import json
import shutil
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path

import torch
from torch.export import ExportedProgram

from horst.config import check_type
from horst.errors import ConfigError, ExportError
from horst.export.check import ExportReport, compare, time_both
from horst.export.contract import KEY, Contract, Format, What, contract
from horst.export.graph import open_graph
from horst.export.step import trace
from horst.export.to_onnx import OPSET, clip_of, to_onnx
from horst.io import atomic_write, disk_errors
from horst.models import Predictor

SUFFIX: dict[str, str] = {"onnx": ".onnx", "torch": ".pt2", "aoti": ".pt2"}
COMPARED = 24  # frames: enough for the ring of S states to wrap around, also after a reset half way


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
    report: Callable[[str], None] = lambda stage: None,
) -> ExportReport:
    """Write `model` to the file `path`, unless its outputs differ from the model's.

    Args:
        model: In evaluation mode, fp32, on the CPU.
        path: An .onnx or a .pt2 file.
        what: A step with its state, or a clip that starts from the initial state.
        format: onnx; torch (torch.export); aoti (AOTInductor, compiled for this machine).
        frames: Fixed number of frames of a clip; any number by default.
        unroll: For an unrolling head: LSTM steps until the action, at every frame.
        opset: ONNX opset; 20 by default.
        force: Replace an existing file.
        repeat: How many frames to time.
        report: Called with what is being done: an export takes half a minute.
    """
    check_type("what", what, What)
    check_type("format", format, Format)
    path = Path(path)
    if path.suffix != SUFFIX[format]:
        raise ConfigError(f"{path} must end with {SUFFIX[format]} for the format {format}")
    if what == "clip" and format != "onnx":
        raise ConfigError(f"a clip can only be exported as onnx: the format {format} needs --what step")
    if opset is not None and format != "onnx":
        raise ConfigError(f"opset is {opset}, but the format is {format}: only onnx has an opset")
    if path.exists() and not force:
        raise ExportError(f"{path} exists: pass --force to replace it, or choose another name")
    wanted = contract(model, what, frames=frames, unroll=unroll)
    of_step = contract(model, "step", unroll=unroll)
    report("tracing the model")
    program = trace(model, of_step, unroll)
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / f"graph{path.suffix}"
        report("converting" if format != "aoti" else "compiling")
        if format == "onnx":
            proto = to_onnx(program, of_step, OPSET if opset is None else opset)
            if what == "clip":
                proto = clip_of(proto, of_step, wanted)
            made.write_bytes(proto.SerializeToString())
        elif format == "torch":
            save_program(program, wanted, made)
        else:
            compile_program(program, wanted, made)
        report("comparing with the model")
        graph = open_graph(made, format)
        compared = frames or COMPARED
        error = compare(graph, model, compared)
        repeat = repeat if what == "step" else -(-repeat // compared)
        report("timing")
        graph_ms, eager_ms = time_both(graph, model, compared, repeat=repeat)
        size = made.stat().st_size
        with disk_errors(path, ExportError), atomic_write(path) as partial:
            shutil.copyfile(made, partial)
    return ExportReport(path, size, compared, error, graph_ms, eager_ms, torch.get_num_threads())


def save_program(program: ExportedProgram, contract: Contract, path: Path) -> None:
    torch.export.save(program, path, extra_files={f"{KEY}.json": json.dumps(contract.about)})


def compile_program(program: ExportedProgram, contract: Contract, path: Path) -> None:
    from torch._inductor import aoti_compile_and_package, cpp_builder, exc

    try:
        cpp_builder.get_cpp_compiler()
    except exc.InvalidCxxCompiler as error:
        raise ExportError("AOTInductor needs a C++ compiler: install g++, or set the variable CXX") from error
    options = {"aot_inductor.metadata": {KEY: json.dumps(contract.about)}}
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            aoti_compile_and_package(program, package_path=str(path), inductor_configs=options)
        except (exc.CppCompileError, RuntimeError) as error:
            raise ExportError(f"AOTInductor cannot compile this model's step: {error}") from error
