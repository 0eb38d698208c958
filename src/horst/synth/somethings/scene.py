"""The scene of a clip, sampled WITHOUT knowing the clip's template, and its animation: a chain of moves.

This keeps the first frame from revealing the class; the template only decides (in `actions`) what then happens. So
every scene holds what any template may need: something that rolls, something that covers, a thing, another one on a
shelf, and one that may be under the cover.
"""

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple, Self, get_args

import numpy as np

from horst.synth.render.hands import Pose
from horst.synth.render.raster import Point, Rng, ease
from horst.synth.render.textures import choose
from horst.synth.somethings.props import PROPS, Role, kinds

FRAMES = (22, 40)  # frames of the shortest and the longest clip
ROLLER, THING, COVER, SHELF, SECRET = range(5)
"""Positions in `TableScene.objects`. The secret is under the cover if the template needs it, otherwise it is absent."""
SHELF_Y = 0.285
_BACK, _FRONT = 0.575, 0.865
SHELF_LIFT = _BACK - SHELF_Y
PACES: dict[str, Callable[[float], float]] = {  # the part of a move that is done after a part of its time
    "ease": ease, "even": lambda u: u, "fall": lambda u: u * u, "brake": lambda u: 1.0 - (1.0 - u) ** 2,
}  # fmt: skip


def ground(depth: float) -> float:
    """The y of the table at a depth: 0 is far, 1 is near; beyond 1 is the viewer."""
    return _BACK + (_FRONT - _BACK) * depth


def magnification(depth: float) -> float:
    """The scale of an object at a depth."""
    return 1.42**depth


def table_edge(depth: float, side: int) -> float:
    """The x of the table's left (side -1) or right (side 1) edge."""
    return 0.5 + side * (0.395 + 0.07 * depth)


class Placement(NamedTuple):
    """Where an object is: on the table at (x, depth), lifted above it, rotated clockwise by `angle`."""

    x: float
    depth: float
    lift: float = 0.0
    angle: float = 0.0
    shown: bool = True

    @property
    def scale(self) -> float:
        return magnification(self.depth)


class SceneObject(NamedTuple):
    """An object and its placement in the first frame."""

    kind: str
    colour: str
    size: float
    start: Placement

    @property
    def name(self) -> str:
        """The name in the label, for example "red cup"."""
        return self.kind if self.kind == self.colour else f"{self.colour} {self.kind}"

    @property
    def width(self) -> float:
        return PROPS[self.kind].width * self.size

    @property
    def height(self) -> float:
        return PROPS[self.kind].height * self.size

    def rise(self, angle: float) -> float:
        """The height of its centre above the surface it lies on, rotated by an angle."""
        if PROPS[self.kind].role == "roller":
            return self.height / 2
        return (abs(math.cos(angle)) * self.height + abs(math.sin(angle)) * self.width) / 2

    def centre(self, place: Placement) -> Point:
        """The point of its centre in scene units."""
        return place.x, ground(place.depth) - place.lift - self.rise(place.angle) * place.scale

    def at(self, x: float, depth: float, lift: float = 0.0) -> Self:
        return self._replace(start=self.start._replace(x=x, depth=depth, lift=lift))


class Occluder(NamedTuple):
    """An out-of-focus cloth before the camera that hides the last part of the clip, or passes by."""

    start: float  # when it enters, as a fraction of the clip
    side: tuple[int, int]  # from which it enters: (-1, 0) is left, (0, 1) is bottom
    stays: bool
    centre: Point  # what it hides


class TableScene(NamedTuple):
    """Everything that does not depend on the template."""

    frames: int
    onset: float  # when the action begins, as a fraction of the clip
    finish: float  # when it ends
    objects: tuple[SceneObject, ...]
    distractors: tuple[SceneObject, ...]  # objects that nobody touches, placed as after an action
    shoulder: Point
    hand: Point | None  # where the hand is in the first frame; None if it is out of view
    pose: Pose
    occluder: Occluder | None
    seed: int  # for everything that has no part in the action: textures, clutter, camera, light


def sample_scene(seed: int) -> TableScene:
    rng = np.random.default_rng([seed, 0])
    # The onset is early, so that a quarter of a clip is informative. The speed varies, so that the fraction of the clip
    # does not tell how far the action has come.
    onset = rng.uniform(0.0, 0.06)
    finish = onset + (0.97 - onset) * rng.uniform(0.32, 0.68)
    occluder = None
    if rng.random() < 0.5:
        # the action ends shortly before it is hidden
        enters = finish + rng.uniform(-0.08, max(0.0, min(0.15, 0.85 - finish)))
        side = choose(rng, ((-1, 0), (1, 0), (0, -1), (0, 1)))
        occluder = Occluder(enters, side, rng.random() < 0.75, (rng.uniform(0.38, 0.62), rng.uniform(0.45, 0.65)))
    where = int(rng.integers(4))  # the arm comes from the right, from the left or, mostly, from below
    beside = 1.6 if where == 0 else -0.6
    shoulder = (beside, rng.uniform(0.55, 1.4)) if where < 2 else (rng.uniform(-0.1, 1.1), 1.6)
    hand = (rng.uniform(0.12, 0.88), rng.uniform(0.30, 0.85))
    frames = int(rng.integers(FRAMES[0], FRAMES[1] + 1))
    objects = _objects(rng)
    distractors = _distractors(rng, objects[SHELF].start.x)
    start = hand if rng.random() < 0.55 else None
    pose: Pose = choose(rng, get_args(Pose))
    rest = int(rng.integers(2**31))
    return TableScene(frames, onset, finish, objects, distractors, shoulder, start, pose, occluder, rest)


def _objects(rng: Rng) -> tuple[SceneObject, ...]:
    roles: list[Role] = ["roller", "thing", "cover"]
    roles += [("roller", "thing")[int(k)] for k in rng.integers(2, size=2)]
    # three lanes in depth, so that a pushed object passes before or behind the others
    lanes = rng.permutation(np.asarray([0.12, 0.5, 0.88])) + rng.uniform(-0.07, 0.07, size=3)
    xs = _spread(rng)
    objects: list[SceneObject] = []
    for index, role in enumerate(roles):
        thing = _object(rng, role, (0.92, 1.1), objects)
        shelf_x = rng.uniform(0.22, 0.78)
        if index == SHELF:
            thing = thing.at(shelf_x, 0.0, SHELF_LIFT)
        elif index == SECRET:
            cover = objects[COVER].start
            thing = thing._replace(size=min(thing.size, 1.0), start=Placement(cover.x, cover.depth - 0.02))
        else:
            thing = thing.at(xs[index], float(lanes[index]))
        objects.append(thing)
    return tuple(objects)


def _object(rng: Rng, role: Role, sizes: tuple[float, float], others: Sequence[SceneObject] = ()) -> SceneObject:
    """A random object, not yet in its place. Its kind and, as long as the prop allows it, its colour are new."""
    kind = str(rng.choice([name for name in kinds(role) if name not in {o.kind for o in others}]))
    colours, used = PROPS[kind].colours, {o.colour for o in others}
    colour = str(rng.choice([c for c in colours if c not in used] or list(colours)))
    size, angle = rng.uniform(*sizes), 0.0
    # rollers are slightly rotated; things stand, lie on a side or on their head; covers stand
    if role == "roller":
        angle = rng.uniform(-0.6, 0.6)
    elif role == "thing" and rng.random() >= 0.55:
        angle = float(rng.choice([-0.5, 0.5, 1.0])) * math.pi
    return SceneObject(kind, colour, size, Placement(0.0, 0.0, angle=angle))


def _distractors(rng: Rng, shelf_x: float) -> tuple[SceneObject, ...]:
    """One or two: at an edge of the table, close to the camera, on top of another, on the shelf."""
    found: list[SceneObject] = []

    def add(x: float, depth: float, lift: float = 0.0) -> None:
        found.append(_object(rng, "roller" if rng.random() < 0.4 else "thing", (0.8, 1.1)).at(x, depth, lift))

    for _ in range(int(rng.integers(1, 3))):
        side = 1 if rng.random() < 0.5 else -1
        where = int(rng.integers(4))
        if where == 0:
            depth = rng.uniform(-0.05, 1.0)
            add(table_edge(depth, side) - side * rng.uniform(-0.01, 0.05), depth)
        elif where == 1:
            add(0.5 + side * rng.uniform(0.3, 0.45), rng.uniform(1.2, 1.5), 0.04)
        elif where == 2:
            add(rng.uniform(0.2, 0.8), -0.1)
            base = found[-1]
            add(base.start.x, -0.09, 1.9 * base.rise(base.start.angle) * base.start.scale)
        else:
            add(shelf_x + (0.2 if shelf_x < 0.5 else -0.2), 0.0, SHELF_LIFT)
    return tuple(found)


def _spread(rng: Rng) -> list[float]:
    """Three x with some room between, in any order; the first leaves room to roll either way."""
    while True:
        xs = rng.uniform(0.18, 0.82, size=3)
        clear = min(abs(xs[0] - xs[1]) - 0.17, abs(xs[COVER] - xs[0]) - 0.23, abs(xs[COVER] - xs[1]) - 0.23)
        if clear > 0.0 and 0.27 < xs[0] < 0.73:
            return [float(x) for x in xs]


class HandState(NamedTuple):
    """The hand. With a `target` it holds an object: (x, y) is then its offset from the centre, in object sizes."""

    x: float
    y: float
    pose: Pose
    turn: float = 0.0  # rotation at the wrist
    target: int | None = None
    behind: bool = False  # at the target's depth, so that nearer objects hide it; otherwise in front of everything


class SceneState(NamedTuple):
    """Everything that moves."""

    places: tuple[Placement, ...]
    hand: HandState

    def place(self, index: int, place: Placement) -> Self:
        """The state with one object in another place."""
        return self._replace(places=(*self.places[:index], place, *self.places[index + 1 :]))


class Animation:
    """The moves of one clip: reach, grip, carry, release, leave.

    Moves share the time of the action by their weights, except those that gravity paces: they have a length in seconds.
    """

    def __init__(self, scene: TableScene, rng: Rng) -> None:
        self.scene, self.objects, self.rng, self.uniform = scene, scene.objects, rng, rng.uniform
        start = scene.hand or off_screen(scene.shoulder)
        places = tuple(thing.start._replace(shown=index != SECRET) for index, thing in enumerate(scene.objects))
        self.now = SceneState(places, HandState(*start, scene.pose))
        self._moves: list[tuple[float, float, Callable[[float], SceneState]]] = []  # weight, seconds, state at u
        self.named: tuple[int, ...] = ()  # the objects in the label, in the order of the template

    def chance(self, probability: float) -> bool:
        return self.uniform(0.0, 1.0) < probability

    def pick_named(self, options: Sequence[int]) -> int:
        self.named = (choose(self.rng, options),)
        return self.named[0]

    def place(self, index: int) -> Placement:
        return self.now.places[index]

    def show(self, index: int, shown: bool) -> None:
        """Show or hide an object from now on."""
        self.now = self.now.place(index, self.place(index)._replace(shown=shown))

    def wait(self, weight: float) -> None:
        state = self.now
        self._moves.append((weight, 0.0, lambda u: state))

    def hand_to(self, x: float, y: float, weight: float, pose: Pose | None = None) -> None:
        """Move the empty hand; it takes on the pose on its way."""
        hand, state = self._free_hand(), self.now
        last = pose or hand.pose

        def at(u: float) -> SceneState:
            e, current = ease(u), last if u > 0.55 else hand.pose
            moved = HandState(_mix(hand.x, x, e), _mix(hand.y, y, e), current, _mix(hand.turn, 0.0, e))
            return state._replace(hand=moved)

        self._add(weight, 0.0, at)

    def reach(self, index: int, dx: float, dy: float, pose: Pose, weight: float = 0.6) -> None:
        """Move the hand to an object, which it follows from then on."""
        hand = HandState(dx, dy, pose, target=index)
        x, y = self.hand_point(self.now._replace(hand=hand))
        self.hand_to(x, y, weight, ("open" if self.chance(0.5) else "grip") if pose == "grip" else pose)
        self.now = self.now._replace(hand=hand)

    def grip(self, index: int, weight: float = 0.6) -> None:
        """Reach for an object and grasp it, on the side of the arm."""
        x, y = self.objects[index].centre(self.place(index))
        sx, sy = self.scene.shoulder
        far = math.hypot(sx - x, sy - y)
        self.reach(index, 0.22 * (sx - x) / far, 0.22 * (sy - y) / far, "grip", weight)

    def carry(
        self, index: int, weight: float, *, arc: float = 0.0, pace: str = "ease", seconds: float = 0.0, **target: float
    ) -> None:
        """Move an object, and the hand that holds it, over an arc of a height.

        The target are fields of `Placement`, and `turn` of the hand.
        """
        state = self.now
        old, hand = state.places[index], state.hand
        turn = target.pop("turn", hand.turn)
        new = old._replace(**target)  # type: ignore[arg-type]

        def at(u: float) -> SceneState:
            e = PACES[pace](u)
            x, depth, lift, angle = (_mix(a, b, e) for a, b in zip(old[:4], new[:4], strict=True))
            place = Placement(x, depth, lift + arc * math.sin(math.pi * u), angle, old.shown)
            return state._replace(hand=hand._replace(turn=_mix(hand.turn, turn, e))).place(index, place)

        self._add(weight, seconds, at)

    def release(self, pose: Pose | None = None) -> None:
        """Let go: the hand stays where it is, and the object no longer follows it."""
        hand = self._free_hand()
        self.now = self.now._replace(hand=hand._replace(pose=pose or ("open" if self.chance(0.5) else hand.pose)))

    def leave(self, weight: float = 0.8) -> None:
        self.hand_to(*off_screen(self.scene.shoulder), weight)

    def hand_point(self, state: SceneState) -> Point:
        """Where the hand is, holding an object or not."""
        hand = state.hand
        if hand.target is None:
            return hand.x, hand.y
        thing, place = self.objects[hand.target], state.places[hand.target]
        x, y = thing.centre(place)
        return x + hand.x * thing.width * place.scale, y + hand.y * thing.height * place.scale

    def timeline(self, fps: float) -> list[SceneState]:
        """The state in every frame: still, the moves, still."""
        scene = self.scene
        begin, end = scene.onset * scene.frames, scene.finish * scene.frames
        fixed = sum(seconds for _, seconds, _ in self._moves) * fps
        # falls are faster where a clip is too short for gravity
        squeeze = min(1.0, 0.6 * (end - begin) / fixed) if fixed else 1.0
        share = (end - begin - fixed * squeeze) / max(sum(weight for weight, _, _ in self._moves), 1e-6)
        stops = [begin]
        for weight, seconds, _ in self._moves:
            stops.append(stops[-1] + weight * share + seconds * fps * squeeze)
        spans = [(at, *span) for (_, _, at), span in zip(self._moves, pairwise(stops), strict=True)]
        return [
            next((at(max((time - start) / (stop - start), 0.0)) for at, start, stop in spans if time < stop), self.now)
            for time in range(scene.frames)
        ]

    def _free_hand(self) -> HandState:
        x, y = self.hand_point(self.now)
        return self.now.hand._replace(x=x, y=y, target=None, behind=False)

    def _add(self, weight: float, seconds: float, at: Callable[[float], SceneState]) -> None:
        self._moves.append((weight * math.exp(self.rng.normal(0.0, 0.35)), seconds, at))
        self.now = at(1.0)


def off_screen(shoulder: Point) -> Point:
    """A point out of view on the way to the shoulder."""
    x, y = 0.5 - shoulder[0], 0.6 - shoulder[1]
    far = 0.32 / max(math.hypot(x, y), 1e-6)
    return shoulder[0] + x * far, shoulder[1] + y * far


def _mix(a: float, b: float, t: float) -> float:
    return a + (b - a) * t
