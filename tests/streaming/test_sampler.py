"""A live stream is sampled like a file, whatever the camera does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from horst.errors import InputError
from horst.streaming.sampler import FrameSampler, SampledFrame
from horst.video.sampling import frames_at, ticks


def run(times: list[float], fps: float, end: float | None = None, **options: object) -> list[SampledFrame[int]]:
    sampler: FrameSampler[int] = FrameSampler(fps, **options)  # type: ignore[arg-type]
    found = [sample for i, time in enumerate(times) for sample in sampler.push(i, time)]
    return found + (list(sampler.finish(end)) if end is not None else [])


@given(
    st.lists(st.integers(5, 400), min_size=1, max_size=40), st.sampled_from([4.0, 6.0, 12.0, 25.0]), st.integers(0, 9)
)
def test_live_sampling_equals_offline_sampling(steps: list[int], fps: float, start: int) -> None:
    times = (start + np.cumsum([0, *steps[:-1]]) / 1000).tolist()
    end = times[-1] + steps[-1] / 1000
    found = run(times, fps, end)
    wanted = ticks(times[0], end, fps)
    np.testing.assert_allclose([sample.time for sample in found], wanted, atol=1e-9)
    assert [sample.frame for sample in found] == frames_at(times, wanted).tolist()
    assert [sample.number for sample in found] == list(range(len(found)))


def test_frame_at_a_sampling_time_is_used_at_once() -> None:
    sampler: FrameSampler[str] = FrameSampler(5.0)
    assert [t.frame for t in sampler.push("a", 10.0)] == ["a"]
    assert not list(sampler.push("b", 10.1))
    assert [t.frame for t in sampler.push("c", 10.2004)] == ["c"]
    assert [t.frame for t in sampler.push("d", 10.45)] == ["c"]  # the sample at 10.4 is c


def test_gap_resets_or_continues() -> None:
    times = [0.0, 0.5, 1.0, 9.0, 9.5]
    reset = run(times, 2.0, gap=2.0)
    assert [(t.frame, t.number) for t in reset] == [(0, 0), (1, 1), (2, 2), (3, 0), (4, 1)]
    assert [t.time for t in reset][3:] == [9.0, 9.5]
    continued = run(times, 2.0, gap=2.0, on_gap="continue")
    assert [(t.frame, t.number) for t in continued] == [(0, 0), (1, 1), (2, 2), (3, 3), (4, 4)]
    assert [t.frame for t in run(times, 2.0, gap=8.0)] == [0, 1, *[2] * 16, 3, 4]  # as long as `gap` is not longer
    repeated = run(times, 2.0, gap=10.0)
    assert [t.frame for t in repeated] == [0, 1, *[2] * 16, 3, 4]


def test_clock_that_goes_back() -> None:
    times = [100.0, 100.5, 101.0, 100.9, 5.0, 5.5]
    found = run(times, 2.0, gap=1.0)
    assert [(t.frame, t.number) for t in found] == [(0, 0), (1, 1), (2, 2), (4, 0), (5, 1)]
    sampler: FrameSampler[int] = FrameSampler(2.0, gap=1.0)
    for i, time in enumerate(times):
        list(sampler.push(i, time))
    assert sampler.dropped == 1
    # A frame from before the first one resets the stream.
    assert [(t.time, t.frame, t.number) for t in run([5.0, 4.9], 2.0)] == [(5.0, 0, 0), (4.9, 1, 0)]


def test_reset_takes_effect_with_the_next_frame() -> None:
    sampler: FrameSampler[int] = FrameSampler(2.0)
    list(sampler.push(0, 3.0))
    sampler.reset()
    (sample,) = sampler.push(1, 3.2)
    assert (sample.time, sample.number, sample.sequence) == (3.2, 0, 2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fps": 0}, "fps is 0"),
        ({"fps": True}, "fps is True"),
        ({"fps": "5"}, "fps is '5'"),
        ({"fps": 5, "gap": float("nan")}, "gap is nan"),
        ({"fps": 5, "gap": float("inf")}, "gap is inf"),
        ({"fps": 5, "on_gap": "stop"}, "on_gap is 'stop'"),
    ],
)
def test_invalid_options(options: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        FrameSampler(**options)


@pytest.mark.parametrize("time", [float("nan"), float("inf"), float("-inf"), True, "1", None])
def test_invalid_times(time: Any) -> None:
    """They do not change the stream."""
    sampler: FrameSampler[int] = FrameSampler(5.0)
    list(sampler.push(0, 1.0))
    with pytest.raises(InputError, match=f"the frame's time is {time!r}; it takes a finite number"):
        list(sampler.push(1, time))
    with pytest.raises(InputError, match=f"end is {time!r}; it takes a finite number"):
        list(sampler.finish(time))
    assert [(sample.time, sample.number, sample.frame) for sample in sampler.push(2, 1.2)] == [(1.2, 1, 2)]


def test_no_frame_is_repeated_for_hours() -> None:
    """Neither by a clock that jumps nor by the duration that a damaged file announces."""
    with pytest.raises(InputError, match=r"gap is 1e\+09 s; it is at most 3600 s"):
        FrameSampler(12.0, gap=1e9)
    sampler: FrameSampler[int] = FrameSampler(2.0, gap=3600.0)
    assert len(list(sampler.push(0, 0.0))) == len(list(sampler.push(1, 1e8))) == 1
    assert len(list(sampler.push(2, 1e8 + 3600))) == 7200
    assert len(list(sampler.finish(1e12))) == 7200 - 1
