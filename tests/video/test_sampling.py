"""Sampling of frames: properties, and RULSTM's own samples on EPIC-Kitchens."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load_file

from horst.errors import InputError
from horst.video.sampling import (
    SLACK,
    UNOBSERVED,
    anticipation_frames,
    frames_at,
    observed_frames,
    resample,
    start_frame,
    ticks,
)

RATES = st.sampled_from([1, 4, 5, 10, 12, 15, 23.976, 24, 25, 29.97, 30, 50, 59.94, 60])


@given(frames=st.integers(1, 10_000), percent=st.integers(1, 100))
def test_observed_frames_round_up_exactly(frames: int, percent: int) -> None:
    assert observed_frames(frames, percent / 100) == max(1, -(-frames * percent // 100))


@given(frames=st.integers(1, 500), a=st.floats(0.001, 1), b=st.floats(0.001, 1))
def test_observed_frames_increase_with_the_fraction(frames: int, a: float, b: float) -> None:
    low, high = sorted((a, b))
    assert 1 <= observed_frames(frames, low) <= observed_frames(frames, high) <= frames


@pytest.mark.parametrize(("frames", "fraction"), [(0, 0.5), (10, 0.0), (10, -1), (10, 1.01), (10, float("nan"))])
def test_bad_fractions(frames: int, fraction: float) -> None:
    with pytest.raises(InputError):
        observed_frames(frames, fraction)


@given(start=st.floats(0, 100), seconds=st.floats(0, 50), fps=RATES)
def test_ticks_are_a_grid_within_the_clip(start: float, seconds: float, fps: float) -> None:
    times = ticks(start, start + seconds, fps)
    assert times[0] == start
    np.testing.assert_allclose(np.diff(times), 1 / fps, atol=1e-9)
    assert len(times) == 1 or times[-1] < start + seconds
    assert times[-1] + 1 / fps > start + seconds - 2 * SLACK


@given(gaps=st.lists(st.floats(0.01, 2), min_size=1, max_size=30), wanted=st.lists(st.floats(-1, 70), max_size=30))
def test_the_frame_at_a_time_is_the_last_that_started(gaps: list[float], wanted: list[float]) -> None:
    times = np.cumsum(gaps)
    for time, index in zip(wanted, frames_at(times, wanted), strict=True):
        if time + SLACK < times[0]:
            assert index == 0
        else:
            assert times[index] <= time + SLACK
            assert index + 1 == len(times) or times[index + 1] > time + SLACK


@given(frames=st.integers(1, 100), fps=RATES, rounded=st.booleans())
def test_resampling_to_the_same_rate_changes_nothing(frames: int, fps: float, rounded: bool) -> None:
    """Also if the container rounds times to milliseconds, as webm does."""
    times = np.arange(frames) / fps
    if rounded:
        times = np.round(times, 3)
    assert resample(times, fps).tolist() == list(range(frames))


@given(frames=st.integers(1, 60), factor=st.integers(1, 4))
def test_resampling_to_multiples_repeats_and_drops(frames: int, factor: int) -> None:
    times = np.arange(frames) / 12
    repeated = np.repeat(np.arange(frames), factor)[: (frames - 1) * factor + 1]  # the clip ends with its last frame
    assert resample(times, 12 * factor).tolist() == repeated.tolist()
    fine = np.arange(frames * factor) / (12 * factor)
    assert resample(fine, 12).tolist() == list(range(0, frames * factor, factor))


def test_edges() -> None:
    times = [1.0, 2.0, 3.0]
    wanted = [0.0, 1.0, 3.9, 4.0]
    assert frames_at(times, wanted).tolist() == [0, 0, 2, 2]
    for empty in (lambda: frames_at([], [1.0]), lambda: resample([], 12)):
        with pytest.raises(InputError, match="no frames"):
            empty()
    with pytest.raises(InputError, match="must not decrease"):
        frames_at([1.0, 0.5], [1.0])
    with pytest.raises(InputError, match="fps is 0"):
        resample(times, 0)
    with pytest.raises(InputError, match="no length"):
        ticks(1.0, float("inf"), 10)


def test_anticipation_frames_equal_rulstm(data: Path) -> None:
    recorded = load_file(data / "rulstm_sampling_ek55.safetensors")
    discarded = 0
    for start, frames, kept in zip(recorded["start_frame"], recorded["frames"], recorded["kept"], strict=True):
        if kept:
            found = anticipation_frames(int(start))
            assert found.tolist() == frames.tolist()
            assert found.dtype == np.int64
        else:
            discarded += 1
            with pytest.raises(InputError, match=f"starts at frame {start}"):
                anticipation_frames(int(start))
    assert discarded


@given(start=st.integers(9, 200_000), steps=st.integers(1, 20), stride=st.sampled_from([0.25, 0.5, 1.0]))
def test_strict_anticipation_never_shows_later_frames(start: int, steps: int, stride: float) -> None:
    try:
        strict = anticipation_frames(start, steps=steps, stride=stride, mode="strict")
    except InputError:
        assert start / 30 - stride < 1 / 30 + 1e-6
        return
    loose = anticipation_frames(start, steps=steps, stride=stride)
    position = start / 30 - np.arange(steps, 0, -1) * stride
    observed = strict != UNOBSERVED
    shown = (strict - 1) / 30  # frame n is numbered from 1 and shows (n - 1) / 30 s
    assert (shown[observed] <= position[observed] + 1e-9).all()
    assert (np.diff(loose) >= 0).all()
    assert (loose >= 1).all()
    assert (loose[observed] == strict[observed]).all()
    assert (loose[~observed] == strict[observed].min()).all()


def test_start_frame() -> None:
    """Numbered from 1: the last one that started by then, within a millionth of a frame."""
    assert [start_frame(second) for second in (0.0, 0.03, 1 / 30, 2.3, 2.33, 3600.0)] == [1, 1, 2, 70, 70, 108_001]
    assert [start_frame(1.0, fps) for fps in (10, 29.97, 60)] == [11, 30, 61]
    assert [start_frame((5 - part) / 30) for part in (4e-7, 6e-7, 4e-6)] == [6, 5, 5]


def test_bad_anticipation() -> None:
    with pytest.raises(InputError, match="mode is 'loose'"):
        anticipation_frames(100, mode="loose")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="steps is 0"):
        anticipation_frames(100, steps=0)
