"""The motion of a clip: a chain of moves, each starting where the last one ended.

Actions append moves to an `Animation`; `Animation.timeline` then gives the state in every frame. Moves share the time
of the action by their weights, except those that gravity paces: they have a length in seconds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from horst.synth.render.hands import Pose
from horst.synth.render.shapes import Point
from horst.synth.render.textures import Rng, choose
from horst.synth.somethings.scene import Placement, SceneObject, TableScene, magnification

Ease = Callable[[float], float]


def smooth(u: float) -> float:
    """Ease in and out."""
    return u * u * (3.0 - 2.0 * u)


def fall(u: float) -> float:
    """Start at rest and accelerate."""
    return u * u


def brake(u: float) -> float:
    """Start fast and come to rest."""
    return 1.0 - (1.0 - u) ** 2


@dataclass(frozen=True, slots=True)
class Grasp:
    """The hand keeps an offset from an object's centre, in sizes of the object."""

    target: int
    dx: float
    dy: float
    behind: bool = False
    """Drawn at the object's depth, so that nearer objects hide it; otherwise in front of everything."""


@dataclass(frozen=True, slots=True)
class HandState:
    """The hand: its point (unless it grasps), its pose, and its rotation at the wrist."""

    x: float
    y: float
    pose: Pose
    turn: float = 0.0
    grasp: Grasp | None = None


@dataclass(frozen=True, slots=True)
class SceneState:
    """Everything that moves."""

    places: tuple[Placement, ...]
    hand: HandState

    def place(self, index: int, place: Placement) -> SceneState:
        """The state with one object in another place."""
        return replace(self, places=self.places[:index] + (place,) + self.places[index + 1 :])


@dataclass(frozen=True, slots=True)
class _Move:
    weight: float
    seconds: float
    at: Callable[[float], SceneState]


class Animation:
    """The moves of one clip: reach, grip, carry, release, leave."""

    def __init__(self, scene: TableScene, rng: Rng) -> None:
        self.scene, self.rng = scene, rng
        start = scene.hand or off_screen(scene.shoulder)
        places = [thing.start for thing in scene.objects]
        places[-1] = replace(places[-1], shown=False)
        self.now = SceneState(tuple(places), HandState(start[0], start[1], scene.pose))
        self.first = self.now
        self._moves: list[_Move] = []

    def uniform(self, low: float, high: float) -> float:
        return float(self.rng.uniform(low, high))

    def chance(self, probability: float) -> bool:
        return self.uniform(0.0, 1.0) < probability

    def pick(self, options: Sequence[int]) -> int:
        return choose(self.rng, options)

    def object(self, index: int) -> SceneObject:
        return self.scene.objects[index]

    def place(self, index: int) -> Placement:
        return self.now.places[index]

    def show(self, index: int, shown: bool) -> None:
        """Show or hide an object from now on."""
        self.now = self.now.place(index, replace(self.place(index), shown=shown))
        if not self._moves:
            self.first = self.now

    def wait(self, weight: float) -> None:
        state = self.now
        self._moves.append(_Move(weight, 0.0, lambda u: state))

    def hand_to(self, x: float, y: float, weight: float, pose: Pose | None = None) -> None:
        """Move the empty hand; it takes on the pose on its way."""
        hand, state = self._free_hand(), self.now
        last = pose or hand.pose

        def at(u: float) -> SceneState:
            e = smooth(u)
            current = last if u > 0.55 else hand.pose
            return replace(
                state, hand=HandState(_mix(hand.x, x, e), _mix(hand.y, y, e), current, _mix(hand.turn, 0.0, e))
            )

        self._add(weight, 0.0, at)

    def reach(self, index: int, dx: float, dy: float, pose: Pose, weight: float = 0.6) -> None:
        """Move the hand to an object, which it follows from then on."""
        grasp = Grasp(index, dx, dy)
        x, y = self._contact(self.place(index), grasp)
        self.hand_to(x, y, weight, ("open" if self.chance(0.5) else "grip") if pose == "grip" else pose)
        self.now = replace(self.now, hand=replace(self.now.hand, pose=pose, grasp=grasp))

    def grip(self, index: int, weight: float = 0.6) -> None:
        """Reach for an object and grasp it, on the side of the arm."""
        x, y = self.object(index).centre(self.place(index))
        sx, sy = self.scene.shoulder
        far = math.hypot(sx - x, sy - y)
        self.reach(index, 0.22 * (sx - x) / far, 0.22 * (sy - y) / far, "grip", weight)

    def carry(
        self,
        index: int,
        weight: float,
        *,
        arc: float = 0.0,
        turn: float | None = None,
        ease: Ease = smooth,
        seconds: float = 0.0,
        **target: float,
    ) -> None:
        """Move an object (and the hand that holds it) to target fields of `Placement`, over an arc of a height."""
        state = self.now
        old, hand = state.places[index], state.hand
        new = replace(old, **target)  # type: ignore[arg-type]

        def at(u: float) -> SceneState:
            e = ease(u)
            place = Placement(
                _mix(old.x, new.x, e),
                _mix(old.depth, new.depth, e),
                _mix(old.lift, new.lift, e) + arc * math.sin(math.pi * u),
                _mix(old.angle, new.angle, e),
                old.shown,
            )
            wrist = hand.turn if turn is None else _mix(hand.turn, turn, e)
            return replace(state, hand=replace(hand, turn=wrist)).place(index, place)

        self._add(weight, seconds, at)

    def release(self, pose: Pose | None = None) -> None:
        """Let go: the hand stays where it is, and the object no longer follows it."""
        hand = self._free_hand()
        self.now = replace(self.now, hand=replace(hand, pose=pose or ("open" if self.chance(0.5) else hand.pose)))

    def move_behind(self) -> None:
        """From now on nearer objects hide the hand and what it holds."""
        hand = self.now.hand
        if hand.grasp is not None:
            self.now = replace(self.now, hand=replace(hand, grasp=replace(hand.grasp, behind=True)))

    def leave(self, weight: float = 0.8) -> None:
        """Move the hand out of view."""
        self.hand_to(*off_screen(self.scene.shoulder), weight)

    def hand_point(self, state: SceneState) -> Point:
        """Where the hand is, holding an object or not."""
        grasp = state.hand.grasp
        return (state.hand.x, state.hand.y) if grasp is None else self._contact(state.places[grasp.target], grasp)

    def timeline(self, fps: float) -> list[SceneState]:
        """The state in every frame: still, the moves, still."""
        scene = self.scene
        begin, end = scene.onset * scene.frames, scene.finish * scene.frames
        fixed = sum(move.seconds for move in self._moves) * fps
        # falls are faster where a clip is too short for gravity
        squeeze = min(1.0, 0.6 * (end - begin) / fixed) if fixed else 1.0
        share = (end - begin - fixed * squeeze) / max(sum(move.weight for move in self._moves), 1e-6)
        stops = [begin]
        for move in self._moves:
            stops.append(stops[-1] + move.weight * share + move.seconds * fps * squeeze)
        return [self._at(float(frame), stops) for frame in range(scene.frames)]

    def _at(self, time: float, stops: list[float]) -> SceneState:
        if time <= stops[0]:
            return self.first
        for move, start, stop in zip(self._moves, stops, stops[1:], strict=False):
            if time < stop:
                return move.at((time - start) / (stop - start))
        return self.now

    def _contact(self, place: Placement, grasp: Grasp) -> Point:
        """The point of a hand that grasps an object at a place."""
        thing, scale = self.object(grasp.target), magnification(place.depth)
        x, y = thing.centre(place)
        return x + grasp.dx * thing.width * scale, y + grasp.dy * thing.height * scale

    def _free_hand(self) -> HandState:
        x, y = self.hand_point(self.now)
        return replace(self.now.hand, x=x, y=y, grasp=None)

    def _add(self, weight: float, seconds: float, at: Callable[[float], SceneState]) -> None:
        self._moves.append(_Move(weight * math.exp(self.rng.normal(0.0, 0.35)), seconds, at))
        self.now = at(1.0)


def off_screen(shoulder: Point) -> Point:
    """A point out of view on the way to the shoulder."""
    x, y = 0.5 - shoulder[0], 0.6 - shoulder[1]
    far = 0.32 / max(math.hypot(x, y), 1e-6)
    return shoulder[0] + x * far, shoulder[1] + y * far


def _mix(a: float, b: float, t: float) -> float:
    return a + (b - a) * t
