"""Lengths that buckets take, and slow videos that are whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import videos

from horst.data.batches import BadClips
from horst.data.buckets import _check
from horst.data.clips import ClipConfig, _cut_off, check_end, read_clip, shown_time
from horst.data.config import DataConfig
from horst.data.example import Example
from horst.errors import ConfigError, DamagedVideoError, InputError
from horst.video.sampling import SLACK


@pytest.mark.parametrize("lengths", [5, [], [[1, 2]], [0], [3, -1]])
def test_lengths_that_are_none(lengths: Any) -> None:
    with pytest.raises(InputError, match="a whole number from 1 on for each clip"):
        _check(lengths, 1, 1, 0)


def test_lengths_and_places_that_are_taken() -> None:
    assert _check([1, 7], 1, 3, 2).tolist() == [1, 7]
    assert _check(np.array([1]), 1, 1, 0).dtype == np.int64
    for rank in (-1, 3):
        with pytest.raises(InputError, match=f"rank is {rank}"):
            _check([1, 7], 1, 3, rank)


def test_shares_of_bad_clips_from_none_to_all() -> None:
    assert [BadClips(limit, total=3).limit for limit in (0, 0.5, 1)] == [0, 0.5, 1]
    for limit in (-0.01, 1.01, float("nan")):
        with pytest.raises(ConfigError, match=f"the limit of bad clips is {limit}"):
            BadClips(limit, total=3)


@pytest.mark.parametrize("fps", [2, 5, 12])
def test_a_slow_video_that_is_whole_gives_no_note(tmp_path: Path, fps: int) -> None:
    path = videos.clip(tmp_path / "v.mp4", frames=4 * fps, fps=fps)
    clip = read_clip(
        Example(id="v", media=path, split="val", labels={"action": 0}), "recognition", ClipConfig(fps=12, size=(24, 32))
    )
    assert clip.note == ""
    assert len(clip.frames) == pytest.approx(48, abs=1)


@pytest.mark.parametrize("change", [-1, 0, 1])
def test_only_what_nobody_said_is_the_models(change: int) -> None:
    """A clip that is not the default was said in code, whatever a file left out."""
    clip = ClipConfig(size=(224, 224 + change), fps=12.0 + change)
    left_out = DataConfig(source="csv", clip=clip, unsaid=frozenset({"size", "fps"}))
    found = left_out.clip_for(size=(8, 9), fps=7.0)
    assert found == (clip if change else ClipConfig(size=(8, 9), fps=7.0))
    assert DataConfig(source="csv", clip=clip).clip_for(size=(8, 9), fps=7.0) == clip


def test_where_a_clip_is_cut_off() -> None:
    """At 10 frames a second of a clip of 5 s: 0.15 s are nothing, up to 0.65 s are noted, more is an error."""
    wanted = np.array([0.0, 5.0])
    for missing, note in ((0.14, ""), (0.16, "v: the last frame stands for 0.16 s"), (0.64, "v: the last frame")):
        found = _cut_off(Path("v"), 5.0 - missing, wanted, 0.1, ClipConfig(fps=12.0))
        assert found.startswith(note)
        assert bool(found) == bool(note)
    with pytest.raises(DamagedVideoError, match=r"it ends at 4\.34 s; 5\.00 s are to be seen: it is cut off"):
        _cut_off(Path("v"), 4.34, wanted, 0.1, ClipConfig(fps=12.0))
    assert _cut_off(Path("v"), 3.6, wanted, 0.1, ClipConfig(fps=1.0)) == ""


def test_where_a_video_ends_too_early() -> None:
    for beat, fine in ((0.1, 1.0), (0.6, 1.2)):
        check_end(Path("v"), 2.0, 2.0 + fine - 1e-6, beat)
        with pytest.raises(DamagedVideoError, match=r"v: it ends at 2\.00 s"):
            check_end(Path("v"), 2.0, 2.0 + fine + 1e-3, beat)
    assert shown_time(Path("v"), 1.0, 1.5) == 1.0
    assert shown_time(Path("v"), 1.5 + SLACK / 2, 1.5) == 1.5
    with pytest.raises(DamagedVideoError, match=r"no frame decodes at 1\.50 s; the next one is at 1\.60 s"):
        shown_time(Path("v"), 1.6, 1.5)
