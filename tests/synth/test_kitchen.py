"""The synthetic kitchen: reproducible plans, consistent worlds, partly predictable actions, frames."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from dataclasses import FrozenInstanceError
from itertools import islice, pairwise

import numpy as np
import pytest

from horst.synth import kitchen
from horst.synth.kitchen.recipes import initial_world
from horst.synth.kitchen.render import Layout, Motion
from horst.synth.kitchen.world import CAPACITY, DOORS, HANDS, HOME, ActionStep, ImpossibleStepError, World, apply


@pytest.fixture(scope="module")
def specs() -> list[kitchen.VideoSpec]:
    return kitchen.plan(240, seed=3)


def test_the_same_seed_gives_the_same_plan_and_another_seed_another() -> None:
    assert kitchen.plan(5, seed=1) == kitchen.plan(5, seed=1)
    assert [v.segments for v in kitchen.plan(5, seed=1)] != [v.segments for v in kitchen.plan(5, seed=2)]


@pytest.mark.parametrize("val_fraction", [0.0, 0.25, 0.4, 1.0])
def test_more_videos_only_append(val_fraction: float) -> None:
    few, many = (kitchen.plan(n, seed=5, val_fraction=val_fraction) for n in (7, 19))
    assert many[:7] == few
    assert sum(v.split == "val" for v in many) == int(19 * val_fraction)


@pytest.mark.parametrize(("videos", "val_fraction"), [(-1, 0.25), (3, -0.1), (3, 1.5)])
def test_invalid_plans_are_rejected(videos: int, val_fraction: float) -> None:
    with pytest.raises(ValueError, match=r"kitchen\.plan"):
        kitchen.plan(videos, 0, val_fraction=val_fraction)


def test_ids_are_unique_and_name_their_participant(specs: list[kitchen.VideoSpec]) -> None:
    assert len({v.id for v in specs}) == len(specs)
    assert all(v.id.startswith(v.participant + "_") for v in specs)


def test_unseen_participants_are_in_validation_only_and_the_others_in_both(specs: list[kitchen.VideoSpec]) -> None:
    train, val = ({v.participant for v in specs if v.split == split} for split in ("train", "val"))
    assert train == set(kitchen.SEEN)
    assert val >= set(kitchen.UNSEEN)
    assert val & train
    assert not set(kitchen.SEEN) & set(kitchen.UNSEEN)


def test_a_seen_participant_of_validation_was_trained_on_before() -> None:
    for count in range(1, 24):
        videos = kitchen.plan(count, seed=9)
        train = {v.participant for v in videos if v.split == "train"}
        assert {v.participant for v in videos if v.split == "val"} <= train | set(kitchen.UNSEEN)


def test_segments_are_in_order_do_not_overlap_and_end_within_the_video(specs: list[kitchen.VideoSpec]) -> None:
    for video in specs:
        assert 60 <= video.duration <= 120
        assert video.segments[0].start >= 2.0
        assert video.segments[-1].stop <= video.duration
        assert all(1.0 - 1e-9 <= s.stop - s.start <= 4.0 + 1e-9 for s in video.segments)
        assert all(-1e-9 <= b.start - a.stop <= 2.0 + 1e-9 for a, b in pairwise(video.segments))


def test_specs_are_frozen(specs: list[kitchen.VideoSpec]) -> None:
    with pytest.raises(FrozenInstanceError):
        specs[0].segments[0].start = 0.0  # type: ignore[misc]


def test_classes_are_sorted_numbered_and_nearly_all_of_them_occur(specs: list[kitchen.VideoSpec]) -> None:
    assert 10 <= len(kitchen.VERBS) <= 14
    assert 12 <= len(kitchen.NOUNS) <= 20
    assert 40 <= len(kitchen.ACTIONS) <= 80
    assert [a.id for a in kitchen.ACTIONS] == list(range(len(kitchen.ACTIONS)))
    assert [(a.verb_id, a.noun_id) for a in kitchen.ACTIONS] == sorted((a.verb_id, a.noun_id) for a in kitchen.ACTIONS)
    found = {(s.verb, s.noun) for v in specs for s in v.segments}
    assert found <= {(a.verb, a.noun) for a in kitchen.ACTIONS}
    assert len(found) >= 0.9 * len(kitchen.ACTIONS)
    assert {verb for verb, _ in found} == set(kitchen.VERBS)
    assert {noun for _, noun in found} == set(kitchen.NOUNS)


def test_a_few_actions_are_frequent_and_many_are_rare(specs: list[kitchen.VideoSpec]) -> None:
    counts = sorted(Counter(s.narration for v in specs for s in v.segments).values(), reverse=True)
    total = sum(counts)
    assert sum(counts[:10]) > 0.35 * total
    assert sum(counts[len(counts) // 2 :]) < 0.2 * total


# n-gram models with back-off: how much of the next action the previous ones tell


def _top_k(specs: list[kitchen.VideoSpec], order: int, k: int) -> float:
    """Top-k accuracy in percent, on validation, of what followed the last `order` actions in training."""
    sequences = {
        split: [[kitchen.action_id(s.verb, s.noun) for s in v.segments] for v in specs if v.split == split]
        for split in ("train", "val")
    }
    tables: list[dict[tuple[int, ...], np.ndarray]] = [
        defaultdict(lambda: np.zeros(len(kitchen.ACTIONS))) for _ in range(order + 1)
    ]
    for sequence in sequences["train"]:
        for t, action in enumerate(sequence):
            for n, table in enumerate(tables):
                table[tuple(sequence[max(0, t - n) : t])][action] += 1
    hits = []
    for sequence in sequences["val"]:
        for t, action in enumerate(sequence):
            p = np.full(len(kitchen.ACTIONS), 1.0 / len(kitchen.ACTIONS))
            for n, table in enumerate(tables):
                seen = table.get(tuple(sequence[max(0, t - n) : t]), np.zeros(1))
                p = (seen + 5.0 * p) / (seen.sum() + 5.0)
            hits.append(action in np.argsort(-p)[:k])
    return 100.0 * float(np.mean(hits))


def test_the_next_action_is_partly_predictable_and_longer_memory_helps(specs: list[kitchen.VideoSpec]) -> None:
    prior, bigram, trigram = (_top_k(specs, order, 5) for order in range(3))
    assert 25 < prior < 40
    assert 60 < bigram < 78
    assert bigram + 3 < trigram < 90
    first = [_top_k(specs, order, 1) for order in range(3)]
    assert first[0] + 10 < first[1] < first[2] - 5


# the world


def test_every_action_finds_the_world_it_needs(specs: list[kitchen.VideoSpec]) -> None:
    for video in specs:
        world = initial_world(video.seed)
        for segment in video.segments:
            if segment.verb == "take":
                assert world.place(segment.step.item) == segment.step.place
                assert segment.step.place not in DOORS or segment.step.place in world.on
            world = apply(world, segment.step)  # raises where the step does not fit
            spots = [spot for spot in world.where.values() if spot.place != "gone"]
            assert len(spots) == len(set(spots)), "two things in one place"
            assert len(world.held()) <= HANDS
            assert all(len(world.at(place)) <= room for place, room in CAPACITY.items())


@pytest.mark.parametrize(
    ("step", "why"),
    [
        (ActionStep("take", "milk.0", "counter"), "it is at fridge"),
        (ActionStep("take", "milk.0", "fridge"), "out of reach"),
        (ActionStep("put", "oil.0", "counter"), "not in a hand"),
        (ActionStep("turn-off", "tap"), "already so"),
        (ActionStep("cut", "onion.0"), "no knife"),
        (ActionStep("throw", "egg"), "nothing to throw"),
        (ActionStep("stir", "tea", "cup.0"), "no spoon"),
    ],
)
def test_impossible_steps_are_rejected(step: ActionStep, why: str) -> None:
    with pytest.raises(ImpossibleStepError, match=why):
        apply(World(where=HOME), step)


# motion


def test_hands_and_gaze_move_before_an_action_starts(specs: list[kitchen.VideoSpec]) -> None:
    nearer: dict[str, list[bool]] = {"hand": [], "gaze": []}
    for video in specs[:20]:
        layout = Layout(1.0)
        motion = Motion(video, initial_world(video.seed), layout)
        for k, (before, segment) in enumerate(pairwise(video.segments), start=1):
            if segment.start - before.stop < 0.8:
                continue
            focus = layout.focus(motion.worlds[k], motion.worlds[k + 1], segment.step)
            for name, tracks in (("hand", motion.hands), ("gaze", (motion.gaze,))):
                then, now = (min(math.dist(t.at(at), focus) for t in tracks) for at in (before.stop, segment.start))
                nearer[name].append(now < then or now < 0.1)
    assert np.mean(nearer["hand"]) > 0.85
    assert np.mean(nearer["gaze"]) > 0.85


# frames


def test_frames_have_the_size_asked_for_repeat_and_move(specs: list[kitchen.VideoSpec]) -> None:
    for size in ((64, 114), (63, 113)):
        frames, again = (np.stack(list(islice(kitchen.render(specs[0], size=size), 80))) for _ in range(2))
        assert frames.shape == (80, *size, 3)
        assert frames.dtype == np.uint8
        np.testing.assert_array_equal(frames, again)
        assert np.abs(np.diff(frames.astype(np.int16), axis=0)).mean(axis=(1, 2, 3)).max() > 2
        assert frames.std() > 25


def test_a_video_has_as_many_frames_as_its_duration_says(specs: list[kitchen.VideoSpec]) -> None:
    video = min(specs[:20], key=lambda v: v.duration)
    assert sum(1 for _ in kitchen.render(video, size=(36, 64))) == round(video.duration * kitchen.FPS)


def test_every_participant_looks_different() -> None:
    videos = {v.participant: v for v in kitchen.plan(60, seed=0)}
    assert set(videos) == {*kitchen.SEEN, *kitchen.UNSEEN}
    first = {p: next(iter(kitchen.render(v, size=(64, 114)))).astype(np.int16) for p, v in videos.items()}
    for one in first:
        for other in first:
            assert one == other or np.abs(first[one] - first[other]).mean() > 12


def test_sizes_too_small_to_render_are_rejected(specs: list[kitchen.VideoSpec]) -> None:
    with pytest.raises(ValueError, match="at least 32"):
        next(kitchen.render(specs[0], size=(16, 28)))


# annotations


def _spec(start: float, stop: float, split: str = "train") -> kitchen.VideoSpec:
    segment = kitchen.Segment(start, stop, "take", "pan", ActionStep("take", "pan.0", "hob"))
    return kitchen.VideoSpec("P03_07", "P03", split, 0, 90.0, (segment,))


def test_frames_count_from_one_at_thirty_per_second() -> None:
    specs = [_spec(0.0, 1.25), _spec(61.27, 63.02, "val")]
    (row,) = kitchen.epic_rows(specs, "train")
    assert (row["start_frame"], row["stop_frame"]) == (1, 37)
    assert kitchen.epic_rows(specs, "val") == [
        {
            "narration_id": "P03_07_0",
            "participant_id": "P03",
            "video_id": "P03_07",
            "start_timestamp": "00:01:01.27",
            "stop_timestamp": "00:01:03.02",
            "start_frame": 1838,
            "stop_frame": 1890,
            "narration": "take pan",
            "verb": "take",
            "verb_class": kitchen.VERBS.index("take"),
            "noun": "pan",
            "noun_class": kitchen.NOUNS.index("pan"),
        }
    ]


def test_rows_cover_every_segment_once(specs: list[kitchen.VideoSpec]) -> None:
    for split in ("train", "val"):
        rows = kitchen.epic_rows(specs, split)
        assert len(rows) == sum(len(v.segments) for v in specs if v.split == split)
        assert all(1 <= int(row["start_frame"]) < int(row["stop_frame"]) for row in rows)
        assert len({row["narration_id"] for row in rows}) == len(rows)
