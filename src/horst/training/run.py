"""The folder of a run.

    config.yaml        the resolved config
    data.json          which examples and files it is trained on; see `horst.data.identity`
    environment.json   versions, devices, the commit, the command
    best/, last/       saved models: model.safetensors, config.json, labels.json
    metrics.csv        one row per epoch; tensorboard/ has the same
    bad_clips.csv      training clips that could not be read
    checkpoint.ckpt    to resume from; loads with torch's weights-only loader
    evaluation/        the results of `horst evaluate`

Files are written atomically.
"""

from __future__ import annotations

import json
import platform
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
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
        """A new run on `data`. ConfigError if the folder has a run already."""
        run = cls(Path(folder))
        if run.config.exists():
            raise ConfigError(
                f"{run.folder} holds a run already: continue it with `horst train --resume {run.folder}`, or give "
                "another --folder or --name"
            )
        with _writable(run.folder):
            run.folder.mkdir(parents=True, exist_ok=True)
            write_text(run.folder / "environment.json", json.dumps(environment(), indent=1) + "\n")
            if data is not None:
                data.write(run.folder)
            write_text(run.config, config.to_yaml())  # last: it makes the folder a run
        return run

    @classmethod
    def open(cls, folder: str | Path) -> Run:
        run = cls(Path(folder))
        if not run.config.is_file():
            raise ConfigError(f"{run.folder} is no run: it has no {run.config.name}; pass a folder of `horst train`")
        return run

    def lock(self) -> TextIO:
        """Lock the folder until the returned file is closed. ConfigError if another process trains the run."""
        try:
            with _writable(self.folder):
                return lock(self.folder, wait=False)
        except BlockingIOError as error:
            raise ConfigError(
                f"{self.folder} is being trained by {holder(self.folder)}: wait for it or stop it, then resume"
            ) from error

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


@contextmanager
def _writable(folder: Path) -> Iterator[None]:
    try:
        yield
    except BlockingIOError:
        raise
    except OSError as error:
        raise ConfigError(f"{folder} cannot be written: {error}; give another --folder") from error


def environment() -> dict[str, Any]:
    """What a run depends on besides its config."""
    called = Path(sys.argv[0])
    program = f"python -m {called.parent.name}" if called.name == "__main__.py" else called.name
    return {
        "horst": horst.__version__,
        "commit": commit(),
        "python": platform.python_version(),
        "system": platform.system(),
        "packages": {name: _version(name) for name in PACKAGES},
        "devices": [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())] or ["cpu"],
        "command": [program, *sys.argv[1:]],
    }


def commit() -> str | None:
    """The commit of the source that runs, with "+" if it was changed since; None for an installed package."""
    here = Path(horst.__file__).parent
    try:
        head, changes = (
            subprocess.run(["git", "-C", str(here), *words], capture_output=True, text=True, timeout=10, check=True)
            for words in (["rev-parse", "HEAD"], ["status", "--porcelain", "--", "."])
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return head.stdout.strip() + ("+" if changes.stdout.strip() else "")


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
