"""Finetuning next to a server, in a worker process that can be watched and cancelled.

The first line of the worker's input is the request, as JSON. The input then stays open: when it closes, the parent has
ended, even if it was killed, and so does the worker. Each line of its output has changes of the `FinetuneState`.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import torch

import horst
from horst.errors import BusyError, HorstError, InputError
from horst.finetune.job import FinetuneJob, FinetuneProgress, LabelResult
from horst.finetune.recordings import Recordings
from horst.finetune.run import MOTION_POOL, finetune
from horst.models.checkpoint import CONFIG, check_place
from horst.places import pretrained_models
from horst.threads import THREADS

GRACE = 5.0  # seconds that a cancelled worker has to end before it is killed
INTERVAL = 0.1  # shortest time between two lines of progress, in seconds
NICE = 10  # about a tenth of the processor if others want it: serving comes first
MODEL_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_-]{0,46}[A-Za-z0-9])?")
WINDOWS_DEVICES = {"con", "prn", "aux", "nul", *(f"{port}{n}" for port in ("com", "lpt") for n in range(10))}


@dataclass(frozen=True, slots=True)
class FinetuneState:
    """State of the last job."""

    state: Literal["idle", "running", "done", "failed", "cancelled"] = "idle"
    progress: float = 0.0  # 0 to 1
    accuracy: float | None = None  # on held-out clips; None if it is not known
    model: str | None = None  # its name, when it is there
    message: str = ""
    labels: list[LabelResult] = field(default_factory=list)  # held-out clips of each label
    advice: list[str] = field(default_factory=list)  # what to record more of


class Finetuner:
    """Finetunes on recordings, one job at a time. It is thread-safe."""

    def __init__(
        self, recordings: Recordings, models_folder: str | Path, base: str = MOTION_POOL, *, threads: int = 1
    ) -> None:
        """`threads` of the worker: one by default, as the others are for serving."""
        self.recordings, self.models_folder, self.base, self.threads = recordings, Path(models_folder), base, threads
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._reader: threading.Thread | None = None
        self._state = FinetuneState()
        self._restore()

    def start(self, name: str, *, overwrite: bool = False) -> FinetuneState:
        """Start to finetune on all recordings, for a model `name`; `overwrite` replaces an older one of that name.

        BusyError if a job is running, ExistsError if there is such a model, InputError if the request is impossible.
        """
        name = check_model_name(name, pretrained_models())
        clips = self.recordings.clips()
        if len(clips) < 2:
            raise InputError(f"there are clips of {len(clips)} labels; record some of at least two")
        FinetuneJob.of(clips)  # checks them
        path = (self.models_folder / name).absolute()
        check_place(path, overwrite)
        folder = str(self.recordings.folder.absolute())
        request = {"recordings": folder, "path": str(path), "base": self.base, "threads": self.threads}
        with self._lock:
            if self._state.state == "running":
                raise BusyError("a model is being finetuned: wait for it, or cancel it")
            self.models_folder.mkdir(parents=True, exist_ok=True)
            self._process = self._spawn(request)
            self._state = FinetuneState("running", message="starting")
            self._reader = threading.Thread(target=self._follow, args=(self._process, name), daemon=True)
            self._reader.start()
            return self._state

    def models(self) -> list[str]:
        """Names of the models that are there."""
        there = (config.parent.name for config in self.models_folder.glob(f"*/{CONFIG}"))
        return sorted(name for name in there if MODEL_NAME.fullmatch(name))

    def state(self) -> FinetuneState:
        with self._lock:
            return self._state

    def cancel(self) -> FinetuneState:
        """Stop the job, if there is one, and return the state. The model that it would have replaced stays."""
        with self._lock:
            process, reader = self._process, self._reader
            if self._state.state != "running" or process is None or reader is None:
                return self._state
            self._state = FinetuneState("cancelled", message="cancelled")
            process.terminate()
        reader.join(GRACE)
        if reader.is_alive():
            process.kill()
            reader.join(GRACE)
        return self.state()

    def _spawn(self, request: dict[str, Any]) -> subprocess.Popen[str]:
        paths = [str(Path(horst.__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), THREADS: str(self.threads)}
        code = f"from horst.threads import prepare_threads; prepare_threads(); from {__name__} import work; work()"
        command, pipe = [sys.executable, "-P", "-c", code], subprocess.PIPE
        process = subprocess.Popen(command, stdin=pipe, stdout=pipe, encoding="utf-8", env=env)
        assert process.stdin is not None
        with suppress(OSError):  # it has ended already: `_follow` reports it
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
        return process

    def _follow(self, process: subprocess.Popen[str], name: str) -> None:
        """Read the worker's output until it ends."""
        changes: dict[str, Any] = {}
        with suppress(OSError), process:  # its input cannot be closed if it ended before it read the request
            for line in process.stdout or ():
                with suppress(ValueError, TypeError):  # a library printed something, or a kill cut the line off
                    changes = {**json.loads(line)}
                    changes["labels"] = [LabelResult(**label) for label in changes.get("labels", ())]
                if "state" not in changes:
                    self._update(process, changes)
        shutil.rmtree(self.models_folder / f".{name}.new", ignore_errors=True)  # it was killed while it saved
        self._restore()
        if "state" not in changes:
            code = process.returncode
            killed = f"the worker process ended ({code}): it was killed, or the machine ran out of memory"
            changes = {"state": "failed", "message": killed}
        self._update(process, changes)

    def _update(self, process: subprocess.Popen[str], changes: dict[str, Any]) -> None:
        late = changes.get("state") == "done"  # after a cancel that came too late the model is there
        with self._lock:
            if self._process is process and (late or self._state.state == "running"):
                self._state = replace(self._state, **changes)

    def _restore(self) -> None:
        """Restore a model that a killed process had moved aside."""
        for old in self.models_folder.glob(".*.old"):
            path = old.with_name(old.name[1:-4])
            if not path.exists() and MODEL_NAME.fullmatch(path.name):
                os.replace(old, path)


def work() -> None:
    """The worker process."""
    request, last = json.loads(sys.stdin.readline()), 0.0

    def end_with_parent() -> None:
        sys.stdin.read()
        os._exit(1)

    def report(progress: FinetuneProgress) -> None:
        nonlocal last
        if time.monotonic() - last >= INTERVAL:
            last = time.monotonic()
            write(progress=progress.fraction, message=progress.message)

    def write(**changes: Any) -> None:
        print(json.dumps(changes), flush=True)

    threading.Thread(target=end_with_parent, daemon=True).start()
    if hasattr(os, "nice"):
        os.nice(NICE)
    torch.set_num_threads(request.pop("threads"))
    try:
        clips = Recordings(request.pop("recordings")).clips()
        result = finetune(clips, **request, overwrite=True, report=report)
        held = result.held_out
        known = {"accuracy": held.accuracy, "labels": [asdict(label) for label in held.labels]} if held else {}
        write(state="done", progress=1.0, message="done", model=result.path.name, advice=result.advice, **known)
    except HorstError as error:
        write(state="failed", message=str(error))
    except Exception as error:
        write(state="failed", message=f"{type(error).__name__}: {error}")
        raise


def check_model_name(name: str, taken: list[str]) -> str:
    """InputError unless it is a valid folder name on every system, and not one of `taken`."""
    if not isinstance(name, str) or not MODEL_NAME.fullmatch(name):
        allowed = "1 to 48 letters, digits, - and _, and neither - nor _ at its ends"
        raise InputError(f"the model's name is {name!r}; it takes {allowed}")
    if name.lower() in WINDOWS_DEVICES or name.lower() in taken:
        raise InputError(f"the name {name!r} is taken: choose another one for the model")
    return name
