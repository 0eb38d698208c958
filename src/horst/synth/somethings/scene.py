"""What is there before anything happens: a scene drawn at random WITHOUT knowing the template of the clip.

That is what keeps the first frame from telling the class: objects, places, hand, length, background, camera and
occluder come from here; the template only decides (in somethings_acts) what is then done with them. So every scene
holds what any template may need: something that rolls, something that covers, a thing, another one on a shelf, and
one that may or may not lie under the cover.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from horst.synth.render.hands import Pose
from horst.synth.somethings.props import KINDS, Role, names

FRAMES = (22, 40)
"""The shortest and the longest clip."""
ROLLER, THING, COVER, SHELF, SECRET = range(5)
"""Places in `Scene.items`. The secret is under the cover, if the template says so, and nowhere otherwise."""
SHELF_Y = 0.285
_BACK, _FRONT = 0.575, 0.865

Side = Literal["left", "right", "top", "bottom"]


def ground(depth: float) -> float:
    """The y of the table at a depth: 0 is far, 1 is near; beyond that lies the viewer."""
    return _BACK + (_FRONT - _BACK) * depth


def magnification(depth: float) -> float:
    """How large things look at a depth."""
    return 1.0 * 1.42**depth


def table_edge(depth: float, side: int) -> float:
    """The x where the table ends on the left (side -1) or on the right (side 1)."""
    return 0.5 + side * (0.395 + 0.07 * depth)


@dataclass(frozen=True, slots=True)
class Item:
    """An object and where it stands: x of its middle, depth on the table, height over it, how it lies."""

    kind: str
    colour: str
    size: float
    x: float
    depth: float
    lift: float = 0.0
    angle: float = 0.0

    @property
    def name(self) -> str:
        """What a person would call it."""
        return self.kind if self.kind == self.colour else f"{self.colour} {self.kind}"

    @property
    def width(self) -> float:
        return KINDS[self.kind].width * self.size

    @property
    def height(self) -> float:
        return KINDS[self.kind].height * self.size

    def rise(self, angle: float) -> float:
        """How high its middle is over what it lies on, when turned by an angle."""
        if KINDS[self.kind].role == "roller":
            return self.height / 2
        return (abs(math.cos(angle)) * self.height + abs(math.sin(angle)) * self.width) / 2


@dataclass(frozen=True, slots=True)
class Occluder:
    """Something out of focus before the camera that hides the late part of the clip, or passes by."""

    start: float
    """When it comes in, as a fraction of the clip."""
    side: Side
    stays: bool
    middle: tuple[float, float]
    """What it hides while it is there."""


@dataclass(frozen=True, slots=True)
class Scene:
    """All that does not depend on the template."""

    frames: int
    onset: float
    """When the action begins, as a fraction of the clip."""
    finish: float
    """When it is over."""
    items: tuple[Item, ...]
    decoys: tuple[Item, ...]
    """Objects that nobody touches, lying as if something had been done with them: on an edge, on another, close by."""
    shoulder: tuple[float, float]
    hand: tuple[float, float] | None
    """Where the hand is in the first frame, or None where it is still out of sight."""
    pose: Pose
    occluder: Occluder | None
    seed: int
    """Of all that is only seen and never acted on: textures, clutter, camera, light, distractor."""


def sample_scene(seed: int) -> Scene:
    """The scene of a clip's seed."""
    rng = np.random.default_rng([seed, 0])
    # Soon after the start, so that a quarter of a clip tells something; fast or slow, so that at no fraction of it one
    # can know how far the action has come.
    onset = float(rng.uniform(0.0, 0.06))
    finish = onset + (0.97 - onset) * float(rng.uniform(0.32, 0.68))
    occluder = _occluder(rng, finish) if rng.random() < 0.5 else None
    shoulder = _shoulder(rng)
    place = (float(rng.uniform(0.12, 0.88)), float(rng.uniform(0.30, 0.85)))
    poses: tuple[Pose, ...] = ("open", "grip", "point")
    return Scene(
        frames=int(rng.integers(FRAMES[0], FRAMES[1] + 1)),
        onset=onset,
        finish=finish,
        items=(items := _items(rng)),
        decoys=_decoys(rng, items),
        shoulder=shoulder,
        hand=place if rng.random() < 0.55 else None,
        pose=poses[int(rng.integers(3))],
        occluder=occluder,
        seed=int(rng.integers(2**31)),
    )


def _items(rng: np.random.Generator) -> tuple[Item, ...]:
    used: set[str] = set()
    anything: tuple[Role, ...] = ("roller", "thing")
    roles: tuple[Role, ...] = ("roller", "thing", "cover", *(anything[int(k)] for k in rng.integers(2, size=2)))
    # three lanes in depth, so that what is pushed passes before or behind the others
    lanes = rng.permutation(np.asarray([0.12, 0.5, 0.88])) + rng.uniform(-0.07, 0.07, size=3)
    xs = _spread(rng)
    items: list[Item] = []
    taken: set[str] = set()
    for index, role in enumerate(roles):
        kind = str(rng.choice([name for name in names(role) if name not in taken]))
        taken.add(kind)
        # no two alike in colour, as long as the kind leaves a choice
        colour = str(rng.choice([c for c in KINDS[kind].colours if c not in used] or list(KINDS[kind].colours)))
        used.add(colour)
        size = float(rng.uniform(0.92, 1.1))
        angle = _lie(rng, role)
        x, shelf_x = float(xs[index % 3]), float(rng.uniform(0.22, 0.78))
        if index == SHELF:
            items.append(Item(kind, colour, size, shelf_x, 0.0, ground(0.0) - SHELF_Y, angle))
        elif index == SECRET:
            items.append(Item(kind, colour, min(size, 1.0), items[COVER].x, items[COVER].depth - 0.02))
        else:
            items.append(Item(kind, colour, size, x, float(lanes[index]), 0.0, angle))
    return tuple(items)


def _lie(rng: np.random.Generator, role: Role) -> float:
    """Round things lie a little askew, others stand, or lie on a side or on their head; covers stand."""
    if role == "roller":
        return float(rng.uniform(-0.6, 0.6))
    if role == "cover" or rng.random() < 0.55:
        return 0.0
    return float(rng.choice([-0.5, 0.5, 1.0])) * math.pi


def _decoys(rng: np.random.Generator, items: tuple[Item, ...]) -> tuple[Item, ...]:
    """One or two more, as after an action: about to fall, close to the camera, on top of another, on the shelf."""
    found: list[Item] = []
    for _ in range(int(rng.integers(1, 3))):
        side = 1 if rng.random() < 0.5 else -1
        where = int(rng.integers(4))
        if where == 0:
            depth = float(rng.uniform(-0.05, 1.0))
            found.append(_decoy(rng, table_edge(depth, side) - side * float(rng.uniform(-0.01, 0.05)), depth))
        elif where == 1:
            found.append(_decoy(rng, 0.5 + side * float(rng.uniform(0.3, 0.45)), float(rng.uniform(1.2, 1.5)), 0.04))
        elif where == 2:
            base = _decoy(rng, float(rng.uniform(0.2, 0.8)), -0.1)
            found.append(base)
            found.append(_decoy(rng, base.x, -0.09, 1.9 * base.rise(base.angle) * magnification(base.depth)))
        else:
            x = items[SHELF].x + (0.2 if items[SHELF].x < 0.5 else -0.2)
            found.append(_decoy(rng, x, 0.0, ground(0.0) - SHELF_Y))
    return tuple(found)


def _decoy(rng: np.random.Generator, x: float, depth: float, lift: float = 0.0) -> Item:
    role: Role = "roller" if rng.random() < 0.4 else "thing"
    kind = str(rng.choice(names(role)))
    colour = str(rng.choice(list(KINDS[kind].colours)))
    return Item(kind, colour, float(rng.uniform(0.8, 1.1)), x, depth, lift, _lie(rng, role))


def _spread(rng: np.random.Generator) -> list[float]:
    """Three places along the table with some room between, in any order; the first leaves room to roll either way."""
    while True:
        xs = rng.uniform(0.18, 0.82, size=3)
        clear = min(abs(xs[0] - xs[1]) - 0.17, abs(xs[COVER] - xs[0]) - 0.23, abs(xs[COVER] - xs[1]) - 0.23)
        if clear > 0.0 and 0.27 < xs[0] < 0.73:
            return [float(x) for x in xs]


def _shoulder(rng: np.random.Generator) -> tuple[float, float]:
    where = int(rng.integers(4))
    if where < 2:
        return (-0.6 if where else 1.6), float(rng.uniform(0.55, 1.4))
    return float(rng.uniform(-0.1, 1.1)), 1.6


def _occluder(rng: np.random.Generator, finish: float) -> Occluder:
    sides: tuple[Side, ...] = ("left", "right", "top", "bottom")
    return Occluder(
        # what happens has happened before it is hidden, if only just
        start=finish + float(rng.uniform(-0.08, max(0.0, min(0.15, 0.85 - finish)))),
        side=sides[int(rng.integers(4))],
        stays=bool(rng.random() < 0.75),
        middle=(float(rng.uniform(0.38, 0.62)), float(rng.uniform(0.45, 0.65))),
    )
