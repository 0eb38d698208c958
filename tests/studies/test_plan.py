"""The runs of a study one by one: their commands, how far each has come, and which of them are the same run."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import small_runs
import yaml

from horst.data.config import DataConfig
from horst.data.identity import DataIdentity
from horst.data.source import open_source
from horst.errors import ConfigError
from horst.studies.config import Study
from horst.studies.plan import (
    ASKED,
    Job,
    check_data,
    finished,
    identity,
    plan,
    reuse,
    same_data,
    state,
)
from horst.training.config import RunConfig
from horst.training.run import Run

STUDY: dict[str, Any] = {
    "name": "try",
    "title": "A try",
    "question": "Which?",
    "base": "run.yaml",
    "changes": {"trainer.epochs": 2, "optimiser.lr": 0.1},
    "runs": [{"name": "a"}, {"name": "b", "changes": {"optimiser.lr": 0.2, "model.options.order": 1}}],
    "seeds": [3, 5],
    "metrics": ["area"],
}


def study(folder: Path, **changes: Any) -> Study:
    (folder / "run.yaml").write_text(yaml.safe_dump(small_runs.plain(folder / "clips")))
    (folder / "try.yaml").write_text(yaml.safe_dump({**STUDY, **changes}, sort_keys=False))
    return Study.from_file(folder / "try.yaml")


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return plan(study(tmp_path), tmp_path / "studies" / "try")[0]


def reach(job: Job, *, epochs: int = 2, weights: float | None = 100.0, evaluated: tuple[float | None, ...] = ()) -> Run:
    """A run folder with so many epochs, and with files of these modification times."""
    run = Run(job.folder)
    run.best.mkdir(parents=True, exist_ok=True)
    run.config.write_text(job.config.to_yaml())
    (run.folder / "environment.json").write_text(json.dumps({"commit": "c1"}))
    run.metrics.write_text("epoch,seconds\n" + "".join(f"{i},1.0\n" for i in range(epochs)))
    files = (run.evaluation("val"), run.evaluation("val", "safetensors"))
    for file, when in ((run.best / "model.safetensors", weights), *zip(files, evaluated, strict=False)):
        if when is not None:
            file.parent.mkdir(exist_ok=True)
            file.touch()
            os.utime(file, (when, when))
    return run


DONE: dict[str, Any] = {"evaluated": (100.0, 100.0)}


def test_every_seed_run_and_fold_is_a_job_in_this_order(tmp_path: Path) -> None:
    asked = study(tmp_path, folds=[{"trainer.epochs": 4}, {"batches.size": 6}])
    jobs = plan(asked, tmp_path / "x" / "try", changes=["optimiser.weight_decay=0.5"])
    assert [(job.run.name, job.seed, job.fold) for job in jobs] == [
        (run, seed, fold) for seed in (3, 5) for run in ("a", "b") for fold in (0, 1)
    ]
    last = jobs[-1]
    assert (last.name, last.title) == ("b-seed5-fold1", "try/b-seed5-fold1")
    assert last.folder == tmp_path / "x/try/b-seed5-fold1"
    assert last.log == tmp_path / "x/try/logs/b-seed5-fold1.log"
    assert last.changes == (
        "trainer.epochs=2",
        "optimiser.lr=0.2",
        "model.options.order=1",
        "batches.size=6",
        "name=try-b-seed5-fold1",
        "seed=5",
        "optimiser.weight_decay=0.5",
    )
    config = last.config
    assert (config.trainer.epochs, config.optimiser.lr, config.batches.size, config.seed) == (2, 0.2, 6, 5)
    assert (config.optimiser.weight_decay, config.model.options["order"]) == (0.5, 1)
    assert [job.config.trainer.epochs for job in jobs[:2]] == [4, 2]


def test_chosen_runs_and_seeds_come_once(tmp_path: Path) -> None:
    jobs = plan(study(tmp_path), tmp_path, only=["b", "b"], seeds=[7, 3, 7])
    assert [job.name for job in jobs] == ["b-seed7", "b-seed3"]
    assert [job.fold for job in jobs] == [None, None]


def test_commands(job: Job) -> None:
    place = str(job.folder)
    changes = [f"--{change}" for change in job.changes]
    assert job.command("new") == ["train", job.file, "--folder", place, *changes, "--evaluate"]
    assert job.command("stopped") == ["train", "--resume", place, "--evaluate"]
    assert job.command("trained") == ["evaluate", place]
    assert job.command("done") == []


@pytest.mark.parametrize(
    ("there", "reached"),
    [
        ({"epochs": 1, **DONE}, "stopped"),
        ({"epochs": 0, **DONE}, "stopped"),
        ({"weights": None, **DONE}, "stopped"),
        ({}, "trained"),
        ({"evaluated": (100.0,)}, "trained"),
        ({"evaluated": (None, 100.0)}, "trained"),
        ({"evaluated": (99.0, 100.0)}, "trained"),  # evaluated before it was trained to its end
        ({"evaluated": (100.0, 99.0)}, "trained"),
        (DONE, "done"),
        ({"epochs": 3, **DONE}, "done"),
        ({"evaluated": (101.0, 101.0)}, "done"),
    ],
)
def test_how_far_a_run_has_come(job: Job, there: dict[str, Any], reached: str) -> None:
    assert state(job) == "new"
    job.folder.mkdir(parents=True)
    assert state(job) == "new"  # a folder alone is no run
    run = reach(job, **there)
    assert state(job) == reached
    run.metrics.unlink()
    assert state(job) == "stopped"


def changed(job: Job, *words: str) -> Job:
    """The same job of another config."""
    return replace(job, config=RunConfig.from_file(job.file, [*job.changes, *words]))


@pytest.mark.parametrize(
    "word",
    [
        "name=other",
        "batches.workers=1",
        "batches.cache=/elsewhere",
        "batches.preload=device",
        "trainer.checkpoint_minutes=7",
        "data.folder=/elsewhere/clips",
    ],
)
def test_what_a_run_may_change_and_stay_the_same(job: Job, word: str) -> None:
    reach(job, **DONE)
    assert state(changed(job, word)) == "done"


def test_another_run_in_the_folder_is_refused(job: Job) -> None:
    reach(job, **DONE)
    words = {
        "seed=9": "seed is 3 there and 9 here",
        "data.folder=/elsewhere/other": "data.folder is 'clips' there and 'other' here",
        "model.options.order=2": "model.options.order is 3 there and 2 here",
        "model.options.heads=2": "model.options.heads is None there and 2 here",
    }
    for word, says in words.items():
        with pytest.raises(ConfigError) as refused:
            state(changed(job, word))
        assert f"{job.folder} holds another run: {says}. Give another --folder, or delete it" == str(refused.value)
    with pytest.raises(ConfigError) as refused:
        state(changed(job, *words))
    assert str(refused.value).count(" there and ") == 3  # the first ones


def test_runs_are_the_same_by_config_seed_code_and_place(tmp_path: Path, job: Job) -> None:
    own = identity(job.config, "c1")
    assert identity(changed(job, "name=other", "batches.workers=1").config, "c1") == own
    assert identity(changed(job, f"data.folder={tmp_path}/x/../clips").config, "c1") == own
    assert identity(changed(job, "data.folder=/elsewhere/clips").config, "c1") != own  # other data of the same name
    assert identity(changed(job, "seed=9").config, "c1") != own
    assert identity(job.config, "c2") != own
    assert identity(job.config, None) != own
    address = [changed(job, f"model.init=hf://{name}").config for name in ("a/b", "c/b", "c/../a/b")]
    assert len({identity(config, "c1") for config in address}) == 3


def test_finished_runs_of_other_studies_are_found(tmp_path: Path) -> None:
    asked, studies = study(tmp_path), tmp_path / "studies"
    first, second, mine = (plan(asked, studies / name) for name in ("first", "second", "mine"))
    for job in (first[0], second[0], second[1], mine[2]):
        reach(job, **DONE)
    reach(second[2])  # not evaluated
    reach(replace(second[3], folder=studies / "second" / ".b-seed5.partial"), **DONE)
    (studies / "first" / "b-seed3").mkdir()
    (studies / "first" / "b-seed3" / "config.yaml").write_text("model: 3\n")  # of another version
    for name in ("first", "second", "mine"):
        (studies / name / ASKED).write_text("{}")
    reach(replace(first[3], folder=studies / "no_study" / "x"), **DONE)
    found = finished(studies / "mine")
    assert found == {
        identity(first[0].config, "c1"): first[0].folder,  # of two that are the same, the first
        identity(second[1].config, "c1"): second[1].folder,
    }


def test_a_run_is_taken_over_whole_and_without_its_checkpoint(
    tmp_path: Path, job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = reach(job, **DONE)
    (run.folder / "checkpoint.ckpt").touch()
    folder, partial = tmp_path / "other" / "a", tmp_path / "other" / ".a.partial"
    for place in (folder, partial):
        place.mkdir(parents=True)
        (place / "left").touch()
    assert not reuse(run.folder, replace(job, folder=folder))  # it does not say on what it was trained
    assert partial.exists()
    monkeypatch.setattr("horst.studies.plan.same_data", lambda run, config: True)
    assert reuse(run.folder, replace(job, folder=folder))
    names = {file.relative_to(run.folder) for file in run.folder.rglob("*")}
    assert {file.relative_to(folder) for file in folder.rglob("*")} == names - {Path("checkpoint.ckpt")}
    assert not partial.exists()


def test_runs_on_other_data_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = plan(study(tmp_path), tmp_path / "try")[:2]
    check_data([first])  # no run is there
    first.folder.mkdir(parents=True)
    second.folder.mkdir()
    assert not same_data(first.folder, first.config)
    opened = DataIdentity.of(open_source(first.config.data))
    assert not same_data(first.folder, first.config)  # it does not say on what it was trained
    for job in (first, second):
        opened.write(job.folder)
        assert same_data(job.folder, job.config)
    looked: list[DataConfig] = []
    monkeypatch.setattr("horst.studies.plan.open_source", lambda data: looked.append(data) or open_source(data))
    check_data([first, second])
    assert len(looked) == 1  # once for runs on the same data
    away = changed(first, f"data.folder={tmp_path}/nowhere")
    assert not same_data(first.folder, away.config)
    check_data([away])  # nothing is drawn for this
    assert not (tmp_path / "nowhere").exists()
    other = changed(first, f"data.folder={tmp_path}/other", "data.clips=30")
    open_source(other.config.data)
    assert not same_data(first.folder, other.config)
    with pytest.raises(ConfigError, match=r"holds a run on other data: .*Give another --folder, or delete it"):
        check_data([second, other])
    bad = changed(first, "data.clips=25")  # the folder holds 24
    assert not same_data(first.folder, bad.config)
    check_data([bad])  # training says what is wrong


def test_the_number_of_a_fold_in_changes(tmp_path: Path) -> None:
    """Maps of a backbone that was finetuned without the examples of a fold are in a folder of the fold."""
    own = {"name": "b", "changes": {"data.folder": "maps/{fold}", "model.options.order": 3}}
    folds = [{"data.fold": {"count": 2, "index": index}} for index in range(2)]
    file = tmp_path / "try.yaml"
    study = {
        "name": "try", "title": "A try", "question": "Does it work?", "base": "somethings/cpu",
        "runs": [{"name": "a"}, own], "folds": folds, "metrics": ["area"],
    }  # fmt: skip
    file.write_text(yaml.safe_dump(study))
    jobs = plan(Study.from_file(file), tmp_path, only=["b"])
    assert [job.config.data.options["folder"] for job in jobs] == [str(tmp_path / "maps" / str(k)) for k in range(2)]
    own["changes"] = {"batches": {"cache": "decoded/{fold}"}}  # in an entry of a mapping, too
    file.write_text(yaml.safe_dump(study))
    caches = [job.config.batches.cache for job in plan(Study.from_file(file), tmp_path, only=["b"])]
    assert [Path(str(cache)).name for cache in caches] == ["0", "1"]
