"""Run an exported file: arrays in, arrays out, for every format."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from horst.errors import ExportError, MissingExtraError
from horst.export.contract import FORMAT, KEY, Format
from horst.extras import require

Array = NDArray[Any]
Run = Callable[[Sequence[Array]], list[Array]]


@dataclass(frozen=True, slots=True)
class Graph:
    """`about` is the contract in the file; inputs and outputs are in its order."""

    about: dict[str, Any]
    run: Run

    def start(self, batch: int) -> list[Array]:
        """The initial state of a batch of streams."""
        ports = [port for port in self.about["inputs"] if port["name"] in self.about["state"]]
        return [np.zeros([batch, *port["shape"][1:]], port["dtype"]) for port in ports]

    def step(self, frame: Array, state: Sequence[Array]) -> tuple[dict[str, Array], list[Array]]:
        """Logits by task, and the state after the frame."""
        found = self.run([frame, *state])
        tasks = self.about["tasks"]
        return dict(zip(tasks, found, strict=False)), found[len(tasks) :]

    def clip(self, frames: Array) -> dict[str, Array]:
        return dict(zip(self.about["tasks"], self.run([frames]), strict=True))


def open_graph(path: Path, format: Format, *, threads: int | None = None) -> Graph:
    """Open a file that `export_model` wrote; `threads`: torch's number by default."""
    openers = {"onnx": _open_onnx, "torch": _open_torch, "aoti": _open_aoti}
    if not path.is_file():
        raise ExportError(f"{path}: there is no such file")
    try:
        text, run = openers[format](path, threads or torch.get_num_threads())
    except MissingExtraError:
        raise
    except Exception as error:  # errors of three libraries without a common class
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ExportError(f"{path} is damaged or not a file of the format {format}: {reason}") from error
    about = _about(text)
    if about.get("format") != FORMAT:
        raise ExportError(f"{path} does not have contract version {FORMAT}: another version or program wrote it")
    return Graph(about, run)


def _about(text: str) -> dict[str, Any]:
    """The contract from its JSON; empty if another program wrote it."""
    try:
        about = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return about if isinstance(about, dict) else {}


def _open_onnx(path: Path, threads: int) -> tuple[str, Run]:
    session = onnx_session(str(path), threads)
    about = session.get_modelmeta().custom_metadata_map.get(KEY, "")
    names = [value.name for value in session.get_inputs()]
    return about, lambda inputs: session.run(None, dict(zip(names, inputs, strict=True)))


def onnx_session(model: str | bytes, threads: int, **settings: Any) -> Any:
    """A session of onnxruntime on the CPU, for a file or its contents; `settings`: of `SessionOptions`."""
    onnxruntime = require("onnxruntime", "export")
    options = onnxruntime.SessionOptions()
    for name, value in {"intra_op_num_threads": threads, **settings}.items():
        setattr(options, name, value)
    # Spinning threads would take the cores from other computations.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def _open_torch(path: Path, threads: int) -> tuple[str, Run]:
    files = {f"{KEY}.json": ""}
    program = torch.export.load(path, extra_files=files)
    return files[f"{KEY}.json"], _by_torch(program.module())


def _open_aoti(path: Path, threads: int) -> tuple[str, Run]:
    from torch._inductor import aoti_load_package

    package: Any = aoti_load_package(str(path))
    return package.get_metadata().get(KEY, ""), _by_torch(package)


def _by_torch(module: Callable[..., Any]) -> Run:
    def run(inputs: Sequence[Array]) -> list[Array]:
        # A compiled step ignores the strides of an array.
        tensors = [torch.from_numpy(np.ascontiguousarray(a)) for a in inputs]
        with torch.inference_mode():
            return [out.numpy() for out in module(*tensors)]

    return run
