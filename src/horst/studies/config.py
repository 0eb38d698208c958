"""The config of a study: one YAML file with its runs, seeds and metrics. docs/guides/studies.md has an example."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, Self

import yaml

from horst.config import from_dict, read_yaml
from horst.configs import OWN_STUDIES, config_name, find_base, find_config, find_study, list_configs, path_root
from horst.configs.run_file import absolute_entry
from horst.data.config import DataConfig
from horst.errors import ConfigError, did_you_mean, with_file
from horst.models import METHODS, Method


@dataclass(frozen=True, kw_only=True, slots=True)
class StudyRun:
    """One row of the table: a recipe, which is trained with every seed, or several of them fused."""

    name: str  # part of the names of its folders
    title: str | None = None  # in tables; by default that of the method, or the name
    config: str | None = None  # a run's YAML file instead of the study's base
    changes: dict[str, Any] = field(default_factory=dict)  # by dotted keys, after those of the study
    method: str | None = None  # a name in `horst.models.METHODS`, for its title and the paper's values
    against: str | None = None  # the run that this one is compared with, instead of the study's
    fuse: tuple[str, ...] = ()
    """Instead of a training: the names of runs. The mean of their probabilities is the prediction, seed by seed."""

    @property
    def members(self) -> tuple[str, ...]:
        """The names of the runs that are trained for this row: those that it fuses, or its own."""
        return self.fuse or (self.name,)

    @property
    def known(self) -> Method | None:
        """The method."""
        return None if self.method is None else METHODS[self.method]

    @property
    def label(self) -> str:
        return self.title or (self.known.title if self.known else self.name)


@dataclass(frozen=True, kw_only=True, slots=True)
class Videos:
    """How to make the data of a study from a folder of videos."""

    data: dict[str, Any]  # a data config without the folder
    backbone: dict[str, Any]  # of feature maps: its name and options
    quality: int = 90  # of packed JPEG frames

    @classmethod
    def from_file(cls, path: str | Path) -> Self:
        try:
            videos = from_dict(cls, read_yaml(Path(path)))
            if "name" not in videos.backbone:
                raise ConfigError("backbone needs the entry 'name'")
            return videos
        except ConfigError as error:
            raise ConfigError(with_file(path, error)) from error


@dataclass(frozen=True, kw_only=True, slots=True)
class Study:
    """A grid of runs."""

    name: str
    title: str
    question: str  # in one sentence
    runs: tuple[StudyRun, ...]
    metrics: tuple[str, ...]  # of `horst.evaluation.measure`: the columns of the table
    base: str | None = None  # the YAML file of runs that have no `config`
    changes: dict[str, Any] = field(default_factory=dict)  # of all runs, by dotted keys
    seeds: tuple[int, ...] = (0,)
    folds: tuple[dict[str, Any], ...] = ()
    """Cross-validation: the changes of each fold. The validation examples of all folds are pooled: each is predicted
    once, by the model of its fold."""
    leave_out: Literal["group"] | None = None
    """Instead of `folds`: one fold for each group of the data, such as a person."""
    against: str | None = None  # the run that the others are compared with
    ensemble: bool = False  # a row for the mean of the seeds' probabilities, for each run with several seeds
    videos: str | None = None  # a YAML file with `Videos`, for `horst study NAME --videos FOLDER`
    curve: bool = False  # plot accuracy over the observed part of a clip, or over the time before the action

    def __post_init__(self) -> None:
        names = [run.name for run in self.runs]
        for what, values in (("runs", names), ("seeds", self.seeds), ("metrics", self.metrics)):
            if not values:
                raise ConfigError(f"{what} is empty; give one or more")
            if twice := [value for i, value in enumerate(values) if value in values[:i]]:
                raise ConfigError(f"{what} has {twice[0]!r} twice")
        for name in (self.name, *names):
            if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", name):
                raise ConfigError(f"the name {name!r} becomes a folder's; use letters, digits, '-', '_' and '.'")
        if self.folds and self.leave_out:
            raise ConfigError("folds and leave_out both define a cross-validation; give one of them")
        for run in self.runs:
            if run.fuse:
                _check_fused(run, [other.name for other in self.trained])
            elif run.config is None and self.base is None:
                raise ConfigError(f"the run {run.name!r} has no config and the study has no base: give one of them")
            _ = run.known  # raises for an unknown method
        for baseline in (self.against, *(run.against for run in self.runs)):
            if baseline is not None and baseline not in names:
                raise ConfigError(f"against is {baseline!r}{did_you_mean(baseline, names, 'The runs are')}")

    @classmethod
    def from_file(cls, path: str | Path) -> Self:
        """A study by the path of its file or by its name. Its paths are made absolute."""
        path = find_study(path)
        try:
            study = from_dict(cls, read_yaml(path))
            runs = [
                replace(run, config=_run_file(run.config, path), changes=_absolute(run.changes, path))
                for run in study.runs
            ]
            videos = None if study.videos is None else str(find_base(study.videos, path))
            changes, folds = _absolute(study.changes, path), tuple(_absolute(fold, path) for fold in study.folds)
            base = _run_file(study.base, path)
            return replace(study, base=base, runs=tuple(runs), changes=changes, folds=folds, videos=videos)
        except ConfigError as error:
            raise ConfigError(with_file(path, error)) from error

    @property
    def trained(self) -> list[StudyRun]:
        """The runs that are not fused from others."""
        return [run for run in self.runs if not run.fuse]

    def run(self, name: str) -> StudyRun:
        names = {run.name: run for run in self.runs}
        if name not in names:
            raise ConfigError(f"{self.name} has no run {name!r}{did_you_mean(name, names, 'There are')}")
        return names[name]

    def baseline(self, run: StudyRun) -> str | None:
        """The run that another is compared with; None if there is none or it is that run itself."""
        chosen = run.against or self.against
        return None if chosen == run.name else chosen


def _check_fused(run: StudyRun, trained: Sequence[str]) -> None:
    """ConfigError unless the row fuses two or more runs of the study that are trained."""
    if run.config is not None or run.changes:
        raise ConfigError(f"the run {run.name!r} fuses others and is not trained: leave out config and changes")
    if len(set(run.fuse)) < max(2, len(run.fuse)):
        raise ConfigError(f"the run {run.name!r} fuses {', '.join(run.fuse)}; name two or more different runs")
    for name in run.fuse:
        if name not in trained:
            known = did_you_mean(name, trained, "The trained runs are")
            raise ConfigError(f"the run {run.name!r} fuses {name!r}{known}")


def known_studies() -> dict[str, Path]:
    """The files of all studies that are found by name."""
    packaged = [find_config(name) for name in list_configs("studies/*")]
    return {file.stem: file for file in (*packaged, *sorted(OWN_STUDIES.glob("*.yaml")))}


def overrides(changes: Mapping[str, Any]) -> list[str]:
    """Changes as on the command line: "trainer.epochs=60"."""
    return [f"{key}={_flow(value)}" for key, value in changes.items()]


def _absolute(changes: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """The changes in the file `path`, with absolute paths."""
    found = {key: absolute_entry(key, value, path_root(path)) for key, value in changes.items()}
    if not isinstance(changes.get("data", ""), str):
        found["data"] = DataConfig.from_dict(changes["data"], base=path_root(path)).to_dict()
    return found


def _run_file(base: str | None, path: Path) -> str | None:
    """The run file that a study names, as an absolute path or a packaged name."""
    return None if base is None else config_name(find_base(base, path.resolve()))


def _flow(value: Any) -> str:
    """A value as one line of YAML, words without quotes. In JSON, 1e-05 would be read as a word."""
    flow: dict[str, Any] = {"default_flow_style": True, "width": math.inf, "sort_keys": False}
    text: str = yaml.safe_dump(value, allow_unicode=True, **flow)
    if len(text.removesuffix("...\n").splitlines()) > 1:  # text with line breaks, which quotes escape
        text = yaml.safe_dump(value, default_style='"', **flow)
    return text.removesuffix("...\n").removesuffix("\n")
