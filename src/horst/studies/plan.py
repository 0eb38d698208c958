"""The runs of a study one by one, the command of each, and how far it has come.

FOLDER/<run>-seed<n>[-fold<k>]/   a run folder as `horst train` makes it
FOLDER/logs/<the same>.log        what it said
"""

from __future__ import annotations

import csv
import json
import os
import shutil
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from horst.data.config import PATHS
from horst.data.example import Task
from horst.data.identity import DataIdentity
from horst.data.source import open_source
from horst.errors import ConfigError, HorstError
from horst.heads import HEADS
from horst.io import read_json
from horst.models import model_config
from horst.models.hub import is_address
from horst.studies.config import Study, StudyRun, overrides
from horst.studies.values import check_metric
from horst.training.config import PATH_KEYS, RunConfig
from horst.training.run import Run

State = Literal["new", "stopped", "trained", "done"]
SPLIT = "val"
ASKED = "asked.json"
"""What a study's runs were changed by, and which seeds there are, for --report and for those who come later."""
IMMATERIAL = (("batches", "workers"), ("batches", "cache"), ("batches", "preload"), ("trainer", "checkpoint_minutes"))
"""What a run may change and stay the same run."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """One training."""

    name: str
    run: StudyRun
    seed: int
    fold: int | None
    """None without cross-validation."""
    file: str
    """The YAML file of the run."""
    changes: tuple[str, ...]
    """As on the command line."""
    config: RunConfig
    """What comes out."""
    folder: Path

    @property
    def called(self) -> str:
        """With the folder of its study: several may be at work."""
        return f"{self.folder.parent.name}/{self.name}"

    @property
    def log(self) -> Path:
        return self.folder.parent / "logs" / f"{self.name}.log"

    def command(self, state: State) -> list[str]:
        """What is left to do, as words after `horst`; none where it is done."""
        place = str(self.folder)
        new = [self.file, "--folder", place, *(f"--{change}" for change in self.changes)]
        rest = {"new": ["train", *new, "--evaluate"], "stopped": ["train", "--resume", place, "--evaluate"]}
        return [] if state == "done" else rest.get(state, ["evaluate", place])


def plan(
    study: Study,
    folder: str | Path,
    *,
    only: Sequence[str] = (),
    seeds: Sequence[int] = (),
    changes: Sequence[str] = (),
) -> list[Job]:
    """All trainings, by seeds: whatever is wrong with one is said before the first starts.

    Args:
        study: Which.
        folder: Where its runs are kept.
        only: Names of runs; all by default.
        seeds: In place of the study's.
        changes: Of all runs, after all others, as on the command line.
    """
    chosen = [study.run(name) for name in dict.fromkeys(only)] or list(study.runs)
    jobs = []
    for seed in dict.fromkeys(seeds or study.seeds):
        for run in chosen:
            for fold in range(len(study.folds)) if study.folds else (None,):
                jobs.append(_job(study, run, seed, fold, Path(folder), changes))
    for metric in study.metrics:
        check_metric(metric, jobs[0].config.data.clip, _task(jobs[0].config))
    return jobs


def state(job: Job) -> State:
    """ConfigError where its folder holds a run of another config."""
    run = Run(job.folder)
    if not run.config.is_file():
        return "new"
    there = RunConfig.from_file(run.config)
    if differing := _differences(_essence(there), _essence(job.config)):
        raise ConfigError(
            f"{job.folder} holds another run: {'; '.join(differing[:3])}. Give another --folder, or delete it"
        )
    return _reached(run, job.config)


def finished(folder: Path) -> dict[str, Path]:
    """The finished runs of the studies that lie beside the one in `folder`, by what `identity` says of them."""
    found: dict[str, Path] = {}
    for study in sorted(file.parent for file in folder.parent.glob(f"*/{ASKED}")):
        for file in sorted(study.glob("[!.]*/config.yaml")) if study != folder else ():
            with suppress(HorstError, OSError):  # a run of another version
                config, about = RunConfig.from_file(file), read_json(file.parent / "environment.json")
                if _reached(Run(file.parent), config) == "done":
                    found.setdefault(identity(config, about.get("commit")), file.parent)
    return found


def identity(config: RunConfig, commit: str | None) -> str:
    """The same for runs that give the same, on the same data: of one config, seed and code. See `same_data`."""
    return json.dumps([_essence(config, whole=True), commit], default=str)


def same_data(run: Path, config: RunConfig) -> bool:
    """Whether a run was trained on the data that `config` names now; False where that cannot be told."""
    before, now = DataIdentity.read(run), _data(config)
    return before is not None and before == now


def check_data(jobs: Iterable[Job]) -> None:
    """Refuse runs that were trained on other data than those that are there now."""
    opened: dict[str, DataIdentity | None] = {}
    for job in jobs:
        before = DataIdentity.read(job.folder)
        if before is not None:
            key = json.dumps(job.config.data.to_dict(), default=str)
            if key not in opened:
                opened[key] = _data(job.config)
            if (now := opened[key]) is not None and (changes := before.differences(now)):
                raise ConfigError(
                    f"{job.folder} holds a run on other data: {'; '.join(changes)}. Give another --folder, or delete it"
                )


def _data(config: RunConfig) -> DataIdentity | None:
    """Of the data of a run; None where they are not there: drawn ones are not drawn for this."""
    places = [config.data.options[name] for name in PATHS if isinstance(config.data.options.get(name), str)]
    if not all(Path(place).exists() for place in places):
        return None
    try:
        return DataIdentity.of(open_source(config.data))
    except HorstError:  # training says what is wrong
        return None


def adopt(run: Path, folder: Path) -> None:
    """Copy a finished run, whole or not at all, without what it takes to go on with it."""
    partial = folder.with_name(f".{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    shutil.copytree(run, partial, ignore=shutil.ignore_patterns("checkpoint.ckpt"))
    shutil.rmtree(folder, ignore_errors=True)  # of one that was stopped before it became a run
    partial.rename(folder)


def _job(study: Study, run: StudyRun, seed: int, fold: int | None, folder: Path, changes: Sequence[str]) -> Job:
    name = f"{run.name}-seed{seed}" + ("" if fold is None else f"-fold{fold}")
    settings = {**study.changes, **run.changes, **(study.folds[fold] if fold is not None else {})}
    words = [*overrides({**settings, "name": f"{study.name}-{name}", "seed": seed}), *changes]
    file = run.config or study.base
    assert file is not None  # Study looks at that
    try:
        config = RunConfig.from_file(file, words)
        model_config(config.model.name, **config.model.options)
    except HorstError as error:
        raise ConfigError(f"the run {run.name!r} of {study.name}: {error}") from error
    if config.seed != seed:
        raise ConfigError("seed cannot be changed for all runs alike: give --seeds")
    return Job(
        name=name,
        run=run,
        seed=seed,
        fold=fold,
        file=file,
        changes=tuple(words),
        config=config,
        folder=folder / name,
    )


def _reached(run: Run, config: RunConfig) -> State:
    weights = run.best / "model.safetensors"
    if _epochs(run) < config.trainer.epochs or not weights.is_file():
        return "stopped"
    files = [run.evaluation(SPLIT), run.evaluation(SPLIT, "safetensors")]
    since = weights.stat().st_mtime  # someone may have evaluated it half-trained
    return "done" if all(file.is_file() and file.stat().st_mtime >= since for file in files) else "trained"


def _epochs(run: Run) -> int:
    """That are finished."""
    if not run.metrics.is_file():
        return 0
    with run.metrics.open(newline="", encoding="utf-8") as file:
        return sum(1 for _ in csv.DictReader(file))


def _task(config: RunConfig) -> Task:
    return HEADS[model_config(config.model.name, **config.model.options).head.name].task


def _essence(config: RunConfig, *, whole: bool = False) -> dict[str, Any]:
    """What makes a run the same. Of paths the last part alone, unless `whole`: a folder may be taken to a machine where
    its data lie elsewhere."""
    plain = replace(config, name="").to_dict()
    for section, key in IMMATERIAL:
        plain[section].pop(key)
    found = _flat(plain)
    names = [name for name in PATH_KEYS if isinstance(found.get(name), str) and not is_address(found[name])]
    return found | {name: os.path.normpath(found[name]) if whole else Path(found[name]).name for name in names}


def _flat(plain: Any, where: str = "") -> dict[str, Any]:
    if isinstance(plain, dict) and plain:
        found: dict[str, Any] = {}
        for key, value in plain.items():
            found |= _flat(value, f"{where}.{key}" if where else str(key))
        return found
    return {where: plain}


def _differences(there: dict[str, Any], here: dict[str, Any]) -> list[str]:
    names = [name for name in {**there, **here} if there.get(name) != here.get(name)]
    return [f"{name} is {there.get(name)!r} there and {here.get(name)!r} here" for name in names]
