"""The runs of a study: the command of each, its state, its data, and whether it is the same as another run."""

import json
import os
import shutil
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import torch
from torch.utils.data import DataLoader

from horst.config import differences
from horst.configs.run_file import PATH_KEYS
from horst.data.batches import ClipDataset
from horst.data.config import PATHS
from horst.data.example import FIT_SPLITS
from horst.data.folds import connected
from horst.data.identity import DataIdentity
from horst.data.jobs import worker_init
from horst.data.preload import PreloadedClips
from horst.data.segments import WHOLE_VIDEOS
from horst.data.source import open_source
from horst.errors import ConfigError, HorstError
from horst.heads import HEADS
from horst.models import model_config
from horst.places import is_address
from horst.studies.config import Study, StudyRun, overrides
from horst.studies.statistics import check_metric, known_metrics
from horst.threads import available_cores
from horst.training.config import RunConfig
from horst.training.run import Run
from horst.training.speed import chosen_as, resolve

State = Literal["new", "stopped", "trained", "done"]
SPLIT = "val"
ASKED = "asked.json"  # the changes and seeds of a study's runs, for `--report` and later commands
IMMATERIAL = ("batches.workers", "batches.cache", "batches.preload", "trainer.checkpoint_minutes")  # for the results


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """One training."""

    name: str
    run: StudyRun
    seed: int
    fold: int | None  # None without cross-validation
    file: str  # the file or packaged name of the run
    changes: tuple[str, ...]  # as on the command line
    config: RunConfig  # the resolved config
    folder: Path

    @property
    def title(self) -> str:
        """Its name with that of its study's folder."""
        return f"{self.folder.parent.name}/{self.name}"

    @property
    def log(self) -> Path:
        return self.folder.parent / "logs" / f"{self.name}.log"

    def command(self, state: State) -> list[str]:
        """The arguments of `horst` that finish a job in this state; none if it is done."""
        place = str(self.folder)
        new = [self.file, "--folder", place, *(f"--{change}" for change in self.changes)]
        rest = {"new": ["train", *new, "--evaluate"], "stopped": ["train", "--resume", place, "--evaluate"]}
        return [] if state == "done" else rest.get(state, ["evaluate", place])


def plan(
    study: Study,
    folder: str | Path,
    *,
    only: Sequence[str] = (),  # names of runs; all by default
    seeds: Sequence[int] = (),  # instead of the study's
    changes: Sequence[str] = (),  # of all runs, after all others, as on the command line
) -> list[Job]:
    """All trainings, seed by seed. Errors in any of them are raised here."""
    rows = [study.run(name) for name in dict.fromkeys(only)] or study.runs
    chosen = [study.run(name) for name in dict.fromkeys(name for row in rows for name in row.members)]
    jobs = [
        _job(study, run, seed, fold, Path(folder), changes)
        for seed in dict.fromkeys(seeds or study.seeds)
        for run in chosen
        for fold in (range(len(study.folds)) if study.folds else (None,))
    ]
    first = jobs[0].config
    task = HEADS[model_config(first.model.name, **first.model.options).head.name].task
    videos = {name for task in WHOLE_VIDEOS for name in known_metrics(first.data.clip, task)}  # by models of any task
    for metric in study.metrics:
        if metric not in videos:
            check_metric(metric, first.data.clip, task)
    return jobs


def group_folds(study: Study, changes: Sequence[str] = ()) -> Study:
    """The study with the folds that `leave_out: group` stands for: as many as its data has groups."""
    if study.leave_out is None:
        return study
    config = _job(study, study.trained[0], study.seeds[0], 0, Path(), changes).config
    source = open_source(replace(config.data, fold=None))
    examples = [e for e in source.annotations.examples if e.split in FIT_SPLITS]
    count = len(connected(examples, by_media=not source.shared_media))
    if count < 2:
        what = f"{source.annotations.name} has {count}"
        raise ConfigError(f"{study.name}: leave_out: group needs two groups or more, such as persons, and {what}")
    folds = tuple({"data.fold": {"count": count, "index": index}} for index in range(count))
    return replace(study, folds=folds, leave_out=None)


def _job(study: Study, run: StudyRun, seed: int, fold: int | None, folder: Path, changes: Sequence[str]) -> Job:
    name = f"{run.name}-seed{seed}" + ("" if fold is None else f"-fold{fold}")
    settings = {**study.changes, **run.changes, **(study.folds[fold] if fold is not None and study.folds else {})}
    own = overrides({**settings, "name": f"{study.name}-{name}", "seed": seed})
    if fold is not None:  # {fold} is its number, as in the folder of maps that each fold has
        own = [word.replace("{fold}", str(fold)) for word in own]
    words = (*own, *changes)
    file = run.config or study.base
    assert file is not None  # checked by Study
    try:
        config = RunConfig.from_file(file, words, origin="the study's changes or the command line")
        model_config(config.model.name, **config.model.options)
    except HorstError as error:
        raise ConfigError(f"the run {run.name!r} of {study.name}: {error}") from error
    if config.seed != seed:
        raise ConfigError("seed cannot be changed for all runs alike: give --seeds")
    return Job(name=name, run=run, seed=seed, fold=fold, file=file, changes=words, config=config, folder=folder / name)


def state(job: Job) -> State:
    """The state of a job. ConfigError if its folder has a run of another config."""
    run = Run(job.folder)
    if not run.config.is_file():
        return "new"
    before = RunConfig.from_file(run.config, run_imports=False)
    if changed := differences(_essence(before), _essence(chosen_as(job.config, before))):
        what = "; ".join(changed[:3])
        raise ConfigError(f"{job.folder} holds another run: {what}. Give another --folder, or delete it")
    return _state(run, job.config)


def _state(run: Run, config: RunConfig) -> State:
    weights = run.best / "model.safetensors"
    if len(run.epochs()) < config.trainer.epochs or not weights.is_file():
        return "stopped"
    files = [run.evaluation(SPLIT), run.evaluation(SPLIT, "safetensors")]
    since = weights.stat().st_mtime  # an older evaluation is of weights that were not yet trained
    return "done" if all(file.is_file() and file.stat().st_mtime >= since for file in files) else "trained"


def finished(folder: Path) -> dict[str, Path]:
    """The finished runs of the studies beside the one in `folder`, by `identity`."""
    found: dict[str, Path] = {}
    for study in sorted(file.parent for file in folder.parent.glob(f"*/{ASKED}")):
        for file in sorted(study.glob("[!.]*/config.yaml")) if study != folder else ():
            with suppress(HorstError, OSError):  # a run of another version
                run, config = Run(file.parent), RunConfig.from_file(file, run_imports=False)
                if _state(run, config) == "done":
                    found.setdefault(identity(config, run.commit()), run.folder)
    return found


def identity(config: RunConfig, commit: str | None) -> str:
    """The same for runs of the same config, seed and code, which give the same result on the same data."""
    return json.dumps([_essence(resolve(config)[0], whole_paths=True), commit], default=str, sort_keys=True)


def _essence(config: RunConfig, *, whole_paths: bool = False) -> dict[str, Any]:
    """The entries that determine a run, by dotted keys. Only the last part of a path counts unless `whole_paths`: on
    another machine the data may be elsewhere."""
    found = _flat(replace(config, name="").to_dict())
    for key in IMMATERIAL:
        del found[key]
    for key in PATH_KEYS:
        path = found.get(key)
        if isinstance(path, str) and not is_address(path):
            found[key] = os.path.normpath(path) if whole_paths else Path(path).name
    return found


def _flat(data: Any, where: str = "") -> dict[str, Any]:
    if not isinstance(data, dict) or not data:
        return {where: data}
    return {k: v for key, value in data.items() for k, v in _flat(value, f"{where}.{key}" if where else key).items()}


def reuse(run: Path, job: Job) -> bool:
    """Copy a finished run of a job, atomically, without the checkpoint to resume it; False if its data may differ."""
    if not same_data(run, job.config):
        return False
    partial = job.folder.with_name(f".{job.folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    shutil.copytree(run, partial, ignore=shutil.ignore_patterns("checkpoint.ckpt"))
    shutil.rmtree(job.folder, ignore_errors=True)  # of one that was stopped before it became a run
    partial.rename(job.folder)
    return True


def same_data(run: Path, config: RunConfig) -> bool:
    """Whether a run was trained on the data that `config` has now; False if that is not known."""
    before = DataIdentity.read(run)
    return before is not None and before == _data(config)


def check_data(jobs: Iterable[Job]) -> None:
    """ConfigError if a run was trained on other data than there are now."""
    opened: dict[str, DataIdentity | None] = {}
    for job in jobs:
        if (before := DataIdentity.read(job.folder)) is None:
            continue
        key = json.dumps(job.config.data.to_dict(), default=str)
        now = opened[key] = opened[key] if key in opened else _data(job.config)
        if now is not None and (changes := before.differences(now)):
            what = "; ".join(changes)
            raise ConfigError(f"{job.folder} holds a run on other data: {what}. Give another --folder, or delete it")


def _data(config: RunConfig) -> DataIdentity | None:
    """The data of a run; None if they do not exist: synthetic data are not made for this."""
    places = [config.data.options[name] for name in PATHS if isinstance(config.data.options.get(name), str)]
    if not all(Path(place).exists() for place in places):
        return None
    try:
        return DataIdentity.of(open_source(config.data))
    except HorstError:  # training reports it
        return None


def prepare_data(jobs: Iterable[Job]) -> None:
    """Open the data of jobs that will be trained, which makes synthetic data, and decode clips into the cache: once,
    before several runs start at the same time."""
    needed = {}
    for config in (job.config for job in jobs):
        batches = config.batches
        needed[json.dumps([config.data.to_dict(), batches.cache, batches.preload], default=str)] = config.data, batches
    for data, batches in needed.values():
        source = open_source(data)
        if SPLIT not in source.annotations.counts():
            raise ConfigError(f"{source.annotations.name} has no validation examples, by which a study compares runs")
        for split in FIT_SPLITS if batches.cache is not None else ():
            clips, workers = ClipDataset(source, split, data.clip, batches.cache), available_cores()
            if batches.preload:
                PreloadedClips(clips, torch.device("cpu"), workers)
                continue
            # Workers decode into the cache and return only the number of clips.
            whole = [(index, 1.0) for index in range(len(clips))]
            loader: DataLoader[Any] = DataLoader(
                clips,
                batch_size=32,
                sampler=whole,
                num_workers=workers,
                collate_fn=len,
                generator=torch.Generator(),
                worker_init_fn=worker_init(),
            )
            for _ in loader:
                pass
