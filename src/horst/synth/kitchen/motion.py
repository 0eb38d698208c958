"""How hands and head move through the segments of a video.

A hand leaves for its next target as soon as the previous action is over, and the gaze (the camera) slightly before it:
the next action shows in the second or two before it starts.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass, field
from typing import Literal

from horst.synth.kitchen.room import BIN, DOOR_FRAMES, DRYING, HANDLES, SINK, SLOTS, TAP, WASTE
from horst.synth.kitchen.videos import VideoSpec
from horst.synth.kitchen.world import DOORS, HOME, VERB_TABLE, ActionStep, World, apply, noun_of
from horst.synth.render.shapes import Point

Side = Literal[0, 1]
RIGHT: Side = 0
LEFT: Side = 1

CARRY: tuple[Point, Point] = ((0.20, 0.38), (-0.24, 0.38))
REST: tuple[Point, Point] = ((0.30, 0.53), (-0.32, 0.53))
CONTACT = 0.38  # the fraction of a segment after which the hand touches its target
SWING = (0.38, 0.85)  # the fraction of a segment during which a door turns
GAZE_LEADS = 0.7  # seconds between the gaze and the start of the action that it leads to
GRIP: dict[str, Point] = {
    "pan": (0.22, 0.085), "kettle": (0.06, -0.01), "knife": (0.0, 0.075), "spoon": (0.01, 0.085),
    "plate": (0.07, 0.035), "cup": (0.03, 0.01), "cloth": (0.0, -0.04), "milk": (0.02, 0.0),
    "oil": (0.01, 0.0), "pasta": (0.03, 0.01),
}  # fmt: skip
"""From the centre of an object to the hand that holds it."""
_OSCILLATIONS: dict[str, tuple[float, float, float, float]] = {
    "rub": (0.035, 0.022, 1.7, 0.0), "hold": (0.004, 0.004, 1.0, 0.0), "chop": (0.004, 0.028, 2.9, 0.0),
    "scrape": (0.030, 0.006, 1.3, 0.9), "stir": (0.038, 0.024, 1.2, 0.0), "tilt": (0.004, 0.004, 1.0, -1.0),
    "tap": (0.0, 0.022, 2.3, 0.0),
}  # fmt: skip
"""Width and height of the motion, frequency in Hz, and tilt of the held object."""


@dataclass(frozen=True, slots=True)
class Oscillation:
    """A periodic motion on top of a hand's path: chopping, rubbing, stirring, pouring."""

    start: float
    stop: float
    side: Side
    kind: str


@dataclass(slots=True)
class Trajectory:
    """A path through points at times, at rest in each of them."""

    times: list[float]
    points: list[Point]

    def add(self, time: float, point: Point) -> None:
        # a short gap can request a time in the past
        self.times.append(max(time, self.times[-1] + 1e-3))
        self.points.append(point)

    def at(self, time: float) -> Point:
        k = bisect_right(self.times, time)
        if k == 0 or k == len(self.times):
            return self.points[min(k, len(self.points) - 1)]
        (x0, y0), (x1, y1) = self.points[k - 1], self.points[k]
        t = (time - self.times[k - 1]) / (self.times[k] - self.times[k - 1])
        t = t * t * t * (t * (6 * t - 15) + 10)
        # hands are lifted on long paths
        lift = 0.10 * math.hypot(x1 - x0, y1 - y0) * 4 * t * (1 - t)
        return x0 + (x1 - x0) * t, y0 + (y1 - y0) * t - lift


@dataclass(slots=True)
class Motion:
    """The motion of one video: worlds between the segments, when they change, and where hands and gaze are."""

    worlds: list[World]
    changes: list[float]
    sides: list[tuple[Side, Side]]
    """Which hand is which slot of the world, per world: objects on the left are taken with the left hand."""
    hands: tuple[Trajectory, Trajectory] = field(
        default_factory=lambda: (Trajectory([0.0], [REST[RIGHT]]), Trajectory([0.0], [REST[LEFT]]))
    )
    gaze: Trajectory = field(default_factory=lambda: Trajectory([0.0], [(0.0, 0.1)]))
    oscillations: list[Oscillation] = field(default_factory=list)

    def oscillation(self, side: Side, time: float) -> tuple[float, float, float]:
        """The offset of a hand at a time: (dx, dy, clockwise tilt of what it holds)."""
        dx = dy = tilt = 0.0
        for one in self.oscillations:
            if one.side != side or not one.start <= time <= one.stop:
                continue
            t, length = time - one.start, one.stop - one.start
            ramp = min(1.0, 5.0 * t / length, 5.0 * (length - t) / length)
            ax, ay, hertz, turn = _OSCILLATIONS[one.kind]
            phase = 2 * math.pi * hertz * t
            dx += ramp * ax * math.cos(phase)
            dy += ramp * ay * math.sin(phase)
            tilt += ramp * turn
        return dx, dy, tilt


@dataclass(frozen=True, slots=True)
class Layout:
    """Where objects are in this kitchen, mirrored or not."""

    mirror: float

    def point(self, at: Point) -> Point:
        return self.mirror * at[0], at[1]

    def where(self, world: World, item: str) -> Point:
        """The point of an object that is not in a hand."""
        at = world.where[item]
        return self.point(SLOTS[at.place][at.slot])

    def scraps(self, world: World, noun: str) -> Point:
        """The point of waste: a tea bag is in its cup, everything else on the board."""
        cups = [item for item in world.at("counter") if noun == "tea" and "tea" in world.contents(item)]
        return self.where(world, cups[0]) if cups else self.point(WASTE)

    def focus(self, world: World, after: World, step: ActionStep) -> Point:
        """The point that an action is about."""
        if step.verb in ("take", "cut", "peel"):
            return self.where(world, step.item)
        if step.item in HANDLES:
            return self.point(HANDLES[step.item])
        if step.place in HOME:
            return self.where(world, step.place)
        if step.verb == "put":
            return self.where(after, step.item)
        if step.verb == "throw":
            return self.scraps(world, step.noun)
        return self.point(DRYING if step.verb == "dry" else SINK)


Path = list[tuple[float, Point]]  # points at fractions of a segment


def grip(item: str, at: Point) -> Point:
    """The point of the hand that holds an object at a point."""
    dx, dy = GRIP.get(noun_of(item), (0.0, 0.0))
    return at[0] + dx, at[1] + dy


def animate(spec: VideoSpec, world: World, layout: Layout) -> Motion:
    """The motion of a video that starts with a world."""
    motion = Motion([world], [], [(RIGHT, LEFT)])
    over = 0.0
    for segment in spec.segments:
        step, start, stop = segment.step, segment.start, segment.stop
        after = apply(world, step)
        focus = layout.focus(world, after, step)
        sides = motion.sides[-1]
        if not world.held():
            sides = (LEFT, RIGHT) if focus[0] < -0.15 else (RIGHT, LEFT)
        paths = {sides[slot]: path for slot, path in _paths(layout, world, after, step).items()}
        _perform(motion, paths, (over, start, stop), {sides[after.where[item].slot] for item in after.held()})
        motion.gaze.add(start - GAZE_LEADS, motion.gaze.points[-1])
        motion.gaze.add(start + 0.3, focus)
        verb, length = VERB_TABLE[step.verb], stop - start
        motion.oscillations += [
            Oscillation(start + CONTACT * length, stop, side, kind)
            for side, kind in zip(paths, verb.motions, strict=False)
        ]
        motion.changes.append(start + verb.effect * length)
        motion.worlds.append(after)
        motion.sides.append(sides)
        world, over = after, stop
    return motion


def free_slot(world: World) -> int:
    """The hand for doors and switches: an empty one, otherwise the first."""
    taken = {world.where[item].slot for item in world.held()}
    return next((slot for slot in (0, 1) if slot not in taken), 0)


def _paths(layout: Layout, world: World, after: World, step: ActionStep) -> dict[int, Path]:
    """The paths of the hands in an action, by slot of the world; the leading hand first."""
    at = layout.focus(world, after, step)
    slots = {item: world.where[item].slot for item in world.held()}
    free = free_slot(world)
    if step.verb == "take":
        return {after.where[step.item].slot: [(CONTACT, grip(step.item, at)), (0.55, grip(step.item, at))]}
    if step.verb == "put":
        high = (at[0], at[1] - 0.05) if step.place in HOME else at
        return {slots[step.item]: [(0.55, grip(step.item, high)), (0.68, grip(step.item, high))]}
    if step.item in DOORS:
        return {free: _swing(layout, step)}
    if step.item in HANDLES:
        return {free: [(CONTACT, at), (0.7, at)]}
    if step.verb == "throw":
        x, y = layout.point(BIN)
        return {free: [(0.25, at), (0.35, at), (0.75, (x, y - 0.05)), (0.85, (x, y - 0.05))]}
    if step.verb in ("wash", "dry"):
        place = layout.point((TAP[0], TAP[1] + 0.11)) if step.verb == "wash" else at
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
        held = grip(spoon, (at[0], at[1] - 0.01))
        return {slots[spoon]: [(CONTACT, held), (1.0, held)]}
    # pour, crack: above the vessel
    above = grip(step.item, (at[0] + 0.03, at[1] - 0.10))
    return {slots[step.item]: [(CONTACT, above), (0.95, above)]}


def _swing(layout: Layout, step: ActionStep) -> Path:
    """The hand stays on the handle while the door turns."""
    x, y = HANDLES[step.item]
    _, (width, _), hinge = DOOR_FRAMES[step.item]
    shut, wide = layout.point((x, y)), layout.point((x + 0.7 * hinge * width, y + 0.03))
    ends = (shut, wide) if step.verb == "open" else (wide, shut)
    return [(SWING[0], ends[0]), (SWING[1], ends[1])]


def _perform(motion: Motion, paths: dict[Side, Path], times: tuple[float, float, float], carrying: set[Side]) -> None:
    """Add the paths of an action, and the way there in the gap before it; idle hands return to the cook."""
    over, start, stop = times
    for side in (RIGHT, LEFT):
        track, home = motion.hands[side], (CARRY if side in carrying else REST)[side]
        here = track.points[-1]
        if side not in paths:
            if here != home:
                track.add(over, here)
                track.add(over + 0.9, home)
            continue
        track.add(over, here)
        (x, y), share = paths[side][0][1], 0.7 if start - over > 0.3 else 0.3
        track.add(start, (here[0] + (x - here[0]) * share, here[1] + (y - here[1]) * share))
        for part, point in paths[side]:
            track.add(start + part * (stop - start), point)
