"""`horst fuse`: runs as one result and one model, weights from held-out examples, and runs that do not fit."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import small_runs
import torch
import videos
import yaml

import horst
from horst.cli import main
from horst.config import from_dict
from horst.data.identity import DataIdentity
from horst.errors import CheckpointError, ConfigError, DataError
from horst.evaluation.evaluate import Evaluation
from horst.evaluation.fusion import mean_loss
from horst.evaluation.predictions import Predictions, pool
from horst.models import save
from horst.training.config import RunConfig
from horst.training.evaluated import open_evaluated
from horst.training.fit import prepare
from horst.training.fusion import fuse_runs
from horst.training.run import Run

OTHER = {**small_runs.TINY, "order": 2}  # another recipe


def make_run(folder: Path, plain: dict[str, Any], *splits: str) -> Path:
    """A run as training leaves it, with first weights, and evaluated."""
    config = from_dict(RunConfig, plain)
    data, module = prepare(config)
    save(module.model, folder / "best")
    DataIdentity.of(data.source).write(folder)
    (folder / "config.yaml").write_text(config.to_yaml())
    for split in splits or ("val",):
        open_evaluated(folder, device="cpu").evaluate(split)
    return folder


@pytest.fixture(scope="module")
def runs(somethings: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two seeds and another recipe, each on all of three folds."""
    root = tmp_path_factory.mktemp("runs")
    for name, seed, options in (("a", 0, small_runs.TINY), ("b", 1, small_runs.TINY), ("c", 0, OTHER)):
        for index in range(3):
            data = {"fold": {"count": 3, "index": index}}
            plain = small_runs.plain(somethings, name=name, seed=seed, data=data, model={"options": options})
            make_run(root / f"{name}-{index}", plain)
    return root


@pytest.fixture(scope="module")
def fused(runs: Path) -> Path:
    """Two seeds as one folder, which tests do not change."""
    folder = runs / "fused"
    assert main(["fuse", str(runs / "a-0"), str(runs / "b-0"), "--folder", str(folder)]) == 0
    return folder


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def copied(run: Path, folder: Path) -> Path:
    shutil.copytree(run, folder)
    return folder


@pytest.mark.parametrize("times", [1, 2])
def test_one_run_keeps_its_evaluation(runs: Path, times: int) -> None:
    fusion = fuse_runs([runs / "a-0"] * times)
    found, wanted = asdict(fusion.evaluation), asdict(Evaluation.load(Run(runs / "a-0").evaluation("val")))
    assert {key for key in found if found[key] != wanted[key]} <= {"seconds", "weights"}
    before = Predictions.load(Run(runs / "a-0").evaluation("val", "safetensors"))
    assert fusion.predictions.ids == before.ids
    for name, tensor in before.tensors().items():
        assert torch.equal(fusion.predictions.tensors()[name], tensor), name


def test_a_folder_that_can_be_moved_and_served(
    runs: Path, somethings: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place, moved = tmp_path / "new" / "fused", tmp_path / "moved"
    assert main(["fuse", str(runs / "a-0"), str(runs / "b-0"), str(runs / "c-0"), "--folder", str(place)]) == 0
    shown = capsys.readouterr().out
    assert "learned on the examples of fold 1, 2" in shown
    assert files(place) == {
        "config.json", "model.safetensors", "labels.json", "README.md", "fusion.json", "evaluation/val.json",
        "evaluation/val.safetensors", "evaluation/val.svg",
    }  # fmt: skip
    assert list(place.parent.iterdir()) == [place]
    place.rename(moved)
    kept = Evaluation.load(moved / "evaluation" / "val.json")
    opened = open_evaluated(moved, device="cpu")  # with the data of its runs
    plain = small_runs.plain(somethings, data={"fold": {"count": 3, "index": 0}})["data"]
    (tmp_path / "data.yaml").write_text(yaml.safe_dump(plain))
    assert opened.module.data == open_evaluated(moved, data=tmp_path / "data.yaml", device="cpu").module.data
    predictions, again = opened.evaluate("val")
    assert again.metrics == pytest.approx(kept.metrics | {"decided": again.metrics["decided"]}, abs=1e-6)
    assert again.weights == kept.weights
    scores = Predictions.load(moved / "evaluation" / "val.safetensors").scores["action"]
    torch.testing.assert_close(torch.softmax(predictions.scores["action"], -1), torch.softmax(scores, -1))
    assert main(["evaluate", str(moved), "--json", "--device", "cpu"]) == 0
    assert json.loads(capsys.readouterr().out)["metrics"] == pytest.approx(again.metrics)
    videos.clip(tmp_path / "video.mp4", frames=12)  # of 12 a second, and the model takes 4
    assert main(["predict", str(moved), str(tmp_path / "video.mp4"), "--json", "--device", "cpu"]) == 0
    times = [json.loads(line)["time"] for line in capsys.readouterr().out.splitlines()]
    assert times == pytest.approx([0, 0.25, 0.5, 0.75], abs=0.05)


def test_order_of_the_runs_has_no_effect(runs: Path) -> None:
    folders = [runs / "a-0", runs / "b-0", runs / "c-0"]
    one, other = fuse_runs(folders), fuse_runs(folders[::-1])
    assert one.evaluation.metrics == other.evaluation.metrics
    assert one.weights == other.weights
    assert [m.run.folder for m in one.members] == [m.run.folder for m in other.members]


def test_weights_come_from_the_other_folds(runs: Path) -> None:
    """By recipe: the two seeds share a weight. No example of the reported fold counts."""
    fusion = fuse_runs([runs / "a-0", runs / "b-0", runs / "c-0"])
    weights = {member.run.folder.name: weight for member, weight in zip(fusion.members, fusion.weights, strict=True)}
    assert weights["a-0"] == weights["b-0"]
    assert sum(fusion.weights) == pytest.approx(1)
    held = {
        name: pool([Predictions.load(Run(runs / f"{name}-{k}").evaluation("val", "safetensors")) for k in (1, 2)])
        for name in "abc"
    }
    used = [weights[f"{name}-0"] for name in "abc"]
    best = min(mean_loss(list(held.values()), one) for one in ([0.5, 0.5, 0], [0, 0, 1]))
    assert mean_loss(list(held.values()), used) <= best + 1e-9
    assert not set(held["a"].ids) & set(fusion.predictions.ids)
    assert fusion.how == f"learned on the examples of fold 1, 2, {len(held['a'])} examples"


def test_equal_weights_where_nothing_was_held_out(runs: Path, somethings: Path, tmp_path: Path) -> None:
    seeds = [runs / "a-0", runs / "b-0"]
    assert "differ in their seed alone" in fuse_runs(seeds).how
    for run in (runs / "a-0", runs / "c-0"):  # without the other folds beside them
        copied(run, tmp_path / run.name)
    alone = [tmp_path / "a-0", tmp_path / "c-0"]
    assert "no other fold in common" in fuse_runs(alone).how
    plain = [small_runs.plain(somethings, seed=seed, model={"options": options})
             for seed, options in ((0, small_runs.TINY), (1, OTHER))]  # fmt: skip
    whole = [make_run(tmp_path / f"whole-{i}", one, "val", "train") for i, one in enumerate(plain)]
    fusion = fuse_runs(whole)
    assert fusion.weights == [0.5, 0.5]
    assert fusion.how.startswith("equal: the runs were trained on all examples that are not reported")
    assert fuse_runs(whole, split="train").how.startswith("learned on the validation split, 4 examples")
    for folders in (seeds, alone, whole):
        with pytest.raises(ConfigError, match="weights cannot be learned"):
            fuse_runs(folders, weights="learned")
        assert fuse_runs(folders, weights="equal").how == "equal, as requested"


def test_runs_of_other_inputs_have_results_and_no_model(runs: Path, somethings: Path, tmp_path: Path) -> None:
    data = {"fold": {"count": 3, "index": 0}, "clip": {"size": [24, 24], "fps": 4}}
    small = make_run(tmp_path / "small", small_runs.plain(somethings, data=data))
    place = tmp_path / "fused"
    assert main(["fuse", str(runs / "a-0"), str(small), "--folder", str(place)]) == 0
    models = [file for file in files(place) if file.endswith("model.safetensors")]
    assert sorted(models) == sorted(f"models/{i}-{m.run.folder.name}/model.safetensors"
                                    for i, m in enumerate(fuse_runs([runs / "a-0", small]).members))  # fmt: skip
    assert Evaluation.load(place / "evaluation" / "val.json").metrics["area"] >= 0
    with pytest.raises(CheckpointError, match=r"no model that reads frames: .*small.* differ in frames of size"):
        horst.open_model(place)
    assert main(["predict", str(place), "camera:0"]) == 2


def test_runs_whose_backbones_have_a_memory_have_results_and_no_model(somethings: Path, tmp_path: Path) -> None:
    cells = {"name": "cells", "encoder": {"name": "stem", "widths": [4]}, "grid": [2, 2], "difference": 1}
    for seed in (0, 1):
        plain = small_runs.plain(somethings, seed=seed, model={"options": {**small_runs.TINY, "backbone": cells}})
        make_run(tmp_path / str(seed), plain)
    place = tmp_path / "fused"
    assert main(["fuse", str(tmp_path / "0"), str(tmp_path / "1"), "--folder", str(place)]) == 0
    assert Evaluation.load(place / "evaluation" / "val.json").metrics["area"] >= 0
    with pytest.raises(CheckpointError, match="CellsBackbone, which reads a window of frames"):
        horst.open_model(place)


def test_export_refuses_a_fused_folder(fused: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for what in ("step", "clip"):
        assert main(["export", str(fused), "--what", what, "--output", str(tmp_path / "graph.onnx")]) == 2
        assert "export the models of its runs one by one" in capsys.readouterr().err.replace("\n", " ")
    assert not list(tmp_path.iterdir())


def test_a_table_has_a_row_of_fused_runs(
    runs: Path, fused: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy, other = copied(fused, tmp_path / "fused"), copied(fused, tmp_path / "other-split")
    (other / "evaluation" / "val.json").rename(other / "evaluation" / "test.json")
    capsys.readouterr()
    folders = [runs / "a-0", runs / "b-0", fused, copy, other]
    assert main(["table", *map(str, folders), "--json"]) == 0
    shown = capsys.readouterr()
    assert shown.err.replace("\n", "") == f"left out, because they are not runs: {other}"
    ((seeds, *both),) = (table["lines"] for table in json.loads(shown.out))
    assert seeds["seeds"] == [0, 1]
    area = Evaluation.load(fused / "evaluation" / "val.json").metrics["area"]
    for line, folder in zip(both, (fused, copy), strict=True):
        assert (line["name"], line["runs"], line["seeds"]) == (f"fused ({folder})", [str(folder)], [])
        assert line["values"]["area"] == pytest.approx(100 * area)
    assert main(["table", str(other)]) == 2
    assert "fuse its runs with --split val" in capsys.readouterr().err.replace("\n", " ")


def test_commands_leave_a_fused_folder_as_it_is(
    fused: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`horst evaluate` prints what `horst fuse` cannot measure, and `horst report` writes to the current folder."""
    monkeypatch.chdir(tmp_path)
    before = {name: (fused / name).read_bytes() for name in files(fused)}
    assert "decided" in Evaluation.load(fused / "evaluation" / "val.json").unmeasured
    capsys.readouterr()
    assert main(["evaluate", str(fused), "--device", "cpu"]) == 0
    assert "decided after" in capsys.readouterr().out
    assert main(["report", str(fused), "--clips", "0", "--device", "cpu"]) == 0
    assert files(tmp_path) == {"fused-report.html"}
    assert {name: (fused / name).read_bytes() for name in files(fused)} == before


def bad_runs(runs: Path, somethings: Path, root: Path) -> dict[str, tuple[Path, type[Exception], str]]:
    """Runs that do not fit to a-0, the error, and its words."""
    missing = copied(runs / "b-0", root / "missing")
    (missing / "evaluation" / "val.safetensors").unlink()
    stale = copied(runs / "b-0", root / "stale")
    shutil.rmtree(stale / "best")
    shutil.copytree(runs / "a-0" / "best", stale / "best")
    order = copied(runs / "a-0", root / "order")  # of the same weights, with another order
    shutil.rmtree(order / "best")
    shutil.copytree(runs / "c-0" / "best", order / "best")
    small_runs.assert_same(small_runs.weights(runs / "a-0" / "best"), small_runs.weights(order / "best"))
    labels = copied(runs / "b-0", root / "labels")
    (labels / "best" / "labels.json").write_text(
        json.dumps({"action": horst.open_model(runs / "b-0").labels["action"][::-1]})  # type: ignore[index]
    )
    trained = copied(runs / "b-0", root / "trained")
    identity = DataIdentity.read(trained)
    assert identity is not None
    replace(identity, examples=identity.examples[1:]).write(trained)
    few = make_run(root / "few", small_runs.plain(root / "others", data={"templates": 4}))
    horizon = small_runs.plain(somethings, data={"fold": {"count": 3, "index": 0}})
    horizon["data"]["clip"] = {**horizon["data"]["clip"], "observe": 0.5}
    return {
        "no run": (root / "nothing", ConfigError, "is no run"),
        "no evaluation": (missing, DataError, "has no val.safetensors.*horst evaluate"),
        "stale": (stale, DataError, "an evaluation of another model"),
        "order": (order, DataError, "an evaluation of another model"),
        "another fold": (runs / "b-1", DataError, "cannot be fused with .*a-0: it has no predictions for"),
        "classes": (labels, DataError, "has other classes of action: .* where the first has"),
        "training": (trained, DataError, "was trained on other examples: 1 example missing"),
        "fewer classes": (few, DataError, "predicts 4 actions, not"),
        "positions": (make_run(root / "half", horizon), DataError, "predicts at 50%, not at 10%"),
    }


def test_a_run_that_does_not_fit_is_named(runs: Path, somethings: Path, tmp_path: Path) -> None:
    for folder, error, says in bad_runs(runs, somethings, tmp_path).values():
        with pytest.raises(error, match=f"{folder}.*{says}"):
            fuse_runs([runs / "a-0", folder])
        assert main(["fuse", str(runs / "a-0"), str(folder), "--folder", str(tmp_path / "fused")]) == 2
        assert not [path for path in tmp_path.iterdir() if "fused" in path.name]
    assert main(["fuse", str(runs / "a-0"), str(runs / "b-0"), "--folder", str(runs / "a-0")]) == 2  # it exists
    assert main(["fuse", "--folder", str(tmp_path / "fused")]) == 2  # no runs
