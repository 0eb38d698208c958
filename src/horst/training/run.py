"""The folder of a run: what was asked for, what came out, and all that it takes to go on.

    config.yaml        the run as resolved
    data.json          which examples and files it is trained on; see `horst.data.identity`
    environment.json   versions, devices, the commit, the command
    best/, last/       saved models: model.safetensors, config.json, labels.json
    metrics.csv        one row an epoch; tensorboard/ shows the same
    bad_clips.csv      training clips that could not be read
    checkpoint.ckpt    to resume from; loads with torch's weights-only loader
    evaluation/        what `horst evaluate` found

Every file appears whole or not at all.
"""

from __future__ import annotations

import json
import platform
import subprocess
import sys
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, TextIO

import torch

import horst
from horst.data.identity import DataIdentity
from horst.errors import ConfigError
from horst.io import holder, lock, write_text
from horst.training.config import RunConfig

PACKAGES = ("torch", "lightning", "pytorch_optimizer", "numpy", "av", "safetensors")


@dataclass(frozen=True, slots=True)
class Run:
    """The paths of a run."""

    folder: Path

    @classmethod
    def create(cls, folder: str | Path, config: RunConfig, data: DataIdentity | None = None) -> Run:
        """A new run on `data`. The folder of another one is never written over."""
        run = cls(Path(folder))
        if run.config.exists():
            raise ConfigError(
                f"{run.folder} holds a run already: go on with `horst train --resume {run.folder}`, or give another "
                "--folder or --name"
            )
        try:
            run.folder.mkdir(parents=True, exist_ok=True)
            write_text(run.folder / "environment.json", json.dumps(environment(), indent=1) + "\n")
            if data is not None:
                data.write(run.folder)
            write_text(run.config, config.to_yaml())  # last: from now on it is a run
        except OSError as error:
            raise ConfigError(f"{run.folder} cannot be written: {error}; give another --folder") from error
        return run

    @classmethod
    def open(cls, folder: str | Path) -> Run:
        run = cls(Path(folder))
        if not run.config.is_file():
            raise ConfigError(f"{run.folder} is no run: it has no {run.config.name}; pass a folder of `horst train`")
        return run

    def hold(self) -> TextIO:
        """Take the folder until the file is closed: two processes would destroy each other's files."""
        try:
            return lock(self.folder, wait=False)
        except BlockingIOError as error:
            raise ConfigError(
                f"{self.folder} is being trained by {holder(self.folder)}: wait for it or stop it, then resume"
            ) from error
        except OSError as error:
            raise ConfigError(f"{self.folder} cannot be written: {error}; give another --folder") from error

    @property
    def config(self) -> Path:
        return self.folder / "config.yaml"

    @property
    def best(self) -> Path:
        return self.folder / "best"

    @property
    def last(self) -> Path:
        return self.folder / "last"

    @property
    def checkpoint(self) -> Path:
        return self.folder / "checkpoint.ckpt"

    @property
    def metrics(self) -> Path:
        return self.folder / "metrics.csv"

    def evaluation(self, split: str, kind: str = "json") -> Path:
        return self.folder / "evaluation" / f"{split}.{kind}"

    def bad_clips(self, rank: int) -> Path:
        return self.folder / ("bad_clips.csv" if rank == 0 else f"bad_clips.{rank}.csv")


def environment() -> dict[str, Any]:
    """What a run depends on beside its config."""
    return {
        "horst": horst.__version__,
        "commit": commit(),
        "python": platform.python_version(),
        "system": platform.system(),
        "packages": {name: _version(name) for name in PACKAGES},
        "devices": [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())] or ["cpu"],
        "command": [_program(), *sys.argv[1:]],
    }


def _program() -> str:
    """As it was called, without the folder it lies in: horst, or python -m horst."""
    called = Path(sys.argv[0])
    return f"python -m {called.parent.name}" if called.name == "__main__.py" else called.name


def commit() -> str | None:
    """Of the source that runs, with a plus sign where it was changed since; None for an installed package."""
    here = Path(horst.__file__).parent
    try:
        told = [
            subprocess.run(["git", "-C", str(here), *words], capture_output=True, text=True, timeout=10, check=True)
            for words in (["rev-parse", "HEAD"], ["status", "--porcelain", "--", "."])
        ]
    except (OSError, subprocess.SubprocessError):
        return None
    return told[0].stdout.strip() + ("+" if told[1].stdout.strip() else "")


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
