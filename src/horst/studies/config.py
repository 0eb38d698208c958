"""A study as plain data: one YAML file that names runs, what each changes, seeds, and what is asked of the results.

name: orders
title: How many past states
question: Is S = 8 better than S = 1?
base: ../somethings/gpu.yaml              # a run; paths are relative to this file
changes: {trainer.epochs: 60}             # of all runs, as on the command line of `horst train`
runs:
  - {name: s8}
  - {name: s1, changes: {model.options.order: 1}}
seeds: [0, 1, 2]
against: s8                               # with which the others are compared
metrics: [action/top1@25%, area]
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from horst.config import from_dict, read_yaml
from horst.configs import config_name, find_base, find_config, list_configs, path_root
from horst.data.config import DataConfig
from horst.errors import ConfigError, did_you_mean
from horst.models.registry import METHODS, Method
from horst.training.config import PATH_KEYS, absolute_path

FOLDER = Path("configs") / "studies"
"""Where studies of one's own are found by name, in the current directory."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StudyRun:
    """One row of the table: a recipe, which is trained with every seed."""

    name: str
    """Of its folders."""
    title: str | None = None
    """In tables; the method's, or the name, by default."""
    config: str | None = None
    """A run's YAML file in place of the study's base."""
    changes: dict[str, Any] = field(default_factory=dict)
    """After those of the study, by dotted keys."""
    method: str | None = None
    """Of `horst.models.registry`: for its title and the paper's figures."""
    against: str | None = None
    """The run that this one is compared with, in place of the study's."""

    @property
    def known(self) -> Method | None:
        return None if self.method is None else METHODS[self.method]

    @property
    def label(self) -> str:
        return self.title or (self.known.title if self.known else self.name)


@dataclass(frozen=True, kw_only=True, slots=True)
class Study:
    """A grid of runs."""

    name: str
    title: str
    question: str
    """In a sentence."""
    runs: tuple[StudyRun, ...]
    metrics: tuple[str, ...]
    """Of `horst.evaluation.measure`: the columns of the table."""
    base: str | None = None
    """The YAML file of a run, where runs name none of their own."""
    changes: dict[str, Any] = field(default_factory=dict)
    """Of all runs, by dotted keys."""
    seeds: tuple[int, ...] = (0,)
    folds: tuple[dict[str, Any], ...] = ()
    """Cross-validation: the changes that make each fold. The validation examples of all folds are pooled: each is
    predicted exactly once, by the model of its fold."""
    against: str | None = None
    """The run that the others are compared with."""
    curve: bool = False
    """Draw accuracy over the observed part of a clip, or over the time before the action."""

    def __post_init__(self) -> None:
        names = [run.name for run in self.runs]
        if not names:
            raise ConfigError("runs is empty; a study has one run or more")
        for name in (self.name, *names):
            if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", name):
                raise ConfigError(f"the name {name!r} becomes a folder's; use letters, digits, '-', '_' and '.'")
        for what, values in (("runs", names), ("seeds", self.seeds), ("metrics", self.metrics)):
            doubled = [value for i, value in enumerate(values) if value in values[:i]]
            if doubled:
                raise ConfigError(f"{what} has {doubled[0]!r} twice")
            if not values:
                raise ConfigError(f"{what} is empty; give one or more")
        for run in self.runs:
            if run.config is None and self.base is None:
                raise ConfigError(f"the run {run.name!r} has no config and the study has no base: give one of them")
            if run.method is not None:
                METHODS[run.method]  # raises, with near matches
        for rival in (self.against, *(run.against for run in self.runs)):
            if rival is not None and rival not in names:
                raise ConfigError(f"against is {rival!r}{did_you_mean(rival, names, 'The runs are')}")

    @classmethod
    def from_file(cls, path: str | Path) -> Study:
        """A study by the path of its file or by its name. Its paths are made absolute."""
        path = find_study(path)
        try:
            study = from_dict(cls, read_yaml(path))
            root = path_root(path)
            runs = (
                replace(run, config=_run_file(run.config, path), changes=with_absolute_paths(run.changes, root))
                for run in study.runs
            )
            return replace(
                study,
                base=_run_file(study.base, path),
                runs=tuple(runs),
                changes=with_absolute_paths(study.changes, root),
                folds=tuple(with_absolute_paths(fold, root) for fold in study.folds),
            )
        except ConfigError as error:
            raise ConfigError(f"{path}: {error}" if str(path) not in str(error) else str(error)) from error

    def run(self, name: str) -> StudyRun:
        names = {run.name: run for run in self.runs}
        if name not in names:
            raise ConfigError(f"{self.name} has no run {name!r}{did_you_mean(name, names, 'There are')}")
        return names[name]

    def rival(self, run: StudyRun) -> str | None:
        """The run that another is compared with; None where it is that one, or there is none."""
        chosen = run.against or self.against
        return None if chosen == run.name else chosen


def find_study(name: str | Path) -> Path:
    """The file of a study: a path, a name in ./configs/studies, or a packaged name."""
    own = FOLDER / f"{name}.yaml"
    return own if own.is_file() else find_config(name, "studies")


def known_studies() -> dict[str, Path]:
    """The files of the studies that have a name."""
    packaged = [find_config(name) for name in list_configs("studies/*")]
    return {file.stem: file for file in (*packaged, *sorted(FOLDER.glob("*.yaml")))}


def overrides(changes: Mapping[str, Any]) -> list[str]:
    """As on the command line: "trainer.epochs=60"."""
    return [f"{key}={_text(value)}" for key, value in changes.items()]


def with_absolute_paths(changes: Mapping[str, Any], root: Path) -> dict[str, Any]:
    """Changes with their paths, which are relative to `root`, made absolute."""
    found = dict(changes)
    for key, value in changes.items():
        if key in PATH_KEYS and isinstance(value, str):
            found[key] = absolute_path(value, root)
        elif key == "data":
            data = (
                DataConfig.from_file(root / value) if isinstance(value, str) else DataConfig.from_dict(value, base=root)
            )
            found[key] = data.to_dict()
    return found


def _run_file(base: str | None, path: Path) -> str | None:
    """The run file that a study names: an absolute path, or a packaged name."""
    return None if base is None else config_name(find_base(base, path.resolve()))


def _text(value: Any) -> str:
    """A value as YAML reads it back, in one line; words stay without quotes. JSON's 1e-05 would be read as a word."""
    flow: dict[str, Any] = {"default_flow_style": True, "width": math.inf, "sort_keys": False}
    text: str = yaml.safe_dump(value, allow_unicode=True, **flow)
    if len(text.removesuffix("...\n").splitlines()) > 1:  # line breaks in a text: all is quoted, and they are escaped
        text = yaml.safe_dump(value, default_style='"', **flow)
    return text.removesuffix("...\n").removesuffix("\n")
