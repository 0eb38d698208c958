"""Lengths that buckets take, and slow videos that are whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import videos

from horst.data.buckets import _check
from horst.data.clips import ClipConfig, read_clip
from horst.data.example import Example
from horst.errors import InputError


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


@pytest.mark.parametrize("fps", [2, 5, 12])
def test_a_slow_video_that_is_whole_gives_no_note(tmp_path: Path, fps: int) -> None:
    path = videos.clip(tmp_path / "v.mp4", frames=4 * fps, fps=fps)
    clip = read_clip(
        Example(id="v", media=path, split="val", labels={"action": 0}), "recognition", ClipConfig(fps=12, size=(24, 32))
    )
    assert clip.note == ""
    assert len(clip.frames) == pytest.approx(48, abs=1)
