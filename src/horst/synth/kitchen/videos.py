"""Synthetic `kitchen`: long videos for action anticipation in the spirit of EPIC-Kitchens, planned and annotated here.

`plan` decides what happens when; `render` (from `kitchen_scene`) draws it. Times are seconds. Segments are in order and
never overlap; between two lie 0 to 2 s in which the hand is already on its way to the next one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from horst.synth.kitchen.agent import Cook, initial_world
from horst.synth.kitchen.participants import SEEN, UNSEEN, habits_of
from horst.synth.kitchen.scene import render
from horst.synth.kitchen.schedule import steps
from horst.synth.kitchen.spec import ACTIONS, FPS, Action, Segment, VideoSpec, action_id
from horst.synth.kitchen.world import NOUNS, VERBS, Step

__all__ = [
    "ACTIONS", "EPIC_FPS", "FPS", "NOUNS", "SEEN", "UNSEEN", "VERBS",
    "Action", "EpicRows", "Segment", "VideoSpec", "action_id", "epic_rows", "plan", "render",
]  # fmt: skip

EPIC_FPS = 30
"""Frames per second that EPIC-Kitchens annotations count in."""

DURATION = (60.0, 120.0)
LEAD_IN = (2.0, 5.0)
"""Nothing happens at first, so that the first segment too has something to be anticipated from."""
GAP = (0.0, 2.0)
LENGTH = {
    "close": 1.2, "crack": 1.8, "cut": 3.2, "dry": 2.4, "open": 1.3, "peel": 2.8, "pour": 2.2,
    "put": 1.3, "stir": 2.8, "take": 1.3, "throw": 1.6, "turn-off": 1.1, "turn-on": 1.2, "wash": 2.8,
}  # fmt: skip
"""Typical seconds of an action; drawn between 0.75 and 1.3 times that, and kept within 1 to 4."""


def plan(videos: int, seed: int, *, val_fraction: float = 0.25) -> list[VideoSpec]:
    """The first `videos` videos of a seed. More videos only append: video i never depends on how many follow."""
    if videos < 0 or not 0 <= val_fraction <= 1:
        raise ValueError(f"kitchen.plan: videos={videos} must be >= 0 and val_fraction={val_fraction} within [0, 1]")
    specs: list[VideoSpec] = []
    counts = dict.fromkeys((*SEEN, *UNSEEN), 0)
    for index in range(videos):
        validate = int((index + 1) * val_fraction) > int(index * val_fraction)
        participant = _participant(index, seed, validate, int(index * val_fraction))
        counts[participant] += 1
        name = f"{participant}_{counts[participant]:02d}"
        specs.append(_video(name, participant, "val" if validate else "train", _derive(seed, index)))
    return specs


def _participant(index: int, seed: int, validate: bool, validated: int) -> str:
    """Training goes round the seen participants; every third validation video goes round the unseen ones."""
    trained = index - validated
    if not validate:
        return SEEN[trained % len(SEEN)]
    if validated % 3 == 1 or trained == 0:
        return UNSEEN[validated // 3 % len(UNSEEN)]
    rng = np.random.default_rng([seed, index, 7])
    return SEEN[int(rng.integers(min(trained, len(SEEN))))]


def _derive(seed: int, index: int) -> int:
    return int(np.random.SeedSequence([seed, index]).generate_state(1)[0])


def _video(name: str, participant: str, split: str, seed: int) -> VideoSpec:
    rng = np.random.default_rng([seed, 2])
    duration = round(float(rng.uniform(*DURATION)), 1)
    cook = Cook(initial_world(seed), np.random.default_rng([seed, 3]), habits_of(participant))
    return VideoSpec(name, participant, split, seed, duration, tuple(_timeline(rng, steps(cook), duration)))


def _timeline(rng: np.random.Generator, moves: Iterator[Step], duration: float) -> Iterator[Segment]:
    """Give steps their times, in hundredths of a second as EPIC has them, until the video is full."""
    clock = round(float(rng.uniform(*LEAD_IN)), 2)
    for step in moves:
        length = float(np.clip(LENGTH[step.verb] * rng.uniform(0.75, 1.3), 1.0, 4.0))
        stop = round(clock + length, 2)
        if stop > duration:
            return
        yield Segment(clock, stop, step.verb, step.noun, step)
        # the power makes short gaps common: a cook at work does not look hesitant
        clock = round(stop + GAP[0] + (GAP[1] - GAP[0]) * float(rng.random()) ** 1.5, 2)


@dataclass(frozen=True, slots=True)
class EpicRows:
    """The annotations of one split, in both forms that EPIC tools read."""

    rulstm: tuple[tuple[int, str, int, int, int, int, int], ...]
    """(id, video, start_frame, stop_frame, verb id, noun id, action id)"""
    official: tuple[dict[str, str | int], ...]
    """One dict per row, keyed by the column names of EPIC-KITCHENS-100."""


def epic_rows(specs: Sequence[VideoSpec]) -> tuple[dict[str, EpicRows], tuple[tuple[int, int, int, str], ...]]:
    """The rows per split, and the actions as (id, verb id, noun id, name). Frames count from 1 at `EPIC_FPS`."""
    rows: dict[str, EpicRows] = {}
    for split in ("train", "val"):
        pairs = [
            (spec, number, segment)
            for spec in specs
            if spec.split == split
            for number, segment in enumerate(spec.segments)
        ]
        rows[split] = EpicRows(
            tuple(_rulstm_row(row, spec, segment) for row, (spec, _, segment) in enumerate(pairs)),
            tuple(_official_row(*pair) for pair in pairs),
        )
    return rows, tuple((action.id, action.verb_id, action.noun_id, action.name) for action in ACTIONS)


def _frames(segment: Segment) -> tuple[int, int]:
    """Rounded down, as EPIC's frames are made from its time stamps."""
    return max(1, int(segment.start * EPIC_FPS)), max(1, int(segment.stop * EPIC_FPS))


def _rulstm_row(row: int, spec: VideoSpec, segment: Segment) -> tuple[int, str, int, int, int, int, int]:
    action = ACTIONS[action_id(segment.verb, segment.noun)]
    return row, spec.id, *_frames(segment), action.verb_id, action.noun_id, action.id


def _timestamp(seconds: float) -> str:
    hundredths = round(seconds * 100)
    minutes, rest = divmod(hundredths, 6000)
    return f"{minutes // 60:02d}:{minutes % 60:02d}:{rest // 100:02d}.{rest % 100:02d}"


def _official_row(spec: VideoSpec, number: int, segment: Segment) -> dict[str, str | int]:
    start, stop = _frames(segment)
    return {
        "narration_id": f"{spec.id}_{number}",
        "participant_id": spec.participant,
        "video_id": spec.id,
        "start_timestamp": _timestamp(segment.start),
        "stop_timestamp": _timestamp(segment.stop),
        "start_frame": start,
        "stop_frame": stop,
        "narration": segment.narration,
        "verb": segment.verb,
        "verb_class": VERBS.index(segment.verb),
        "noun": segment.noun,
        "noun_class": NOUNS.index(segment.noun),
    }
