"""Finetuning in a worker process: it can be watched, cancelled and killed, and models are saved atomically."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import horst
from horst.errors import BusyError, ExistsError, InputError
from horst.finetune import NOTHING, Finetuner, Recordings
from horst.finetune.finetuner import NICE


@pytest.fixture
def recordings(tmp_path: Path) -> Recordings:
    """A square that moves to the right, or down."""
    kept = Recordings(tmp_path / "recordings")
    for label, (down, right) in {"right 🙂": (0, 1), "../down": (1, 0)}.items():
        for clip in range(3):
            frames = []
            for i in range(6):
                image = np.full((48, 48, 3), 40 * clip, np.uint8)
                y, x = 4 + 6 * i * down, 4 + 6 * i * right
                image[y : y + 8, x : x + 8] = 255
                frames.append((i / 6, image))
            kept.add(label, frames)
    return kept


@pytest.fixture
def finetuner(recordings: Recordings, tmp_path: Path) -> Iterator[Finetuner]:
    made = Finetuner(recordings, tmp_path / "models", "somethings")
    yield made
    made.cancel()


def wait(until: Callable[[], bool], seconds: float = 180) -> None:
    end = time.monotonic() + seconds
    while not until():
        assert time.monotonic() < end
        time.sleep(0.02)


def left(finetuner: Finetuner) -> list[str]:
    return sorted(entry.name for entry in finetuner.models_folder.iterdir())


def test_a_job_from_start_to_use(finetuner: Finetuner) -> None:
    assert finetuner.state() == finetuner.cancel()
    assert finetuner.state().state == "idle"
    assert finetuner.start("mine").state == "running"
    with pytest.raises(BusyError, match="being finetuned"):
        finetuner.start("other")
    assert finetuner._process is not None
    parts, priorities, child = [], set(), finetuner._process.pid

    def over() -> bool:
        state = finetuner.state()
        with contextlib.suppress(OSError):  # it has ended
            priorities.add(os.getpriority(os.PRIO_PROCESS, child))
        parts.append(state.progress)
        return state.state != "running"

    wait(over)
    state = finetuner.state()
    assert (state.state, state.model, state.progress) == ("done", "mine", 1.0), state
    assert 0 <= state.accuracy <= 1
    assert parts == sorted(parts)
    assert max(priorities) == min(os.getpriority(os.PRIO_PROCESS, 0) + NICE, 19)  # serving comes first
    assert finetuner.threads == 1
    assert left(finetuner) == ["mine"]
    model = horst.open_model(finetuner.models_folder / "mine")
    assert model.labels == {"action": ["right 🙂", "../down", NOTHING]}
    assert [(result.label, result.clips) for result in state.labels] == [("right 🙂", 3), ("../down", 3)]
    assert sum(result.correct for result in state.labels) == round(state.accuracy * 6)
    assert 'Record more clips of "../down"' in " ".join(state.advice)
    assert finetuner.cancel().state == "done"  # a finished job stays done

    before = (finetuner.models_folder / "mine" / "model.safetensors").stat().st_mtime_ns
    with pytest.raises(ExistsError, match="mine exists"):
        finetuner.start("mine")
    finetuner.start("mine", overwrite=True)
    wait(lambda: finetuner.state().progress > 0)
    process = finetuner._process
    assert process is not None
    assert finetuner.cancel().state == "cancelled"
    assert process.returncode is not None
    assert left(finetuner) == ["mine"]
    assert (finetuner.models_folder / "mine" / "model.safetensors").stat().st_mtime_ns == before
    finetuner.start("mine", overwrite=True)
    wait(lambda: finetuner.state().state == "done")
    assert (finetuner.models_folder / "mine" / "model.safetensors").stat().st_mtime_ns > before


def test_a_killed_worker_fails_and_another_can_start(finetuner: Finetuner) -> None:
    finetuner.start("mine")
    assert finetuner._process is not None
    os.kill(finetuner._process.pid, signal.SIGKILL)
    wait(lambda: finetuner.state().state == "failed")
    assert "ended (-9)" in finetuner.state().message
    assert left(finetuner) == []
    assert finetuner.start("mine").state == "running"
    assert finetuner.cancel().state == "cancelled"


def test_a_worker_that_does_not_start_fails(finetuner: Finetuner, monkeypatch: pytest.MonkeyPatch) -> None:
    popen = subprocess.Popen

    def ended(command: list[str], **options: Any) -> subprocess.Popen[str]:
        process = popen(["false"], **options)
        process.wait()  # so the request cannot be written
        return process

    monkeypatch.setattr("subprocess.Popen", ended)
    finetuner.start("mine")
    wait(lambda: finetuner.state().state == "failed")
    assert "ended (1)" in finetuner.state().message


def test_errors_are_reported(finetuner: Finetuner, recordings: Recordings) -> None:
    finetuner.base = "nowhere"
    finetuner.start("mine")
    wait(lambda: finetuner.state().state == "failed")
    assert "nowhere" in finetuner.state().message
    assert left(finetuner) == []


def test_invalid_requests_are_rejected(finetuner: Finetuner, recordings: Recordings) -> None:
    for name in ("../x", "somethings"):
        with pytest.raises(InputError):
            finetuner.start(name)
    recordings.remove("../down")
    with pytest.raises(InputError, match="at least two"):
        finetuner.start("mine")
    assert finetuner.state().state == "idle"


def test_the_worker_ends_with_its_parent(recordings: Recordings, tmp_path: Path) -> None:
    script = f"""
        import time
        from horst.finetune import Finetuner, Recordings
        recordings = Recordings({str(recordings.folder)!r})
        finetuner = Finetuner(recordings, {str(tmp_path / "models")!r}, "somethings", threads=1)
        finetuner.start("mine")
        print(finetuner._process.pid, flush=True)
        time.sleep(60)
    """
    with subprocess.Popen([sys.executable, "-c", textwrap.dedent(script)], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        child = int(server.stdout.readline())
        server.kill()
    wait(lambda: not Path(f"/proc/{child}").exists() or ") Z" in Path(f"/proc/{child}/stat").read_text())


def test_models_are_restored_after_a_kill(recordings: Recordings, tmp_path: Path) -> None:
    folder = tmp_path / "models"
    horst.open_model("somethings").save_pretrained(folder / "mine")
    (folder / "mine").rename(folder / ".mine.old")  # killed between two renames
    assert left(Finetuner(recordings, folder)) == ["mine"]
