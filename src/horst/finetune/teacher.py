"""Teaching beside a server: in a process of its own, which can be watched and cancelled, and whose end harms nobody.

The process holds one end of a pipe and ends with whoever holds the other, also when that is killed.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from horst.config import check_type
from horst.errors import BusyError, HorstError, InputError
from horst.finetune.names import MODEL_NAME, check_model_name, taught_models
from horst.finetune.recordings import Recordings
from horst.finetune.scratch import ENOUGH
from horst.finetune.teach import How
from horst.models.checkpoint import CONFIG
from horst.models.hub import pretrained_models

PATIENCE = 5.0
"""Seconds that a cancelled process has to end by itself."""
ASIDE = ".teaching-"
"""Begins the name of the folder that a model has while it is being removed."""
STALE = 600.0
"""Seconds after which such a folder belongs to nobody: removing takes seconds."""


class Teacher:
    """One lesson at a time. Any number of threads may use it."""

    def __init__(
        self, recordings: Recordings, models_folder: str | Path, base: str = "somethings", *, threads: int = 1
    ) -> None:
        """`threads` of the process that teaches: one, as the others are the server's."""
        self.recordings, self.models_folder, self.base, self.threads = recordings, Path(models_folder), base, threads
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._reader: threading.Thread | None = None
        self._state = _state("idle")
        self._tidy(stale=True)

    def start(self, name: str, how: How = "frozen", minutes: float = 1.0) -> dict[str, Any]:
        """Begin to teach a model of all recordings, saved under `name` when it is done; one of that name is replaced.

        Where one is being taught: BusyError. Where there is nothing to tell apart: InputError.
        """
        name = check_model_name(name, pretrained_models())
        try:
            check_type("how", how, How)
        except HorstError as error:
            raise InputError(str(error)) from error
        if isinstance(minutes, bool) or not isinstance(minutes, int | float) or not 0 < minutes <= 60:
            raise InputError(f"minutes is {minutes!r}; it takes a number above 0 and up to 60")
        labels = self.recordings.labels()
        if len(labels) < 2:
            raise InputError(f"there are clips of {len(labels)} labels; record some of at least two")
        if (self.models_folder / name).exists() and not (self.models_folder / name / CONFIG).is_file():
            raise InputError(f"{name!r} is the name of something else: choose another one for the model")
        few = how == "scratch" and min(map(len, labels.values())) < ENOUGH
        request = {
            "recordings": str(self.recordings.folder.absolute()),
            "path": str((self.models_folder / name).absolute()),
            "base": self.base,
            "how": how,
            "minutes": minutes,
            "threads": self.threads,
            "overwrite": True,
        }
        with self._lock:
            if self._state["state"] == "running":
                raise BusyError("a model is being taught: wait for it, or cancel it")
            self.models_folder.mkdir(parents=True, exist_ok=True)
            self._process, errors = self._spawn(request)
            self._state = _state("running", message="starting")
            self._reader = threading.Thread(target=self._follow, args=(self._process, errors, name, few), daemon=True)
            self._reader.start()
            return dict(self._state)

    def state(self) -> dict[str, Any]:
        """Plain data: state (idle, running, done, failed, cancelled), progress (0 to 1), epoch, epochs, loss, accuracy
        (on held-out clips, None where it is not known), model (its name, when it is there), message.
        """
        with self._lock:
            return dict(self._state)

    def cancel(self) -> dict[str, Any]:
        """End the lesson, if there is one. The model that it would have replaced stays."""
        with self._lock:
            process, reader = self._process, self._reader
            if self._state["state"] != "running" or process is None or reader is None:
                return dict(self._state)
            self._state = _state("cancelled", message="cancelled")
            process.terminate()
        reader.join(PATIENCE)
        if reader.is_alive():
            process.kill()
            reader.join(PATIENCE)
        return self.state()

    def close(self) -> None:
        """Leave nothing running."""
        self.cancel()

    def models(self) -> list[str]:
        """The names of the models that were taught."""
        return taught_models(self.models_folder)

    def remove(self, name: str) -> None:
        """Delete a taught model."""
        if name not in self.models():
            raise InputError(f"there is no taught model {name!r}")
        aside = self.models_folder / f"{ASIDE}{os.getpid()}"  # a rename: it is there or it is gone
        os.replace(self.models_folder / name, aside)
        shutil.rmtree(aside, ignore_errors=True)

    def _spawn(self, request: dict[str, Any]) -> tuple[subprocess.Popen[str], IO[bytes]]:
        import horst

        home = str(Path(horst.__file__).parents[1])
        paths = [home, *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": str(self.threads)}
        errors = tempfile.TemporaryFile()  # noqa: SIM115 (the reader closes it)
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "horst.finetune.child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            encoding="utf-8",
            env=environment,
        )
        assert process.stdin is not None
        with suppress(OSError):  # where it has ended already, the reader tells why
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
        return process, errors

    def _follow(self, process: subprocess.Popen[str], errors: IO[bytes], name: str, few: bool) -> None:
        """Listens to the process until it ends."""
        assert process.stdin is not None
        assert process.stdout is not None
        told: dict[str, Any] = {}
        for line in process.stdout:
            try:
                told = json.loads(line)
            except ValueError:  # a library printed something, or the line was cut off by a kill
                continue
            if "part" in told:
                self._tell(
                    process, progress=told["part"], **{k: told[k] for k in ("epoch", "epochs", "loss", "message")}
                )
        code = process.wait()
        process.stdin.close()
        process.stdout.close()
        with errors:
            errors.seek(0)
            last = errors.read().decode(errors="replace").strip().splitlines()[-1:]
        shutil.rmtree(self.models_folder / f".{name}.new", ignore_errors=True)  # it was killed while it saved
        self._tidy()
        if "done" in told:
            accuracy = told["done"]["accuracy"]
            message = "it is not known how well it does: record 3 clips of each label" if accuracy is None else "done"
            if few:
                message = f"done, but a network from nothing needs more clips: record {ENOUGH} or more of each label"
            # also after a cancel that came too late: the model is there
            self._tell(process, late=True, state="done", progress=1.0, accuracy=accuracy, model=name, message=message)
        elif "failed" in told:
            self._tell(process, state="failed", message=told["failed"])
        else:
            why = last[0] if last else "it was killed, or the machine ran out of memory"
            self._tell(process, state="failed", message=f"the process that teaches ended ({code}): {why}")

    def _tell(self, process: subprocess.Popen[str], *, late: bool = False, **news: Any) -> None:
        with self._lock:
            if self._process is process and (late or self._state["state"] == "running"):
                self._state = {**self._state, **news}

    def _tidy(self, *, stale: bool = False) -> None:
        """Put away what a kill left: a model that had stepped aside for another comes back."""
        if not self.models_folder.is_dir():
            return
        for old in self.models_folder.glob(".*.old"):
            path = old.with_name(old.name[1:-4])
            if not path.exists() and MODEL_NAME.fullmatch(path.name):
                os.replace(old, path)
        if stale:
            for stage in self.models_folder.glob(f"{ASIDE}*"):
                if time.time() - stage.stat().st_mtime > STALE:
                    shutil.rmtree(stage, ignore_errors=True)


def _state(state: str, message: str = "") -> dict[str, Any]:
    return {
        "state": state,
        "progress": 0.0,
        "epoch": 0,
        "epochs": 0,
        "loss": None,
        "accuracy": None,
        "model": None,
        "message": message,
    }
