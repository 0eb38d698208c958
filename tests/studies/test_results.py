"""Finished runs of a study, read back and put together."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from small_predictions import CLASSES, about, predictions

from horst.data.identity import DataIdentity
from horst.errors import DataError
from horst.evaluation.measure import measure
from horst.evaluation.predictions import TENSORS, Predictions, pool, sorted_by_id
from horst.studies.plan import Job
from horst.studies.results import (
    RunResult,
    SeedResult,
    _check_examples,
    read_result,
    remeasure,
    seed_results,
)
from horst.studies.statistics import Statistic
from horst.training.run import Run


def outcome(
    folder: Path, name: str, given: Predictions, *, run: str = "a", seed: int = 0, left_out: int | None = None
) -> Any:
    """Of a training with these predictions, which are kept in its folder."""
    file = Run(folder / name).evaluation("val", "safetensors")
    file.parent.mkdir(parents=True)
    given.save(file)
    counts = {"examples": len(given)} | ({} if left_out is None else {"left_out": left_out})
    classes = {task: CLASSES[task] for task in given.scores}
    evaluation = SimpleNamespace(counts=counts, classes=classes, data="made")
    return SimpleNamespace(run=run, seed=seed, folder=name, metrics={"told": 0.5}, evaluation=evaluation)


def folds(count: int) -> Any:
    return SimpleNamespace(folds=({},) * count, runs=())


def same(one: Predictions, other: Predictions) -> bool:
    tensors = all(torch.equal(getattr(one, name), getattr(other, name)) for name in TENSORS)
    by_task = all(torch.equal(one.labels[t], other.labels[t]) for t in one.labels) and all(
        torch.equal(one.scores[t], other.scores[t]) for t in one.scores
    )
    return tensors and by_task and (one.ids, one.missing) == (other.ids, other.missing)


def parts_of(whole: Predictions, count: int) -> list[Predictions]:
    fold = torch.arange(len(whole)) % count
    return [whole.select(fold == k) for k in range(count)]


@pytest.mark.parametrize("task", ["recognition", "anticipation"])
def test_folds_and_a_single_training_give_the_same_predictions(tmp_path: Path, task: str) -> None:
    whole = predictions(task, 30)
    whole = replace(whole, missing=tuple((ident, "why") for ident in sorted(whole.ids)[:4]))
    single = outcome(tmp_path, "single", whole)
    (alone,) = seed_results(folds(0), [single], tmp_path)["a"]
    assert (alone.seed, alone.metrics, alone.discard) == (0, {"told": 0.5}, False)  # as it was measured
    assert list(alone.predictions.ids) == sorted(whole.ids)
    assert same(alone.predictions, sorted_by_id(whole))
    several = [outcome(tmp_path, f"fold{k}", part, seed=3) for k, part in enumerate(parts_of(whole, 3))]
    (pooled,) = seed_results(folds(3), several, tmp_path)["a"]
    assert pooled.seed == 3
    assert same(replace(pooled.predictions, missing=tuple(sorted(pooled.predictions.missing))), sorted_by_id(whole))
    assert pooled.metrics == pytest.approx(measure(whole, about(task)), nan_ok=True)
    assert seed_results(folds(3), several[:2], tmp_path) == {}
    (one_fold,) = seed_results(folds(1), [single], tmp_path)["a"]
    assert same(one_fold.predictions, alone.predictions)


def test_what_no_frame_precedes_is_left_out_where_a_fold_leaves_it_out(tmp_path: Path) -> None:
    whole = predictions("anticipation", 60)
    assert whole.empty.any()
    parts = parts_of(whole, 2)
    for number, (left_out, discard) in enumerate([((None, None), False), ((0, 0), False), ((0, 1), True)]):
        folder = tmp_path / str(number)
        several = [outcome(folder, f"f{k}", parts[k], left_out=left_out[k]) for k in range(2)]
        (found,) = seed_results(folds(2), several, folder)["a"]
        assert found.discard is discard
        assert len(found.predictions) == 60  # runs are paired by all
        counted = whole.select(~whole.empty) if discard else whole
        assert found.metrics == pytest.approx(measure(counted, about("anticipation")), nan_ok=True)
    assert remeasure(whole, several[0].evaluation) == pytest.approx(measure(whole, about("anticipation")), nan_ok=True)


def test_seeds_and_runs_are_kept_apart(tmp_path: Path) -> None:
    given = predictions("recognition", 10)
    pairs = [("b", 1), ("a", 1), ("b", 0)]
    several = [outcome(tmp_path, f"{run}{seed}", given, run=run, seed=seed) for run, seed in pairs]
    found = seed_results(folds(0), several, tmp_path)
    assert {run: [sample.seed for sample in own] for run, own in found.items()} == {"b": [1, 0], "a": [1]}


def test_runs_on_other_examples_are_not_compared() -> None:
    given = sorted_by_id(predictions("recognition", 10))
    fewer = given.select(torch.arange(10) < 9)
    first, second, other = (SeedResult(seed, {}, p, False) for seed, p in ((0, given), (1, given), (2, fewer)))
    _check_examples({})
    _check_examples({"a": [first, second], "b": [first]})
    says = r"a and b \(seed 2\) were evaluated on other examples \(10 and 9\)"
    with pytest.raises(DataError, match=says):
        _check_examples({"a": [first, second], "b": [first, other]})


def test_folds_that_do_not_belong_together() -> None:
    first, second = parts_of(predictions("recognition", 20), 2)
    with pytest.raises(DataError, match=f"the example {second.ids[0]} is for validation in two folds"):
        pool([first, second, second])
    wrong = [
        replace(second, positions=tuple(place / 2 for place in second.positions)),
        replace(second, task="anticipation"),
        replace(second, scores={"action": second.scores["action"][..., :5]}),
        replace(second, scores={**second.scores, "verb": second.scores["action"]}),
    ]
    for other in wrong:
        for parts in ([first, other], [other, first]):
            with pytest.raises(DataError, match="other positions, or on other classes"):
                pool(parts)


def test_shorter_folds_are_padded_with_no_answer() -> None:
    first, second = parts_of(predictions("recognition", 20), 2)
    short = replace(second, answers=second.answers[:, :3])
    pooled = pool([short, first])
    assert pooled.answers.shape == (20, 12)
    assert torch.equal(pooled.answers[:10, :3], short.answers)
    assert (pooled.answers[:10, 3:] == -1).all()
    assert torch.equal(pooled.answers[10:], first.answers)


def test_what_holds_tensors_is_compared_by_identity() -> None:
    sample = SeedResult(0, {}, predictions("recognition", 4), False)
    assert len({sample, replace(sample)}) == 2
    one = Statistic(torch.ones(3), torch.ones(3, dtype=torch.bool))
    assert len({one, replace(one)}) == 2


def test_an_outcome_as_plain_data() -> None:
    given: dict[str, Any] = {
        "run": "a", "seed": 1, "fold": None, "folder": "a-seed1", "metrics": {"area": 0.5}, "examples": 7,
        "examples_digest": None, "parameters": 3, "gflop": 0.25, "seconds": 1.5, "frames_per_second": None,
        "commit": None, "machine": None, "command": ["horst"],
    }  # fmt: skip
    evaluation: Any = None
    assert RunResult(**given, evaluation=evaluation).to_dict() == given


@pytest.mark.parametrize("text", ["epoch\n1\n", "epoch,seconds\n1,x\n", "epoch,seconds\n1\n"])
def test_damaged_metrics_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    run = Run(tmp_path / "a-seed0")
    run.folder.mkdir()
    run.metrics.write_text(text)
    (run.folder / "environment.json").write_text("{}")
    model = SimpleNamespace(to_dict=dict)
    monkeypatch.setattr("horst.studies.results.Evaluation", SimpleNamespace(load=lambda path: None))
    monkeypatch.setattr("horst.studies.results.read_config", lambda path: model)
    monkeypatch.setattr("horst.studies.results._costs", lambda text: (1, 2))
    job: Job = SimpleNamespace(folder=run.folder)  # type: ignore[assignment]
    with pytest.raises(DataError, match=r"metrics\.csv is damaged .*: delete .*a-seed0 and run the study again"):
        read_result(job)


def test_what_a_run_found_and_cost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(tmp_path / "a-seed4")
    run.folder.mkdir()
    run.metrics.write_text("epoch,seconds\n1,1.26\n2,2.0\n")
    about = {"commit": "c1", "processor": "A (model 2)", "devices": ["cpu"]}
    (run.folder / "environment.json").write_text(json.dumps(about))
    (tmp_path / "log").write_text("10 frames/s")
    evaluation = SimpleNamespace(metrics={"area": 0.5}, counts={"examples": 12})
    monkeypatch.setattr("horst.studies.results.Evaluation", SimpleNamespace(load=lambda path: evaluation))
    monkeypatch.setattr("horst.studies.results.read_config", lambda path: SimpleNamespace(to_dict=dict))
    monkeypatch.setattr("horst.studies.results._costs", lambda text: (1234, 250_000_000))
    monkeypatch.chdir(tmp_path)
    data = DataIdentity("recognition", {"action": ["x"]}, "", {"1.mp4": "here"}, [["1", "val", {}, "", "1.mp4"]])
    data.write(run.folder)
    assert replace(data, media={"1.mp4": "copied"}).examples_digest == data.examples_digest
    assert replace(data, examples=[["1", "train", {}, "", "1.mp4"]]).examples_digest != data.examples_digest
    job: Any = SimpleNamespace(
        run=SimpleNamespace(name="a"), seed=4, fold=1, folder=run.folder, log=tmp_path / "log",
        command=lambda state: ["train" if state == "new" else "", f"{tmp_path}/x.yaml", "--data.folder=/other"],
    )  # fmt: skip
    assert read_result(job).to_dict() == {
        "run": "a", "seed": 4, "fold": 1, "folder": "a-seed4", "metrics": {"area": 0.5}, "examples": 12,
        "examples_digest": data.examples_digest, "parameters": 1234, "gflop": 0.25, "seconds": 3.3,
        "frames_per_second": 10.0, "commit": "c1", "machine": "A (model 2), cpu",
        "command": ["horst", "train", "x.yaml", "--data.folder=/other"],
    }  # fmt: skip


def test_groups_are_pooled_if_every_fold_has_them() -> None:
    whole = predictions("recognition")
    grouped = replace(whole, groups=tuple(f"run {i % 5}" for i in range(len(whole))))
    parts = parts_of(grouped, 2)
    pooled = pool(parts)
    assert dict(zip(pooled.ids, pooled.groups, strict=True)) == dict(zip(grouped.ids, grouped.groups, strict=True))
    assert pool([parts[0], replace(parts[1], groups=())]).groups == ()
