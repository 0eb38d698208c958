"""ONNX graphs: the model's numbers for streams of any age, the contract in the file, no file that fails its check."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import pytest
import torch
from small_graphs import MODELS, difference, small

from horst.cli import main
from horst.errors import ConfigError, ExportError
from horst.export import Graph, export_model, open_graph
from horst.export.check import compare, random_frames
from horst.export.contract import contract
from horst.export.step import trace
from horst.export.to_onnx import clip_of, to_onnx
from horst.models import Predictor, create_model, save


class Exported(NamedTuple):
    model: Predictor
    step: Path
    clip: Path


@pytest.fixture(scope="module", params=list(MODELS))
def exported(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Exported:
    """One trace for both graphs: it is what takes time."""
    folder = tmp_path_factory.mktemp("graphs")
    model = small(request.param)
    model.labels = {task: [f"{task} {i}" for i in range(count)] for task, count in model.head.classes.items()}
    of_step, of_clip = contract(model, "step"), contract(model, "clip")
    proto = to_onnx(trace(model, of_step, None), of_step)
    (folder / "step.onnx").write_bytes(proto.SerializeToString())
    (folder / "clip.onnx").write_bytes(clip_of(proto, of_step, of_clip).SerializeToString())
    return Exported(model, folder / "step.onnx", folder / "clip.onnx")


@pytest.mark.parametrize("batch", [1, 3])
def test_steps_of_streams_of_any_age(exported: Exported, batch: int) -> None:
    assert difference(open_graph(exported.step, "onnx"), exported.model, batch, frames=100) <= 1e-4


@pytest.mark.parametrize(("batch", "frames"), [(1, 1), (1, 9), (3, 100)])
def test_clips_of_any_length(exported: Exported, batch: int, frames: int) -> None:
    seen = random_frames(exported.model, batch, frames, 1)
    found = open_graph(exported.clip, "onnx").clip(seen.numpy())
    with torch.inference_mode():
        wanted = exported.model(seen)[0].logits
    assert list(found) == list(wanted)
    for task in found:
        assert found[task].shape == wanted[task].shape
        assert np.abs(found[task] - wanted[task].numpy()).max() <= 1e-4


def test_the_file_tells_all_that_a_client_needs(exported: Exported) -> None:
    model = exported.model
    graph = open_graph(exported.step, "onnx")
    about = graph.about
    assert about["labels"] == model.labels
    assert (about["size"], about["fps"], about["start"]) == ([16, 24], model.fps, "zeros")
    assert about["tasks"] == model.head.classes
    assert about["normalisation"]["in_graph"]
    proto = onnx.load(exported.step)
    onnx.checker.check_model(proto, full_check=True)
    for told, values in ((about["inputs"], proto.graph.input), (about["outputs"], proto.graph.output)):
        assert [port["name"] for port in told] == [value.name for value in values]
        for port, value in zip(told, values, strict=True):
            kind = value.type.tensor_type
            assert port["shape"] == [axis.dim_param or axis.dim_value for axis in kind.shape.dim]
            assert port["dtype"] == np.dtype(onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type)).name
    fresh = model.init_state(2, *model.size)
    rings = [getattr(layer, name) for layer in fresh.layers for name in ("keys", "filters", "values", "count")]
    assert [ring.shape for ring in graph.start(2)] == [tuple(ring.shape) for ring in rings]
    assert json.loads(onnx.load(exported.clip).metadata_props[0].value)["inputs"] == [
        {"name": "frames", "shape": ["batch", "time", 3, 16, 24], "dtype": "uint8"}
    ]


def test_a_file_holds_no_path_of_the_machine(exported: Exported, root: Path) -> None:
    for file in (exported.step, exported.clip):
        assert str(root).encode() not in file.read_bytes()
        assert b"site-packages" not in file.read_bytes()


def test_a_graph_of_other_weights_is_refused(exported: Exported) -> None:
    other = copy.deepcopy(exported.model)
    torch.nn.init.normal_(other.head.fc_a.weight if hasattr(other.head, "fc_a") else other.head.fc.weight)
    with pytest.raises(ExportError, match="nothing was written"):
        compare(open_graph(exported.step, "onnx"), other, 6)


def test_what_fails_its_check_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exported: Exported
) -> None:
    proto = onnx.load(exported.step)
    monkeypatch.setattr("horst.export.export.trace", lambda *_: None)
    monkeypatch.setattr("horst.export.export.to_onnx", lambda *_: proto)
    report = export_model(exported.model, tmp_path / "model.onnx", repeat=1)
    assert report.path.stat().st_size == report.size
    assert report.error <= 1e-4
    with pytest.raises(ExportError, match="pass --force"):
        export_model(exported.model, tmp_path / "model.onnx")
    monkeypatch.setattr("horst.export.check.LIMIT", -1.0)
    for name, force in (("other.onnx", False), ("model.onnx", True)):
        with pytest.raises(ExportError, match="differs from the model"):
            export_model(exported.model, tmp_path / name, force=force)
    assert [file.name for file in tmp_path.iterdir()] == ["model.onnx"]
    open_graph(tmp_path / "model.onnx", "onnx")


@pytest.mark.parametrize("what", ["step", "clip"])
def test_a_graph_that_answers_nan_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exported: Exported, what: str
) -> None:
    """One weight is NaN in the file alone, and with it one class of one task."""
    proto = onnx.load(exported.step)
    head = [p for name, p in exported.model.named_parameters() if name.startswith("head.") and name.endswith("bias")]
    values = [(w, onnx.numpy_helper.to_array(w)) for w in proto.graph.initializer]
    found = [(w, v) for w, v in values if v.shape == head[-1].shape and np.array_equal(v, head[-1].detach().numpy())]
    weight, bias = found[0]
    weight.CopyFrom(onnx.numpy_helper.from_array(np.r_[bias[:-1], np.float32("nan")].astype(np.float32), weight.name))
    monkeypatch.setattr("horst.export.export.trace", lambda *_: None)
    monkeypatch.setattr("horst.export.export.to_onnx", lambda *_: proto)
    (tmp_path / "bad.onnx").write_bytes(proto.SerializeToString())
    graph = open_graph(tmp_path / "bad.onnx", "onnx")
    answers = graph.step(random_frames(exported.model, 1, 1, 0)[:, 0].numpy(), graph.start(1))[0]
    assert any(np.isnan(logits).any() for logits in answers.values())
    with pytest.raises(ExportError, match="NaN"):
        export_model(exported.model, tmp_path / "model.onnx", what=what, repeat=1)  # type: ignore[arg-type]
    assert not (tmp_path / "model.onnx").exists()


def test_a_file_of_another_program_is_told(tmp_path: Path, exported: Exported) -> None:
    proto = onnx.load(exported.step)
    for text in (None, "{", "[1]", '{"format": 2}', "{}"):
        del proto.metadata_props[:]
        if text is not None:
            entry = proto.metadata_props.add()
            entry.key, entry.value = "horst", text
        (tmp_path / "model.onnx").write_bytes(proto.SerializeToString())
        with pytest.raises(ExportError, match=r"model\.onnx does not have contract version 1"):
            open_graph(tmp_path / "model.onnx", "onnx")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"path": "model.pt2"}, "must end with .onnx"),
        ({"opset": 7}, "choose from 18 to 23"),
        ({"unroll": 3}, "does not unroll"),
        ({"frames": 3}, "only for what='clip'"),
        ({"what": "clip", "frames": 0}, "must be 1 or more"),
        ({"what": "clip", "format": "torch", "path": "model.pt2"}, "a clip can only be exported as onnx"),
        ({"opset": 20, "format": "torch", "path": "model.pt2"}, "only onnx has an opset"),
        ({"what": "stepp"}, "stepp"),
    ],
)
def test_invalid_options(options: dict[str, Any], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("horst.export.export.trace", lambda *_: None)
    with pytest.raises(ConfigError, match=says):
        export_model(small("paper, recognition"), tmp_path / options.pop("path", "model.onnx"), **options)
    assert not list(tmp_path.iterdir())


def test_models_that_are_not_ready(tmp_path: Path) -> None:
    with pytest.raises(ExportError, match="training mode"):
        export_model(small("paper, recognition").train(), tmp_path / "model.onnx")
    with pytest.raises(ExportError, match="not in fp32"):
        export_model(small("paper, recognition").double(), tmp_path / "model.onnx")


def test_an_unrolling_head_takes_a_fixed_horizon(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    counts = {"num_classes": 5, "num_verbs": 2, "num_nouns": 3}
    options = {"hidden": (4,), "stride": (1,), "order": 2, "size": (6, 5), "backbone": {"name": "maps", "channels": 3}}
    save(create_model("horst_ek100_unroll", **counts, **options), tmp_path / "model")
    output = tmp_path / "model.onnx"
    assert main(["export", str(tmp_path / "model"), "--output", str(output)]) == 2
    assert "unrolls until the action" in capsys.readouterr().err
    output = output.with_suffix(".pt2")
    options_of = ["--output", str(output), "--unroll", "2", "--format", "torch"]
    assert main(["export", str(tmp_path / "model"), *options_of]) == 0
    assert "largest difference of logits" in capsys.readouterr().out
    graph: Graph = open_graph(output, "torch")
    assert (graph.about["unroll"], graph.about["inputs"][0]["dtype"]) == (2, "float32")


def test_an_unknown_model_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "somethingz"]) == 2
    assert "did you mean 'somethings'" in capsys.readouterr().err
