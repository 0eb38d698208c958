"""Lengths that buckets take, and slow videos that are whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import videos

from horst.data.batches import BadClips
from horst.data.buckets import _check
from horst.data.clips import ClipConfig, read_clip
from horst.data.example import Example
from horst.errors import ConfigError, InputError


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
