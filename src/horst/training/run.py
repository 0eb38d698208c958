"""The folder of a run. docs/guides/training.md lists its files, which are written atomically."""

import csv
import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

import torch

import horst
from horst.data.identity import DataIdentity, package_version
from horst.errors import CheckpointError, ConfigError
from horst.io import PARTIAL, holder, is_url, lock, read_json, remove_abandoned, write_text
from horst.places import is_address
from horst.remote import remote_folder
from horst.training.config import RunConfig

PACKAGES = ("torch", "lightning", "pytorch_optimizer", "numpy", "av", "safetensors")


class Run:
    """The paths of a run. If its folder is an address, such as s3://bucket/run, they are those of a local copy.

    `skip`: what is not copied from an address.
    """

    def __init__(self, folder: str | Path, skip: Sequence[str] = ()) -> None:
        at_address = is_url(folder) and not is_address(folder)  # the Hub has models, no runs
        self.remote = remote_folder(str(folder), skip) if at_address else None
        self.folder = Path(folder) if self.remote is None else self.remote.local
        self.config, self.metrics = self.folder / "config.yaml", self.folder / "metrics.csv"
        self.best, self.last = self.folder / "best", self.folder / "last"
        self.checkpoint = self.folder / "checkpoint.ckpt"
        self.unfinished = self.folder / f".checkpoint{PARTIAL}"

    @property
    def place(self) -> str:
        """The folder as it was given."""
        return str(self.folder) if self.remote is None else self.remote.address

    def shown(self, file: Path) -> str:
        """A file of the run, at its address if it has one: the local copy is removed at the end."""
        inside = self.remote is not None and file.is_relative_to(self.folder)
        return f"{self.place.rstrip('/')}/{file.relative_to(self.folder).as_posix()}" if inside else str(file)

    def publish(self) -> None:
        """Copy what has changed to the address of the run, if it has one."""
        if self.remote is not None:
            self.remote.push()

    def evaluation(self, split: str, kind: str = "json") -> Path:
        return self.folder / "evaluation" / f"{split}.{kind}"

    def bad_clips(self, rank: int) -> Path:
        return self.folder / ("bad_clips.csv" if rank == 0 else f"bad_clips.{rank}.csv")

    def epochs(self) -> list[dict[str, str]]:
        """The rows of metrics.csv."""
        if not self.metrics.is_file():
            return []
        with self.metrics.open(newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))

    def commit(self) -> str | None:
        """Of the code that started it."""
        return read_json(self.folder / "environment.json").get("commit")

    def machine(self) -> str | None:
        """The processor and the GPUs where it started; None for runs of earlier versions."""
        found = read_json(self.folder / "environment.json")
        return ", ".join([found["processor"], *found["devices"]]) if "processor" in found else None

    def check_new(self) -> None:
        """ConfigError if the folder has a run already, or a name with which loggers and weights cannot be written."""
        if any("\ud800" <= letter <= "\udfff" for letter in self.place):
            raise ConfigError(f"the name {self.place} is not UTF-8: give another --folder")
        if self.config.exists():
            raise ConfigError(
                f"{self.place} holds a run already: continue it with `horst train --resume {self.place}`, or give "
                "another --folder or --name"
            )

    def create(self, config: RunConfig, data: DataIdentity) -> None:
        """Make the folder that of a new run on `data`."""
        self.check_new()
        with writable(self.folder):
            write_text(self.folder / "environment.json", json.dumps(environment(), indent=1) + "\n")
            data.write(self.folder)
            write_text(self.config, config.to_yaml())  # last: it makes the folder a run
            self.publish()

    def lock(self) -> TextIO:
        """Lock the folder until the returned file is closed. ConfigError if another process trains the run."""
        with writable(self.folder, "is being trained by {holder}: wait for it or stop it, then resume"):
            found = lock(self.folder, wait=False)
        for folder in (self.folder, self.evaluation("val").parent):
            remove_abandoned(folder)
        self.unfinished.unlink(missing_ok=True)
        return found

    @contextmanager
    def writing(self, what: Path) -> Iterator[None]:
        """Turn errors of the disk into a CheckpointError that says what could not be written and what is left."""
        try:
            yield
        except (OSError, RuntimeError, CheckpointError) as error:  # torch raises RuntimeError if a disk is full
            message = str(error) if isinstance(error, CheckpointError) else f"{what} cannot be written: {error}"
            raise CheckpointError(f"{message}; {self.remedy}") from error

    @property
    def remedy(self) -> str:
        """What to do when a disk is full."""
        last = self.shown(self.checkpoint)
        left = f"the last checkpoint, {last}, is whole" if self.checkpoint.exists() else "there is no checkpoint yet"
        return f"{left}. Free some space, then continue with `horst train --resume {self.place}`"


def is_first() -> bool:
    """Whether this process writes the run's files. Before Lightning starts, the launcher's variables tell."""
    return all(int(os.environ.get(name, "0")) == 0 for name in ("RANK", "LOCAL_RANK", "SLURM_PROCID"))


@contextmanager
def writable(folder: Path, in_use: str = "") -> Iterator[None]:
    """ConfigError if `folder` cannot be written or, with the message `in_use`, if another process has locked it."""
    try:
        yield
    except BlockingIOError as error:
        raise ConfigError(f"{folder} {in_use.format(holder=holder(folder))}") from error
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
        "packages": {name: package_version(name) for name in PACKAGES},
        "processor": processor(),
        "devices": [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())] or ["cpu"],
        "command": [program, *sys.argv[1:]],
    }


def processor() -> str:
    """The CPU, on Linux with its family and model: the last digits of what it computes depend on them."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").partition("\n\n")[0].splitlines()
    except OSError:
        lines = []
    about = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    name = about.get("model name") or platform.processor() or platform.machine()
    known = [f"{word} {about[key]}" for key, word in (("cpu family", "family"), ("model", "model")) if key in about]
    return f"{name} ({', '.join(known)})" if known else name


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
