"""Planning and annotating the videos of `kitchen`.

`plan` decides what happens when. Times are seconds. Segments are in order and never overlap; in the 0 to 2 s between
two of them the hand is already on its way to the next one.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from horst.synth.kitchen.participants import HABITS, SEEN, UNSEEN
from horst.synth.kitchen.recipes import PAUSE, RECIPES, Cook, Moves, initial_world
from horst.synth.kitchen.world import NOUNS, VERB_TABLE, VERBS, ActionStep, apply

FPS = 10  # frame rate of the rendered videos
EPIC_FPS = 30  # frame rate in which EPIC-Kitchens annotations count
DURATION = (60.0, 120.0)
LEAD_IN = (2.0, 5.0)  # nothing happens at first, so that the first segment can be anticipated too
GAP = (0.0, 2.0)
INTERLEAVED = 0.7  # probability that a second recipe is in progress at the same time


class ActionClass(NamedTuple):
    """A verb-noun pair with its class ids."""

    id: int
    verb: str
    noun: str
    verb_id: int
    noun_id: int
    name: str


# every pair that the recipes can produce, sorted by verb, then noun
_PAIRS = [(verb, noun) for verb, about in VERB_TABLE.items() for noun in about.nouns.split()]
ACTIONS = tuple(
    ActionClass(index, verb, noun, VERBS.index(verb), NOUNS.index(noun), f"{verb} {noun}")
    for index, (verb, noun) in enumerate(_PAIRS)
)


def action_id(verb: str, noun: str) -> int:
    return _PAIRS.index((verb, noun))


@dataclass(frozen=True, slots=True)
class Segment:
    """One annotated action, and the step that it performs."""

    start: float
    stop: float
    verb: str
    noun: str
    step: ActionStep

    @property
    def narration(self) -> str:
        return f"{self.verb} {self.noun}"

    def at(self, part: float) -> float:
        """The time at which a fraction of the segment is over."""
        return self.start + part * (self.stop - self.start)

    def progress(self, time: float) -> float:
        """The fraction of the segment that is over at a time."""
        return (time - self.start) / (self.stop - self.start)


@dataclass(frozen=True, slots=True)
class VideoSpec:
    """What is needed to annotate and to render one video."""

    id: str
    participant: str
    split: str  # "train" or "val"
    seed: int
    duration: float
    segments: tuple[Segment, ...]


def plan(videos: int, seed: int, *, val_fraction: float = 0.25) -> list[VideoSpec]:
    """The first `videos` videos of a seed. A video does not depend on how many follow."""
    if videos < 0 or not 0 <= val_fraction <= 1:
        raise ValueError(f"kitchen.plan: videos={videos} must be >= 0 and val_fraction={val_fraction} within [0, 1]")
    specs: list[VideoSpec] = []
    counts = dict.fromkeys((*SEEN, *UNSEEN), 0)
    for index in range(videos):
        validated = int(index * val_fraction)
        split = "val" if int((index + 1) * val_fraction) > validated else "train"
        trained = index - validated
        # training cycles through the seen participants; every third validation video has an unseen one
        if split == "train":
            participant = SEEN[trained % len(SEEN)]
        elif validated % 3 == 1 or trained == 0:
            participant = UNSEEN[validated // 3 % len(UNSEEN)]
        else:
            participant = SEEN[int(np.random.default_rng([seed, index, 7]).integers(min(trained, len(SEEN))))]
        counts[participant] += 1
        name = f"{participant}_{counts[participant]:02d}"
        video_seed = int(np.random.SeedSequence([seed, index]).generate_state(1)[0])
        rng = np.random.default_rng([video_seed, 2])
        duration = round(rng.uniform(*DURATION), 1)
        cook = Cook(initial_world(video_seed), np.random.default_rng([video_seed, 3]), HABITS[participant])
        segments = tuple(_timeline(rng, cook, duration))
        specs.append(VideoSpec(name, participant, split, video_seed, duration, segments))
    return specs


def _timeline(rng: np.random.Generator, cook: Cook, duration: float) -> Iterator[Segment]:
    """Recipes until the video is full, in hundredths of a second like EPIC. The world rejects impossible steps."""
    clock = round(rng.uniform(*LEAD_IN), 2)
    while True:
        for step in _session(cook):
            cook.world = apply(cook.world, step)
            length = float(np.clip(VERB_TABLE[step.verb].seconds * rng.uniform(0.75, 1.3), 1.0, 4.0))
            stop = round(clock + length, 2)
            if stop > duration:
                return
            yield Segment(clock, stop, step.verb, step.noun, step)
            # the power makes short gaps frequent, as of a cook who does not hesitate
            clock = round(stop + GAP[0] + (GAP[1] - GAP[0]) * rng.random() ** 1.5, 2)
        cook.reserved.clear()


def _session(cook: Cook) -> Moves:
    """One recipe, or two that alternate, until they are done; chores in between."""
    chosen = [cook.pick(RECIPES, [recipe.weight for recipe in RECIPES])]
    if cook.chance(INTERLEAVED):
        others = [recipe for recipe in RECIPES if not recipe.needs & chosen[0].needs]
        chosen.append(cook.pick(others, [recipe.weight for recipe in others]))
    threads = [recipe.make(cook) for recipe in chosen]
    while threads:
        move = next(threads[0], None)
        if move is not None and move is not PAUSE:
            yield move
            continue
        if move is None:
            threads.pop(0)
        yield from (step for step in cook.chores() if step is not PAUSE)
        if len(threads) > 1 and not cook.world.held() and cook.chance(cook.habits.switches):
            threads.append(threads.pop(0))


def epic_rows(specs: Sequence[VideoSpec], split: str) -> list[dict[str, str | int]]:
    """The annotations of a split with the columns of EPIC-KITCHENS-100. Frames count from 1 at `EPIC_FPS`."""
    return [
        {
            "narration_id": f"{spec.id}_{number}", "participant_id": spec.participant, "video_id": spec.id,
            "start_timestamp": _timestamp(segment.start), "stop_timestamp": _timestamp(segment.stop),
            # frames are rounded down, as EPIC does
            "start_frame": max(1, int(segment.start * EPIC_FPS)), "stop_frame": max(1, int(segment.stop * EPIC_FPS)),
            "narration": segment.narration, "verb": segment.verb, "verb_class": VERBS.index(segment.verb),
            "noun": segment.noun, "noun_class": NOUNS.index(segment.noun),
        }
        for spec in specs if spec.split == split
        for number, segment in enumerate(spec.segments)
    ]  # fmt: skip


def _timestamp(seconds: float) -> str:
    minutes, rest = divmod(round(seconds * 100), 6000)
    return f"{minutes // 60:02d}:{minutes % 60:02d}:{rest // 100:02d}.{rest % 100:02d}"
