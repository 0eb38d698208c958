"""Recordings survive a restart, take any label, and stay within their limits."""

from __future__ import annotations

import threading
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from horst.errors import BusyError, DataError, InputError
from horst.finetune import RecordingLimits, Recordings
from horst.finetune.finetuner import check_model_name
from horst.finetune.recordings import LONGEST_LABEL, check_label, label_folder
from horst.video.frame import Image
from horst.video.images import decode_picture


def frames(count: int = 6, fps: float = 6.0, size: tuple[int, int] = (24, 32)) -> list[tuple[float, Image]]:
    return [(5 + i / fps, np.full((*size, 3), 10 * i % 256, np.uint8)) for i in range(count)]


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def test_a_clip_comes_back_after_a_restart(tmp_path: Path) -> None:
    kept = Recordings(tmp_path).add("wave", frames())
    again = Recordings(tmp_path)
    assert again.labels() == {"wave": [kept]}
    clip = again.clips()["wave"][0]()
    assert clip.frames.shape == (6, 24, 32, 3)
    np.testing.assert_allclose(clip.times, np.arange(6) / 6)
    np.testing.assert_allclose(clip.frames.mean((1, 2, 3)), 10 * np.arange(6), atol=2)
    assert (kept.label, kept.frames, kept.seconds) == ("wave", 6, 0.833)


def test_large_and_fast_clips_are_reduced(tmp_path: Path) -> None:
    recordings = Recordings(tmp_path)
    kept = recordings.add("a", frames(60, 60, (300, 800)))
    clip = recordings.clips()["a"][0]()
    assert clip.frames.shape[1:] == (144, 384, 3)
    times, pictures = recordings.pictures("a", kept.id)
    assert times == clip.times.tolist()
    np.testing.assert_array_equal(decode_picture(pictures[3], "it"), clip.frames[3])
    with pytest.raises(InputError, match="no recording 'b'"):
        recordings.pictures("a", "b")
    assert np.diff(clip.times).min() >= 1 / 15 - 0.002
    assert kept.frames == 15


@pytest.mark.parametrize(
    "label", ["../x", "CON", "a/b\\c", "..", ".", "🙂 wave", "~root", "C:\\x", "ä" * LONGEST_LABEL]
)
def test_labels_never_leave_the_folder(tmp_path: Path, label: str) -> None:
    inside = tmp_path / "in"
    recordings = Recordings(inside)
    recordings.add(label, frames())
    assert list(Recordings(inside).labels()) == [label]
    assert files(tmp_path) == files(inside)
    assert recordings.remove(label) == 1
    assert not files(tmp_path)
    assert not list(inside.iterdir())


@pytest.mark.parametrize("label", ["", "   ", "a\nb", "a\0b", "x" * 300, "\ud800", "\u200b", 3, None])
def test_invalid_labels_are_rejected(tmp_path: Path, label: str) -> None:
    with pytest.raises(InputError, match="label"):
        Recordings(tmp_path).add(label, frames())
    assert not files(tmp_path)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(max_size=100))
def test_any_text_is_stored_or_rejected(tmp_path: Path, label: str) -> None:
    try:
        kept = check_label(label)
    except InputError:
        return
    assert check_label(kept) == kept
    assert label_folder(kept).isalnum()
    recordings = Recordings(tmp_path)
    recordings.add(label, frames(2, 2))
    assert kept in Recordings(tmp_path).labels()
    recordings.remove(kept)
    assert not files(tmp_path)


@pytest.mark.parametrize(
    "name", ["", "../x", "CON", "a/b", ".x", "x.", "x" * 49, "ä", "somethings", "a b", "-a", "a\n", 3]
)
def test_invalid_model_names_are_rejected(name: str) -> None:
    with pytest.raises(InputError, match="name"):
        check_model_name(name, ["somethings"])


@pytest.mark.parametrize("name", ["a", "my-model_2", "x" * 48])
def test_valid_model_names(name: str) -> None:
    assert check_model_name(name, ["somethings"]) == name


@pytest.mark.parametrize(
    ("clip", "why"),
    [
        ([], "0 frames"),
        (frames(1), "1 frames"),
        (frames(2, 30), "1 frames"),
        (frames(3, 12), "0.17 s"),
        (frames()[::-1], "increase"),
        ([(float("nan"), frames()[0][1])], "increase"),
        ([*frames(), (9.0, np.zeros((9, 9, 3), np.uint8))], "one size"),
        ([(0.0, np.zeros((4, 4), np.uint8))], "RGB"),
        ([(0.0, np.zeros((0, 4, 3), np.uint8))], "empty"),
        ([(0.0, "picture")], "RGB"),
        (frames(70, 6), "longer"),
    ],
)
def test_invalid_clips_are_rejected(tmp_path: Path, clip: list[tuple[float, Image]], why: str) -> None:
    with pytest.raises(InputError, match=why):
        Recordings(tmp_path).add("a", clip)
    assert not files(tmp_path)


def test_limits(tmp_path: Path) -> None:
    recordings = Recordings(tmp_path, RecordingLimits(labels=2, clips=2))
    first = recordings.add("a", frames())
    recordings.add("a", frames())
    recordings.add("b", frames())
    for label in ("a", "c"):
        with pytest.raises(BusyError, match="remove"):
            recordings.add(label, frames())
    recordings.remove("a", first.id)
    recordings.add("a", frames())
    full = Recordings(tmp_path, RecordingLimits(bytes=sum(file.stat().st_size for file in files(tmp_path)) + 100))
    with pytest.raises(BusyError, match="fill"):
        full.add("b", frames())
    assert len(files(tmp_path)) == 3


def test_threads_do_not_exceed_limits(tmp_path: Path) -> None:
    recordings = Recordings(tmp_path, RecordingLimits(clips=3))

    def add() -> None:
        with suppress(BusyError):
            recordings.add("a", frames())

    threads = [threading.Thread(target=add) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(recordings.labels()["a"]) == len(files(tmp_path)) == 3


def test_unknown_recordings_cannot_be_removed(tmp_path: Path) -> None:
    recordings = Recordings(tmp_path)
    recordings.add("a", frames())
    for label, ident in (("b", None), ("a", "../../x"), ("a", "0" * 20)):
        with pytest.raises(InputError, match="there is no recording"):
            recordings.remove(label, ident)
    assert len(files(tmp_path)) == 1


def test_damaged_files_are_listed(tmp_path: Path) -> None:
    recordings = Recordings(tmp_path)
    good, bad, moved = (recordings.add(label, frames()) for label in ("a", "a", "b"))
    path = {file.stem: file for file in files(tmp_path)}
    path[bad.id].write_bytes(path[bad.id].read_bytes()[:50])
    (tmp_path / "elsewhere").mkdir()
    path[moved.id].rename(tmp_path / "elsewhere" / path[moved.id].name)
    again = Recordings(tmp_path)
    assert again.labels() == {"a": [good]}
    assert len(again.damaged) == 2
    with pytest.raises(DataError, match="remove"):
        recordings.clips()["a"][1]()
