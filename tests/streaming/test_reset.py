"""Reset policies by worked examples: which states are reset at which frame, and which state answers."""

from __future__ import annotations

import numpy as np
import pytest

from horst.errors import InputError
from horst.streaming import MotionReset, NeverReset, PeriodicReset
from horst.streaming.reset import ResetPolicy, reset_policy
from horst.video.frame import Image

SIZE = (16, 24)


def grey(level: int) -> Image:
    return np.full((*SIZE, 3), level, np.uint8)


def coloured(*rgb: int) -> Image:
    return np.broadcast_to(np.array(rgb, np.uint8), (*SIZE, 3))


def resets(policy: ResetPolicy, frames: list[tuple[float, Image]], first: tuple[int, ...] = (0,)) -> list[list[int]]:
    return [policy.resets(image, time, first=i in first) for i, (time, image) in enumerate(frames)]


def test_never_reset_only_at_the_start_of_the_stream() -> None:
    policy = NeverReset()
    assert policy.states == 1
    assert resets(policy, [(i / 2, grey(100 * i)) for i in range(3)], first=(0, 2)) == [[0], [], [0]]
    assert policy.choose(np.array([[0.2, 0.8]], np.float32)) == 0


def test_periodic_reset_staggers_its_states() -> None:
    """Three states, 3 s each. All are reset at the start, then one per second, the last one first."""
    policy = PeriodicReset(3.0, 3)
    assert policy.states == 3
    times = [(10 + i / 2, grey(0)) for i in range(13)]
    found = resets(policy, times)
    assert found == [[0, 1, 2], [], [2], [], [1], [], [0], [], [2], [], [1], [], [0]]
    assert resets(PeriodicReset(3.0, 3), [(0.0, grey(0)), (50.0, grey(0))]) == [[0, 1, 2], [0, 1, 2]]


@pytest.mark.parametrize(("time", "due"), [(1.0, [0]), (1 - 5e-7, [0]), (1 - 2e-6, [])])
def test_period_allows_for_rounded_times(time: float, due: list[int]) -> None:
    assert resets(PeriodicReset(1.0, 1), [(0.0, grey(0)), (time, grey(0))]) == [[0], due]


def test_most_confident_state_answers() -> None:
    chances = np.array([[0.5, 0.4, 0.1], [0.1, 0.2, 0.7], [0.6, 0.2, 0.2]], np.float32)
    assert [PeriodicReset().choose(chances[rows]) for rows in ([0, 1, 2], [0, 2, 1], [1, 0, 2], [0, 2])] == [1, 2, 0, 1]
    assert MotionReset().choose(chances) == 0


@pytest.mark.parametrize(("change", "moves"), [(1, False), (2, True), (3, True), (-1, False), (-2, True)])
def test_motion_is_a_mean_change_of_at_least_level(change: int, moves: bool) -> None:
    frames = [(0.0, grey(100)), (1.0, grey(100)), (2.0, grey(100 + change))]
    assert resets(MotionReset(level=2.0), frames) == [[0], [], [0] if moves else []]


def test_motion_compares_brightness_by_position() -> None:
    """A bright half that changes sides is motion. A change of hue at the same brightness is not."""
    rows, columns = grey(0), grey(0)
    rows[:8], columns[:, :12] = 200, 200
    for image in (rows, columns):
        assert resets(MotionReset(), [(0.0, image), (1.0, 200 - image)])[1] == [0]
    assert resets(MotionReset(), [(0.0, coloured(90, 0, 0)), (1.0, coloured(0, 90, 0))])[1] == []
    assert resets(MotionReset(), [(0.0, coloured(90, 0, 0)), (1.0, coloured(0, 0, 99))])[1] == [0]


def test_motion_compares_every_fourth_pixel() -> None:
    seen, unseen = grey(100), grey(106)
    seen[::4, ::4], unseen[::4, ::4] = 102, 100
    assert resets(MotionReset(level=2.0), [(0.0, grey(100)), (1.0, seen)])[1] == [0]
    assert resets(MotionReset(level=2.0), [(0.0, grey(100)), (1.0, unseen)])[1] == []


@pytest.mark.parametrize(("still", "again"), [(0.25, True), (0.5, True), (0.75, False)])
def test_motion_resets_only_after_a_pause(still: float, again: bool) -> None:
    """Motion until 0.5 s, a pause from 0.75 s on, and motion again at 1.25 s: a pause of 0.5 s."""
    levels = [0, 100, 0, 0, 0, 100, 0]
    frames = [(i / 4, grey(level)) for i, level in enumerate(levels)]
    early = [0] if still <= 0.25 else []  # the first frame counts as still
    assert resets(MotionReset(still=still), frames) == [[0], early, [], [], [], [0] if again else [], []]


def test_new_size_or_new_stream_resets() -> None:
    frames = [(0.0, grey(0)), (0.1, grey(0)[:8]), (0.2, grey(0)[:8]), (0.3, grey(0)[:8]), (0.4, grey(9)[:8])]
    assert resets(MotionReset(still=0.2), frames, first=(0, 2)) == [[0], [0], [0], [], [0]]
    assert resets(MotionReset(still=0.3), frames, first=(0, 2)) == [[0], [0], [0], [], []]


def test_policies_by_name() -> None:
    assert reset_policy("never", ["action"]) == NeverReset()
    assert reset_policy("motion", ["action"]) == MotionReset()
    assert reset_policy("every", ["verb"], seconds=2.0, states=4) == PeriodicReset(2.0, 4)
    assert reset_policy("auto", ["action"], seconds=2.0, states=4) == PeriodicReset(2.0, 4)
    assert (
        reset_policy("auto", ["action"])
        == reset_policy("every", ["action"])
        == PeriodicReset(3.0, 3)
        == PeriodicReset()
    )
    assert reset_policy("auto", ["action"], live=False) == NeverReset()
    assert reset_policy("auto", ["action", "verb", "noun"]) == NeverReset()
    assert (MotionReset().level, MotionReset().still) == (2.0, 0.3)
    with pytest.raises(InputError, match="reset is 'often'; choose from 'auto', 'never', 'every', 'motion'"):
        reset_policy("often", ["action"])
