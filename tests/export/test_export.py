"""What `export_model` passes on: each option has its effect, and the report says what was done."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from small_graphs import small

from horst.errors import ConfigError, ExportError
from horst.export import export as module
from horst.export.export import export_model
from horst.export.graph import Graph, _about
from horst.models import Predictor


@pytest.fixture(scope="module")
def model() -> Predictor:
    return small("paper, recognition")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What each part was called with; none of them traces anything."""
    found: dict[str, Any] = {}

    def write(name: str) -> Any:
        def save(program: Any, contract: Any, path: Path) -> None:
            found[name] = contract.what
            path.write_bytes(b"12345")

        return save

    def to_onnx(program: Any, contract: Any, opset: int) -> Any:
        found["opset"] = opset
        return SimpleNamespace(SerializeToString=lambda: b"123")

    def clip_of(proto: Any, of_step: Any, of_clip: Any) -> Any:
        found["clip"] = (of_step.what, of_clip.what)
        return SimpleNamespace(SerializeToString=lambda: b"1234")

    def compare(graph: Any, model: Any, frames: int) -> float:
        found["frames"] = frames
        return 0.5

    def time_both(graph: Any, model: Any, frames: int, *, repeat: int) -> tuple[float, float]:
        found["timed"] = (frames, repeat)
        return 2.0, 3.0

    monkeypatch.setattr(module, "trace", lambda model, contract, unroll: found.update(traced=contract.what))
    monkeypatch.setattr(module, "open_graph", lambda path, format: found.update(opened=(path.suffix, format)))
    for name, part in (("to_onnx", to_onnx), ("clip_of", clip_of), ("compare", compare), ("time_both", time_both)):
        monkeypatch.setattr(module, name, part)
    monkeypatch.setattr(module, "save_program", write("saved"))
    monkeypatch.setattr(module, "compile_program", write("compiled"))
    return found


def test_a_step_by_default(model: Predictor, asked: dict[str, Any], tmp_path: Path) -> None:
    report = export_model(model, tmp_path / "x.onnx")
    assert asked == {"traced": "step", "opset": 20, "opened": (".onnx", "onnx"), "frames": 24, "timed": (24, 50)}
    assert (report.path, report.size, report.frames) == (tmp_path / "x.onnx", 3, 24)
    assert (report.error, report.graph_ms, report.eager_ms) == (0.5, 2.0, 3.0)
    assert report.threads == torch.get_num_threads()
    assert report.path.read_bytes() == b"123"


@pytest.mark.parametrize(
    ("frames", "repeat", "timed"),
    [(None, 50, (24, 3)), (None, 48, (24, 2)), (None, 49, (24, 3)), (7, 14, (7, 2)), (7, 1, (7, 1)), (1, 5, (1, 5))],
)
def test_a_clip(
    model: Predictor, asked: dict[str, Any], tmp_path: Path, frames: int | None, repeat: int, timed: tuple[int, int]
) -> None:
    """As many frames are timed as were asked for, in whole clips."""
    stages: list[str] = []
    report = export_model(
        model, tmp_path / "x.onnx", what="clip", frames=frames, repeat=repeat, opset=18, report=stages.append
    )
    assert stages == ["tracing the model", "converting", "comparing with the model", "timing"]
    assert (asked["clip"], asked["traced"], asked["opset"]) == (("step", "clip"), "step", 18)
    assert asked["timed"] == timed
    assert asked["frames"] == timed[0] == report.frames
    assert report.path.read_bytes() == b"1234"


@pytest.mark.parametrize(("format", "part"), [("torch", "saved"), ("aoti", "compiled")])
def test_files_of_torch(model: Predictor, asked: dict[str, Any], tmp_path: Path, format: Any, part: str) -> None:
    report = export_model(model, tmp_path / "x.pt2", format=format, repeat=6)
    assert asked == {"traced": "step", part: "step", "opened": (".pt2", format), "frames": 24, "timed": (24, 6)}
    assert report.size == 5
    with pytest.raises(ConfigError, match=f"opset is 0, but the format is {format}: only onnx has an opset"):
        export_model(model, tmp_path / "y.pt2", format=format, opset=0)
    with pytest.raises(ConfigError, match=f"a clip can only be exported as onnx: the format {format}"):
        export_model(model, tmp_path / "y.pt2", format=format, what="clip")
    with pytest.raises(ConfigError, match=r"must end with \.pt2"):
        export_model(model, tmp_path / "y.onnx", format=format)


def test_a_file_that_exists_is_replaced_by_force_alone(model: Predictor, asked: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "x.onnx"
    file.write_text("mine")
    with pytest.raises(ExportError, match="pass --force"):
        export_model(model, file)
    assert file.read_text() == "mine"
    assert asked == {}
    export_model(model, file, force=True)
    assert file.read_bytes() == b"123"
    with pytest.raises(ExportError, match=r"x\.onnx cannot be written"):
        export_model(model, file / "x.onnx")  # its folder is a file


def test_a_graph_splits_logits_from_the_state() -> None:
    ports = [{"name": name, "shape": ["batch", 2, 3], "dtype": kind} for name, kind in (("f", "uint8"), ("s", "int64"))]
    about = {"tasks": {"action": 4, "verb": 2}, "inputs": ports, "state": {"s": "next_s"}}
    graph = Graph(about, lambda inputs: [*(10 * i for i in inputs), 30, 40][: 2 + len(inputs) // 2])
    (start,) = graph.start(5)
    assert (start.shape, start.dtype, start.any()) == ((5, 2, 3), "int64", False)
    assert graph.step(1, [2]) == ({"action": 10, "verb": 20}, [30])  # type: ignore[arg-type, list-item]
    assert Graph(about, lambda inputs: [7, 8]).clip(1) == {"action": 7, "verb": 8}  # type: ignore[arg-type, list-item]
    assert _about('{"format": 1}') == {"format": 1}
    for text in ("", "[1]", "{", "[" * 100_000):
        assert _about(text) == {}
