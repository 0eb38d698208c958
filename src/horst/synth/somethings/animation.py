"""A script says where every object and the hand are at any moment: a chain of moves, each from the end of the last.

`Script.move` and its kin append a move while an act is being written; `Script.at` then reads the state at a time.
Moves have a weight, by which they share the time of the action, or a length in seconds where gravity sets the pace.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from horst.synth.render.hands import Point, Pose
from horst.synth.somethings.scene import Item, Scene, ground, magnification

Ease = Callable[[float], float]


def smooth(u: float) -> float:
    """Start and stop gently."""
    return u * u * (3.0 - 2.0 * u)


def fall(u: float) -> float:
    """Start at rest and speed up."""
    return u * u


def brake(u: float) -> float:
    """Start fast and come to rest."""
    return 1.0 - (1.0 - u) ** 2


@dataclass(frozen=True, slots=True)
class Place:
    """Where an object is: on the table at (x, depth), lifted over it, turned clockwise by `angle`."""

    x: float
    depth: float
    lift: float = 0.0
    angle: float = 0.0
    shown: bool = True


@dataclass(frozen=True, slots=True)
class Grasp:
    """The hand stays at an offset from an object's middle, in sizes of the object."""

    item: int
    dx: float
    dy: float
    behind: bool = False
    """Drawn at the object's depth, so that nearer objects hide it; otherwise above everything."""


@dataclass(frozen=True, slots=True)
class HandState:
    """The hand: where (unless it grasps), how, and how far it is turned at the wrist."""

    x: float
    y: float
    pose: Pose
    turn: float = 0.0
    grasp: Grasp | None = None


@dataclass(frozen=True, slots=True)
class State:
    """All that moves."""

    places: tuple[Place, ...]
    hand: HandState


@dataclass(frozen=True, slots=True)
class _Move:
    weight: float
    seconds: float
    at: Callable[[float], State]


class Script:
    """The moves of one clip. Acts write it: reach, grip, carry, release, leave."""

    def __init__(self, scene: Scene, rng: np.random.Generator) -> None:
        self.scene, self.rng = scene, rng
        start = scene.hand or off_stage(scene.shoulder)
        places = [Place(item.x, item.depth, item.lift, item.angle) for item in scene.items]
        places[-1] = replace(places[-1], shown=False)
        self.now = State(tuple(places), HandState(start[0], start[1], scene.pose))
        self.first = self.now
        self._moves: list[_Move] = []

    def uniform(self, low: float, high: float) -> float:
        """A random number of this act."""
        return float(self.rng.uniform(low, high))

    def item(self, index: int) -> Item:
        return self.scene.items[index]

    def place(self, index: int) -> Place:
        return self.now.places[index]

    def put(self, index: int, **changes: float | bool) -> None:
        """Change a place at once, between two moves."""
        self.now = _with(self.now, index, replace(self.now.places[index], **changes))  # type: ignore[arg-type]
        if not self._moves:
            self.first = self.now

    def wait(self, weight: float) -> None:
        """Nothing moves."""
        state = self.now
        self._moves.append(_Move(weight, 0.0, lambda u: state))

    def hand_to(self, x: float, y: float, weight: float, pose: Pose | None = None, turn: float = 0.0) -> None:
        """Move the empty hand; it takes on the pose on its way."""
        hand, state = self._free_hand(), self.now
        last = pose or hand.pose

        def at(u: float) -> State:
            e = smooth(u)
            moved = HandState(
                _mix(hand.x, x, e), _mix(hand.y, y, e), last if u > 0.55 else hand.pose, _mix(hand.turn, turn, e)
            )
            return replace(state, hand=moved)

        self._add(weight, 0.0, at)

    def reach(self, index: int, dx: float, dy: float, pose: Pose, weight: float = 0.6) -> None:
        """Bring the hand to an object, in the pose, and let it stay there from now on."""
        grasp = Grasp(index, dx, dy)
        x, y = self.contact(self.now.places[index], grasp)
        self.hand_to(x, y, weight, ("open" if _even(self.rng) else "grip") if pose == "grip" else pose)
        self.now = replace(self.now, hand=replace(self.now.hand, pose=pose, grasp=grasp))

    def grip(self, index: int, weight: float = 0.6) -> None:
        """Reach for an object and grasp it, on the side where the arm comes from."""
        x, y = self.middle(index, self.now.places[index])
        sx, sy = self.scene.shoulder
        far = math.hypot(sx - x, sy - y)
        self.reach(index, 0.22 * (sx - x) / far, 0.22 * (sy - y) / far, "grip", weight)

    def carry(
        self,
        index: int,
        weight: float,
        *,
        x: float | None = None,
        depth: float | None = None,
        lift: float | None = None,
        angle: float | None = None,
        arc: float = 0.0,
        turn: float | None = None,
        ease: Ease = smooth,
        seconds: float = 0.0,
    ) -> None:
        """Move an object (and the hand, if it holds it) to a new place, over an arc of a height on the way."""
        state = self.now
        old, hand = state.places[index], state.hand
        new = Place(
            old.x if x is None else x,
            old.depth if depth is None else depth,
            old.lift if lift is None else lift,
            old.angle if angle is None else angle,
            old.shown,
        )

        def at(u: float) -> State:
            e = ease(u)
            place = Place(
                _mix(old.x, new.x, e),
                _mix(old.depth, new.depth, e),
                _mix(old.lift, new.lift, e) + arc * math.sin(math.pi * u),
                _mix(old.angle, new.angle, e),
                old.shown,
            )
            wrist = hand.turn if turn is None else _mix(hand.turn, turn, e)
            return _with(replace(state, hand=replace(hand, turn=wrist)), index, place)

        self._add(weight, seconds, at)

    def release(self, pose: Pose | None = None) -> None:
        """Let go: the hand stays where it is (open, or as it is), the object no longer follows it."""
        hand = self._free_hand()
        self.now = replace(self.now, hand=replace(hand, pose=pose or ("open" if _even(self.rng) else hand.pose)))

    def sink(self) -> None:
        """From now on nearer objects hide the hand and what it holds."""
        hand = self.now.hand
        if hand.grasp is not None:
            self.now = replace(self.now, hand=replace(hand, grasp=replace(hand.grasp, behind=True)))

    def leave(self, weight: float = 0.8) -> None:
        """Draw the hand back out of sight."""
        x, y = off_stage(self.scene.shoulder)
        self.hand_to(x, y, weight)

    def middle(self, index: int, place: Place) -> Point:
        """The middle of an object on the screen, in scene units."""
        return on_screen(self.item(index), place)

    def contact(self, place: Place, grasp: Grasp) -> Point:
        """Where the hand of a grasp is."""
        x, y = self.middle(grasp.item, place)
        item, scale = self.item(grasp.item), magnification(place.depth)
        return x + grasp.dx * item.width * scale, y + grasp.dy * item.height * scale

    def hand_point(self, state: State) -> Point:
        """Where the hand is, holding or not."""
        grasp = state.hand.grasp
        return (state.hand.x, state.hand.y) if grasp is None else self.contact(state.places[grasp.item], grasp)

    def timeline(self, fps: float) -> list[State]:
        """The state of every frame: idle, the moves, idle."""
        scene = self.scene
        begin, end = scene.onset * scene.frames, scene.finish * scene.frames
        fixed = sum(move.seconds for move in self._moves) * fps
        # gravity gives way where a clip is too short for it
        squeeze = min(1.0, 0.6 * (end - begin) / fixed) if fixed else 1.0
        share = (end - begin - fixed * squeeze) / max(sum(move.weight for move in self._moves), 1e-6)
        stops = [begin]
        for move in self._moves:
            stops.append(stops[-1] + move.weight * share + move.seconds * fps * squeeze)
        return [self._at(float(frame), stops) for frame in range(scene.frames)]

    def _at(self, time: float, stops: list[float]) -> State:
        if time <= stops[0]:
            return self.first
        for move, start, stop in zip(self._moves, stops, stops[1:], strict=False):
            if time < stop:
                return move.at((time - start) / (stop - start))
        return self.now

    def _free_hand(self) -> HandState:
        x, y = self.hand_point(self.now)
        return replace(self.now.hand, x=x, y=y, grasp=None)

    def _add(self, weight: float, seconds: float, at: Callable[[float], State]) -> None:
        self._moves.append(_Move(weight * math.exp(self.rng.normal(0.0, 0.35)), seconds, at))
        self.now = at(1.0)


def on_screen(item: Item, place: Place) -> Point:
    """The middle of an object in its place."""
    return place.x, ground(place.depth) - place.lift - item.rise(place.angle) * magnification(place.depth)


def off_stage(shoulder: Point) -> Point:
    """A place out of sight on the way to the shoulder."""
    x, y = 0.5 - shoulder[0], 0.6 - shoulder[1]
    far = 0.32 / max(math.hypot(x, y), 1e-6)
    return shoulder[0] + x * far, shoulder[1] + y * far


def _even(rng: np.random.Generator) -> bool:
    return bool(rng.random() < 0.5)


def _mix(a: float, b: float, t: float) -> float:
    return a + (b - a) * t


def _with(state: State, index: int, place: Place) -> State:
    return replace(state, places=state.places[:index] + (place,) + state.places[index + 1 :])
