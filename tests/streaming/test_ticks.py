"""Ticks of a live stream: those of a file, whatever the camera does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from horst.errors import InputError
from horst.streaming.ticks import Tick, Ticker
from horst.video.sampling import frames_at, ticks


def run(times: list[float], fps: float, end: float | None = None, **options: object) -> list[Tick[int]]:
    ticker: Ticker[int] = Ticker(fps, **options)  # type: ignore[arg-type]
    found = [tick for i, time in enumerate(times) for tick in ticker.push(i, time)]
    return found + (list(ticker.finish(end)) if end is not None else [])


@given(
    st.lists(st.integers(5, 400), min_size=1, max_size=40), st.sampled_from([4.0, 6.0, 12.0, 25.0]), st.integers(0, 9)
)
def test_a_stream_is_asked_what_a_file_is(steps: list[int], fps: float, start: int) -> None:
    """Frames at any distance: the ticks are those of offline sampling, with the same frames."""
    times = (start + np.cumsum([0, *steps[:-1]]) / 1000).tolist()
    end = times[-1] + steps[-1] / 1000
    found = run(times, fps, end)
    wanted = ticks(times[0], end, fps)
    np.testing.assert_allclose([tick.time for tick in found], wanted, atol=1e-9)
    assert [tick.frame for tick in found] == frames_at(times, wanted).tolist()
    assert [tick.number for tick in found] == list(range(len(found)))


def test_a_frame_at_a_tick_is_used_at_once() -> None:
    ticker: Ticker[str] = Ticker(5.0)
    assert [t.frame for t in ticker.push("a", 10.0)] == ["a"]
    assert not list(ticker.push("b", 10.1))
    assert [t.frame for t in ticker.push("c", 10.2004)] == ["c"]
    assert [t.frame for t in ticker.push("d", 10.45)] == ["c"]  # the tick at 10.4 saw c


def test_a_gap_starts_afresh_or_is_held() -> None:
    times = [0.0, 0.5, 1.0, 9.0, 9.5]
    afresh = run(times, 2.0, gap=2.0)
    assert [(t.frame, t.number) for t in afresh] == [(0, 0), (1, 1), (2, 2), (3, 0), (4, 1)]
    assert [t.time for t in afresh][3:] == [9.0, 9.5]
    held = run(times, 2.0, gap=2.0, on_gap="hold")
    assert [(t.frame, t.number) for t in held] == [(0, 0), (1, 1), (2, 2), (3, 3), (4, 4)]
    assert [t.frame for t in run(times, 2.0, gap=8.0)] == [0, 1, *[2] * 16, 3, 4]  # as long as `gap` is not longer
    repeated = run(times, 2.0, gap=10.0)
    assert [t.frame for t in repeated] == [0, 1, *[2] * 16, 3, 4]


def test_a_clock_that_goes_back() -> None:
    times = [100.0, 100.5, 101.0, 100.9, 5.0, 5.5]
    found = run(times, 2.0, gap=1.0)
    assert [(t.frame, t.number) for t in found] == [(0, 0), (1, 1), (2, 2), (4, 0), (5, 1)]
    ticker: Ticker[int] = Ticker(2.0, gap=1.0)
    for i, time in enumerate(times):
        list(ticker.push(i, time))
    assert ticker.dropped == 1
    # Before the first frame there is nothing to be a little late for.
    assert [(t.time, t.frame, t.number) for t in run([5.0, 4.9], 2.0)] == [(5.0, 0, 0), (4.9, 1, 0)]


def test_a_reset_starts_with_the_next_frame() -> None:
    ticker: Ticker[int] = Ticker(2.0)
    list(ticker.push(0, 3.0))
    ticker.reset()
    (tick,) = ticker.push(1, 3.2)
    assert (tick.time, tick.fresh) == (3.2, True)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"fps": 0}, "fps is 0"),
        ({"fps": True}, "fps is True"),
        ({"fps": "5"}, "fps is '5'"),
        ({"fps": 5, "gap": float("nan")}, "gap is nan"),
        ({"fps": 5, "gap": float("inf")}, "gap is inf"),
        ({"fps": 5, "on_gap": "stop"}, "on_gap is 'stop'"),
    ],
)
def test_bad_options_are_told(options: dict, told: str) -> None:
    with pytest.raises(InputError, match=told):
        Ticker(**options)


@pytest.mark.parametrize("time", [float("nan"), float("inf"), float("-inf"), True, "1", None])
def test_bad_times_are_told(time: Any) -> None:
    """They leave the stream as it was."""
    ticker: Ticker[int] = Ticker(5.0)
    list(ticker.push(0, 1.0))
    with pytest.raises(InputError, match=f"the frame's time is {time!r}; it takes a finite number"):
        list(ticker.push(1, time))
    with pytest.raises(InputError, match=f"end is {time!r}; it takes a finite number"):
        list(ticker.finish(time))
    assert [(tick.time, tick.number, tick.frame) for tick in ticker.push(2, 1.2)] == [(1.2, 1, 2)]
