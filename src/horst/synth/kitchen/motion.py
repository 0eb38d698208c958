"""How hands and head move through the segments of a video.

A hand leaves for its next target as soon as the previous action is over, and the eyes (the camera) leave a little
before it: what comes next shows in the second or two before it starts.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass, field
from typing import Literal

from horst.synth.kitchen.room import (
    BIN,
    CUPBOARD_SIZE,
    DRYING,
    FRIDGE_SIZE,
    KNOBS,
    SINK,
    SPOTS,
    TAP,
    WASTE,
    Point,
)
from horst.synth.kitchen.spec import VideoSpec
from horst.synth.kitchen.world import DOORS, HOME, Step, World, apply, noun_of

Side = Literal[0, 1]
RIGHT: Side = 0
LEFT: Side = 1

CARRY: tuple[Point, Point] = ((0.20, 0.38), (-0.24, 0.38))
REST: tuple[Point, Point] = ((0.30, 0.53), (-0.32, 0.53))
CONTACT = 0.38
"""The part of a segment after which the hand touches its target."""
EFFECT = {
    "take": 0.42, "put": 0.62, "turn-on": 0.5, "turn-off": 0.5, "open": 0.6, "close": 0.6, "wash": 0.8, "dry": 0.85,
    "cut": 0.7, "peel": 0.75, "crack": 0.6, "pour": 0.7, "stir": 0.8, "throw": 0.8,
}  # fmt: skip
"""The part of a segment after which the world changes."""
SWING = (0.38, 0.85)
"""The part of a segment during which a door turns."""
GAZE_LEADS = 0.7
"""Seconds between the eyes and the start of what they look for."""

GRIP: dict[str, Point] = {
    "pan": (0.22, 0.085), "kettle": (0.06, -0.01), "knife": (0.0, 0.075), "spoon": (0.01, 0.085),
    "plate": (0.07, 0.035), "cup": (0.03, 0.01), "cloth": (0.0, -0.04), "milk": (0.02, 0.0),
    "oil": (0.01, 0.0), "pasta": (0.03, 0.01),
}  # fmt: skip
"""From the middle of an object to the hand that holds it."""


@dataclass(frozen=True, slots=True)
class Beat:
    """A rhythm on top of a hand's path: chopping, rubbing, stirring, pouring."""

    start: float
    stop: float
    side: Side
    kind: str


@dataclass(slots=True)
class Track:
    """A path through points in time, at rest in each of them."""

    times: list[float]
    points: list[Point]

    def add(self, time: float, point: Point) -> None:
        # a short gap can ask for a time that is already past: never turn back
        self.times.append(max(time, self.times[-1] + 1e-3))
        self.points.append(point)

    def at(self, time: float) -> Point:
        k = bisect_right(self.times, time)
        if k == 0 or k == len(self.times):
            return self.points[min(k, len(self.points) - 1)]
        (x0, y0), (x1, y1) = self.points[k - 1], self.points[k]
        t = (time - self.times[k - 1]) / (self.times[k] - self.times[k - 1])
        t = t * t * t * (t * (6 * t - 15) + 10)
        # hands are lifted on long ways
        lift = 0.10 * math.hypot(x1 - x0, y1 - y0) * 4 * t * (1 - t)
        return x0 + (x1 - x0) * t, y0 + (y1 - y0) * t - lift


@dataclass(slots=True)
class Motion:
    """The moves of one video: worlds between the segments, when they change, and where hands and eyes are."""

    worlds: list[World]
    changes: list[float]
    sides: list[tuple[Side, Side]]
    """Which hand is which slot of the world, per world: things on the left are taken with the left hand."""
    hands: tuple[Track, Track] = field(
        default_factory=lambda: (Track([0.0], [REST[RIGHT]]), Track([0.0], [REST[LEFT]]))
    )
    eyes: Track = field(default_factory=lambda: Track([0.0], [(0.0, 0.1)]))
    beats: list[Beat] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Stage:
    """Where things are in this kitchen, mirrored or not."""

    mirror: float

    def point(self, at: Point) -> Point:
        return self.mirror * at[0], at[1]

    def where(self, world: World, item: str) -> Point:
        """The point at which an object stands that is not in a hand."""
        spot = world.where[item]
        return self.point(SPOTS[spot.place][spot.slot])

    def scraps(self, world: World, noun: str) -> Point:
        """Where waste lies: a tea bag in its cup, all else on the board."""
        cups = [item for item in world.at("counter") if noun == "tea" and "tea" in world.contents(item)]
        return self.where(world, cups[0]) if cups else self.point(WASTE)

    def focus(self, world: World, after: World, step: Step) -> Point:
        """The point that an action is about."""
        if step.verb == "take":
            return self.where(world, step.item)
        if step.item in KNOBS:
            return self.point(KNOBS[step.item])
        if step.place in HOME:
            return self.where(world, step.place)
        if step.verb == "put":
            return self.where(after, step.item)
        if step.verb in ("cut", "peel"):
            return self.where(world, step.item)
        if step.verb == "throw":
            return self.scraps(world, step.noun)
        return self.point(DRYING if step.verb == "dry" else SINK)


Path = list[tuple[float, Point]]
"""Points at parts (0 to 1) of a segment."""


def grip(item: str, at: Point) -> Point:
    """Where the hand is that holds an object at a point."""
    dx, dy = GRIP.get(noun_of(item), (0.0, 0.0))
    return at[0] + dx, at[1] + dy


def choreograph(spec: VideoSpec, world: World, stage: Stage) -> Motion:
    """The motion of a video from its first world on."""
    motion = Motion([world], [], [(RIGHT, LEFT)])
    over = 0.0
    for segment in spec.segments:
        step, start, stop = segment.step, segment.start, segment.stop
        after = apply(world, step)
        focus = stage.focus(world, after, step)
        sides = motion.sides[-1]
        if not world.held():
            sides = (LEFT, RIGHT) if focus[0] < -0.15 else (RIGHT, LEFT)
        paths = {sides[slot]: path for slot, path in _paths(stage, world, after, step).items()}
        _perform(motion, paths, (over, start, stop), {sides[after.where[item].slot] for item in after.held()})
        _look(motion.eyes, focus, start)
        kinds = _RHYTHMS.get(step.verb, ())
        motion.beats += [
            Beat(start + CONTACT * (stop - start), stop, side, kind) for side, kind in zip(paths, kinds, strict=False)
        ]
        motion.changes.append(start + EFFECT[step.verb] * (stop - start))
        motion.worlds.append(after)
        motion.sides.append(sides)
        world, over = after, stop
    return motion


_RHYTHMS: dict[str, tuple[str, ...]] = {
    "wash": ("rub", "hold"), "dry": ("rub", "hold"), "cut": ("chop",), "peel": ("scrape",), "stir": ("stir",),
    "pour": ("tilt",), "crack": ("tap",),
}  # fmt: skip
"""What each hand of an action does at its target, in the order of `_paths`."""


def free_slot(world: World) -> int:
    """The hand that works doors and switches: an empty one, else the first."""
    taken = {world.where[item].slot for item in world.held()}
    return next((slot for slot in (0, 1) if slot not in taken), 0)


def _paths(stage: Stage, world: World, after: World, step: Step) -> dict[int, Path]:
    """Where the hands go in an action, by slot of the world; the leading hand first."""
    at = stage.focus(world, after, step)
    slots = {item: world.where[item].slot for item in world.held()}
    free = free_slot(world)
    if step.verb == "take":
        return {after.where[step.item].slot: [(CONTACT, grip(step.item, at)), (0.55, grip(step.item, at))]}
    if step.verb == "put":
        high = (at[0], at[1] - 0.05) if step.place in HOME else at
        return {slots[step.item]: [(0.55, grip(step.item, high)), (0.68, grip(step.item, high))]}
    if step.item in DOORS:
        return {free: _swing(stage, step)}
    if step.item in KNOBS:
        return {free: [(CONTACT, at), (0.7, at)]}
    if step.verb == "throw":
        bin_ = stage.point(BIN)
        return {free: [(0.25, at), (0.35, at), (0.75, (bin_[0], bin_[1] - 0.05)), (0.85, (bin_[0], bin_[1] - 0.05))]}
    if step.verb in ("wash", "dry"):
        place = stage.point((TAP[0], TAP[1] + 0.11)) if step.verb == "wash" else at
        other = 1 - slots[step.item]
        return {
            other: [(CONTACT, (place[0] + 0.02, place[1])), (1.0, (place[0] + 0.02, place[1]))],
            slots[step.item]: [(CONTACT, grip(step.item, place)), (1.0, grip(step.item, place))],
        }
    if step.verb in ("cut", "peel"):
        knife = slots["knife.0"]
        blade = grip("knife.0", (at[0] + 0.02, at[1] - 0.02))
        return {
            knife: [(CONTACT, blade), (1.0, (blade[0] + 0.04, blade[1]))],
            1 - knife: [(CONTACT, (at[0] - 0.085, at[1] + 0.03)), (1.0, (at[0] - 0.06, at[1] + 0.03))],
        }
    if step.verb == "stir":
        spoon = next(item for item in slots if noun_of(item) == "spoon")
        return {
            slots[spoon]: [(CONTACT, grip(spoon, (at[0], at[1] - 0.01))), (1.0, grip(spoon, (at[0], at[1] - 0.01)))]
        }
    # pour, crack: above the vessel
    above = grip(step.item, (at[0] + 0.03, at[1] - 0.10))
    return {slots[step.item]: [(CONTACT, above), (0.95, above)]}


def _swing(stage: Stage, step: Step) -> Path:
    """The hand stays on the handle while the door turns."""
    x, y = KNOBS[step.item]
    width = FRIDGE_SIZE[0] if step.item == "fridge" else -CUPBOARD_SIZE[0]
    shut, wide = stage.point((x, y)), stage.point((x - 0.7 * width, y + 0.03))
    ends = (shut, wide) if step.verb == "open" else (wide, shut)
    return [(SWING[0], ends[0]), (SWING[1], ends[1])]


def _perform(motion: Motion, paths: dict[Side, Path], times: tuple[float, float, float], carrying: set[Side]) -> None:
    """Add an action's paths, with the way there in the gap before it; idle hands go back to the cook."""
    over, start, stop = times
    for side in (RIGHT, LEFT):
        track, home = motion.hands[side], (CARRY if side in carrying else REST)[side]
        here = track.points[-1]
        if side not in paths:
            if here not in (CARRY[side], REST[side]) or here != home:
                track.add(over, here)
                track.add(over + 0.9, home)
            continue
        track.add(over, here)
        (x, y), share = paths[side][0][1], 0.7 if start - over > 0.3 else 0.3
        track.add(start, (here[0] + (x - here[0]) * share, here[1] + (y - here[1]) * share))
        for part, point in paths[side]:
            track.add(start + part * (stop - start), point)


def _look(eyes: Track, focus: Point, start: float) -> None:
    eyes.add(start - GAZE_LEADS, eyes.points[-1])
    eyes.add(start + 0.3, focus)


def rhythm(beats: list[Beat], side: Side, time: float) -> tuple[float, float, float]:
    """What the beats add to a hand at a time: (dx, dy, clockwise tilt of what it holds)."""
    dx = dy = tilt = 0.0
    for beat in beats:
        if beat.side != side or not beat.start <= time <= beat.stop:
            continue
        t, length = time - beat.start, beat.stop - beat.start
        ramp = min(1.0, 5.0 * t / length, 5.0 * (length - t) / length)
        ax, ay, hertz, turn = _BEATS[beat.kind]
        phase = 2 * math.pi * hertz * t
        dx += ramp * ax * math.cos(phase)
        dy += ramp * ay * math.sin(phase)
        tilt += ramp * turn
    return dx, dy, tilt


_BEATS: dict[str, tuple[float, float, float, float]] = {
    "rub": (0.035, 0.022, 1.7, 0.0), "hold": (0.004, 0.004, 1.0, 0.0), "chop": (0.004, 0.028, 2.9, 0.0),
    "scrape": (0.030, 0.006, 1.3, 0.9), "stir": (0.038, 0.024, 1.2, 0.0), "tilt": (0.004, 0.004, 1.0, -1.0),
    "tap": (0.0, 0.022, 2.3, 0.0),
}  # fmt: skip
"""Width and height of the motion, beats a second, and how far the object is tilted."""
