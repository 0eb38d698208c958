"""Policies by worked examples: which states start with which frame, and whose answer counts."""

from __future__ import annotations

import numpy as np
import pytest

from horst.errors import InputError
from horst.streaming import Every, Never, OnMotion
from horst.streaming.restarts import Restarts, restarts_by_name
from horst.video.frame import Image

SIZE = (16, 24)


def grey(level: int) -> Image:
    return np.full((*SIZE, 3), level, np.uint8)


def coloured(*rgb: int) -> Image:
    return np.broadcast_to(np.array(rgb, np.uint8), (*SIZE, 3))


def starts(policy: Restarts, frames: list[tuple[float, Image]], fresh: tuple[int, ...] = (0,)) -> list[list[int]]:
    return [policy.before(image, time, fresh=i in fresh) for i, (time, image) in enumerate(frames)]


def test_never_starts_with_the_stream_alone() -> None:
    policy = Never()
    assert policy.places == 1
    assert starts(policy, [(i / 2, grey(100 * i)) for i in range(3)], fresh=(0, 2)) == [[0], [], [0]]
    assert policy.choose(np.array([[0.2, 0.8]], np.float32)) == 0


def test_every_staggers_its_states() -> None:
    """Three states of 3 s each. All start at once, then one a second, the last place first."""
    policy = Every(3.0, 3)
    assert policy.places == 3
    times = [(10 + i / 2, grey(0)) for i in range(13)]
    found = starts(policy, times)
    assert found == [[0, 1, 2], [], [2], [], [1], [], [0], [], [2], [], [1], [], [0]]
    assert starts(Every(3.0, 3), [(0.0, grey(0)), (50.0, grey(0))]) == [[0, 1, 2], [0, 1, 2]]


@pytest.mark.parametrize(("time", "due"), [(1.0, [0]), (1 - 5e-7, [0]), (1 - 2e-6, [])])
def test_a_state_ends_after_its_seconds(time: float, due: list[int]) -> None:
    """Times are rounded: a little early is in time."""
    assert starts(Every(1.0, 1), [(0.0, grey(0)), (time, grey(0))]) == [[0], due]


def test_the_surest_state_answers() -> None:
    chances = np.array([[0.5, 0.4, 0.1], [0.1, 0.2, 0.7], [0.6, 0.2, 0.2]], np.float32)
    assert [Every().choose(chances[rows]) for rows in ([0, 1, 2], [0, 2, 1], [1, 0, 2], [0, 2])] == [1, 2, 0, 1]
    assert OnMotion().choose(chances) == 0


@pytest.mark.parametrize(("change", "moves"), [(1, False), (2, True), (3, True), (-1, False), (-2, True)])
def test_motion_is_a_mean_change_from_the_level_on(change: int, moves: bool) -> None:
    frames = [(0.0, grey(100)), (1.0, grey(100)), (2.0, grey(100 + change))]
    assert starts(OnMotion(level=2.0), frames) == [[0], [], [0] if moves else []]


def test_what_moves_is_grey_in_a_place() -> None:
    """A bright half that changes sides moves. A colour that changes at the same brightness does not."""
    rows, columns = grey(0), grey(0)
    rows[:8], columns[:, :12] = 200, 200
    for image in (rows, columns):
        assert starts(OnMotion(), [(0.0, image), (1.0, 200 - image)])[1] == [0]
    assert starts(OnMotion(), [(0.0, coloured(90, 0, 0)), (1.0, coloured(0, 90, 0))])[1] == []
    assert starts(OnMotion(), [(0.0, coloured(90, 0, 0)), (1.0, coloured(0, 0, 99))])[1] == [0]


def test_every_fourth_pixel_each_way_is_compared() -> None:
    seen, unseen = grey(100), grey(106)
    seen[::4, ::4], unseen[::4, ::4] = 102, 100
    assert starts(OnMotion(level=2.0), [(0.0, grey(100)), (1.0, seen)])[1] == [0]
    assert starts(OnMotion(level=2.0), [(0.0, grey(100)), (1.0, unseen)])[1] == []


@pytest.mark.parametrize(("still", "again"), [(0.25, True), (0.5, True), (0.75, False)])
def test_motion_counts_after_stillness(still: float, again: bool) -> None:
    """It moves until 0.5 s, rests from 0.75 s on, and moves again at 1.25 s: it rested for 0.5 s."""
    levels = [0, 100, 0, 0, 0, 100, 0]
    frames = [(i / 4, grey(level)) for i, level in enumerate(levels)]
    first = [0] if still <= 0.25 else []  # the first frame counts as still
    assert starts(OnMotion(still=still), frames) == [[0], first, [], [], [], [0] if again else [], []]


def test_another_size_or_a_fresh_stream_starts() -> None:
    frames = [(0.0, grey(0)), (0.1, grey(0)[:8]), (0.2, grey(0)[:8]), (0.3, grey(0)[:8]), (0.4, grey(9)[:8])]
    assert starts(OnMotion(still=0.2), frames, fresh=(0, 2)) == [[0], [0], [0], [], [0]]
    assert starts(OnMotion(still=0.3), frames, fresh=(0, 2)) == [[0], [0], [0], [], []]


def test_policies_by_name() -> None:
    assert restarts_by_name("never", ["action"]) == Never()
    assert restarts_by_name("motion", ["action"]) == OnMotion()
    assert restarts_by_name("every", ["verb"], seconds=2.0, states=4) == Every(2.0, 4)
    assert restarts_by_name("auto", ["action"], seconds=2.0, states=4) == Every(2.0, 4)
    assert restarts_by_name("auto", ["action"]) == restarts_by_name("every", ["action"]) == Every(3.0, 3) == Every()
    assert restarts_by_name("auto", ["action"], endless=False) == Never()
    assert restarts_by_name("auto", ["action", "verb", "noun"]) == Never()
    assert (OnMotion().level, OnMotion().still) == (2.0, 0.3)
    with pytest.raises(InputError, match="restarts is 'often'; choose from 'auto', 'never', 'every', 'motion'"):
        restarts_by_name("often", ["action"])
