"""Teaching in a process of its own: it can be watched, cancelled and killed, and a model is whole or not there."""

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

import numpy as np
import pytest

import horst
from horst.errors import BusyError, InputError
from horst.finetune import Recordings, Teacher
from horst.finetune.child import NICE

KEYS = {"state", "progress", "epoch", "epochs", "loss", "accuracy", "model", "message"}


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
def teacher(recordings: Recordings, tmp_path: Path) -> Iterator[Teacher]:
    made = Teacher(recordings, tmp_path / "models")
    yield made
    made.close()


def wait(until: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not until():
        assert time.monotonic() < end
        time.sleep(0.02)


def left(teacher: Teacher) -> list[str]:
    return sorted(entry.name for entry in teacher.models_folder.iterdir())


def test_a_lesson_from_start_to_use(teacher: Teacher) -> None:
    assert teacher.state() == teacher.cancel()
    assert teacher.state()["state"] == "idle"
    assert teacher.start("mine", "frozen", 0.05)["state"] == "running"
    with pytest.raises(BusyError, match="being taught"):
        teacher.start("other")
    assert teacher._process is not None
    parts, priorities, child = [], set(), teacher._process.pid

    def over() -> bool:
        state = teacher.state()
        assert set(state) == KEYS
        with contextlib.suppress(OSError):  # it has ended
            priorities.add(os.getpriority(os.PRIO_PROCESS, child))
        parts.append(state["progress"])
        return state["state"] != "running"

    wait(over)
    state = teacher.state()
    assert (state["state"], state["model"], state["progress"]) == ("done", "mine", 1.0), state
    assert 0 <= state["accuracy"] <= 1
    assert parts == sorted(parts)
    assert max(priorities) == min(os.getpriority(os.PRIO_PROCESS, 0) + NICE, 19)  # whoever is served comes first
    assert teacher.threads == 1
    assert teacher.models() == left(teacher) == ["mine"]
    model = horst.open_model(teacher.models_folder / "mine")
    assert model.labels == {"action": ["right 🙂", "../down"]}
    assert teacher.cancel()["state"] == "done"  # what is done stays so

    before = (teacher.models_folder / "mine" / "model.safetensors").stat().st_mtime_ns
    teacher.start("mine", "scratch", 5)
    wait(lambda: teacher.state()["progress"] > 0)
    process = teacher._process
    assert process is not None
    assert teacher.cancel()["state"] == "cancelled"
    assert process.returncode is not None
    assert left(teacher) == ["mine"]
    assert (teacher.models_folder / "mine" / "model.safetensors").stat().st_mtime_ns == before
    teacher.start("mine", "scratch", 0.02)
    wait(lambda: teacher.state()["state"] == "done")
    assert "needs more clips" in teacher.state()["message"]
    teacher.remove("mine")
    assert left(teacher) == []


def test_a_killed_process_is_a_failure_and_another_can_start(teacher: Teacher) -> None:
    teacher.start("mine", "scratch", 5)
    assert teacher._process is not None
    os.kill(teacher._process.pid, signal.SIGKILL)
    wait(lambda: teacher.state()["state"] == "failed")
    assert "ended (-9)" in teacher.state()["message"]
    assert left(teacher) == []
    assert teacher.start("mine")["state"] == "running"
    assert teacher.cancel()["state"] == "cancelled"


def test_what_goes_wrong_is_told(teacher: Teacher, recordings: Recordings) -> None:
    teacher.base = "nowhere"
    teacher.start("mine")
    wait(lambda: teacher.state()["state"] == "failed")
    assert "nowhere" in teacher.state()["message"]
    assert left(teacher) == []


def test_impossible_lessons_are_refused(teacher: Teacher, recordings: Recordings) -> None:
    for name, how, minutes in (
        ("../x", "frozen", 1),
        ("a", "guess", 1),
        ("a", "frozen", 0),
        ("somethings", "frozen", 1),
    ):
        with pytest.raises(InputError):
            teacher.start(name, how, minutes)  # type: ignore[arg-type]
    recordings.remove("../down")
    with pytest.raises(InputError, match="at least two"):
        teacher.start("mine")
    assert teacher.state()["state"] == "idle"


def test_the_process_ends_with_whoever_started_it(recordings: Recordings, tmp_path: Path) -> None:
    script = f"""
        import time
        from horst.finetune import Recordings, Teacher
        teacher = Teacher(Recordings({str(recordings.folder)!r}), {str(tmp_path / "models")!r}, threads=1)
        teacher.start("mine", "scratch", 5)
        print(teacher._process.pid, flush=True)
        time.sleep(60)
    """
    with subprocess.Popen([sys.executable, "-c", textwrap.dedent(script)], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        child = int(server.stdout.readline())
        server.kill()
    wait(lambda: not Path(f"/proc/{child}").exists() or ") Z" in Path(f"/proc/{child}/stat").read_text())


def test_what_a_kill_left_is_put_right(recordings: Recordings, tmp_path: Path) -> None:
    folder = tmp_path / "models"
    horst.open_model("somethings").save_pretrained(folder / "mine")
    (folder / "mine").rename(folder / ".mine.old")  # killed between two renames
    (folder / ".teaching-1").mkdir()
    os.utime(folder / ".teaching-1", (0, 0))
    (folder / ".teaching-2").mkdir()
    teacher = Teacher(recordings, folder)
    assert teacher.models() == ["mine"]
    assert left(teacher) == [".teaching-2", "mine"]  # somebody may be at work there
