"""A hand on a forearm with a sleeve, in a few poses. The arm leaves the picture at a shoulder, so it always looks held.

In the easel the fingers point up (towards -y) and the arm hangs down; a pose has two layers, so that a gripped object
is drawn between the palm and the thumb: `back`, then the object, then `front`. Both have their pivot at the point of
contact.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from horst.synth.render.raster import RGB, Canvas, Plane, Sprite
from horst.synth.render.shapes import Easel
from horst.synth.render.textures import COLOURS, COVERS, Colour, shade, vary

Pose = Literal["open", "grip", "point"]
Point = tuple[float, float]

SKINS: tuple[Colour, ...] = (
    (0.95, 0.78, 0.67),
    (0.89, 0.69, 0.55),
    (0.78, 0.57, 0.42),
    (0.62, 0.43, 0.31),
    (0.45, 0.30, 0.22),
    (0.33, 0.22, 0.17),
)
_LENGTH = 1.5
_HAND = 0.48
# base, tip and radius of the four fingers by pose, little finger on the right; the palm's middle is (0, 0.09)
_FINGERS: dict[Pose, tuple[tuple[Point, Point, float], ...]] = {
    "open": (
        ((0.036, 0.060), (0.066, -0.010), 0.0115),
        ((0.016, 0.045), (0.031, -0.042), 0.0135),
        ((-0.007, 0.042), (-0.005, -0.050), 0.0140),
        ((-0.030, 0.050), (-0.042, -0.034), 0.0135),
    ),
    "grip": (
        ((0.040, 0.062), (0.060, 0.012), 0.0125),
        ((0.022, 0.048), (0.050, -0.022), 0.0140),
        ((0.002, 0.044), (0.026, -0.040), 0.0145),
        ((-0.020, 0.050), (0.000, -0.036), 0.0140),
    ),
    "point": (
        ((0.036, 0.062), (0.046, 0.040), 0.0150),
        ((0.017, 0.050), (0.024, 0.024), 0.0160),
        ((-0.004, 0.048), (-0.001, 0.020), 0.0160),
        ((-0.027, 0.050), (-0.022, -0.046), 0.0140),
    ),
}
_THUMBS: dict[Pose, tuple[Point, Point]] = {
    "open": ((-0.040, 0.100), (-0.082, 0.036)),
    "grip": ((-0.040, 0.095), (-0.050, 0.010)),
    "point": ((-0.038, 0.095), (-0.014, 0.050)),
}


@dataclass(frozen=True, slots=True, eq=False)
class Hand:
    """The layers of a hand by pose."""

    back: dict[Pose, Sprite]
    front: dict[Pose, Sprite]

    def draw(
        self,
        canvas: Canvas,
        layer: Literal["back", "front"],
        pose: Pose,
        x: float,
        y: float,
        angle: float,
        scale: float,
    ) -> None:
        """Draw a layer with the point of contact at (x, y); at angle 0 the fingers point up."""
        canvas.draw((self.back if layer == "back" else self.front)[pose], x, y, angle=angle, scale=scale)


def reach_angle(hand: Point, shoulder: Point) -> float:
    """The angle at which the arm of a hand points back to its shoulder."""
    return math.atan2(hand[0] - shoulder[0], shoulder[1] - hand[1])


def make_hand(
    rng: np.random.Generator,
    texels: float,
    *,
    skin: Colour | None = None,
    sleeve: Colour | None = None,
    left: bool | None = None,
    size: float = 1.0,
) -> Hand:
    """A hand; whatever is not given is drawn at random: skin, sleeve, which of the two hands."""
    skin = skin or vary(rng, SKINS[int(rng.integers(len(SKINS)))], 0.02)
    sleeve = sleeve or vary(rng, list(COLOURS.values())[int(rng.integers(len(COLOURS)))], 0.05)
    left = bool(rng.random() < 0.5) if left is None else left
    arm = _Arm(size, texels, mirrored=left, length=_LENGTH)
    texture = COVERS[int(rng.integers(len(COVERS)))](rng, 2 * arm.w, arm.w, sleeve)
    arm.sleeve(texture, sleeve, cuff=float(rng.uniform(0.20, 0.34)))
    back: dict[Pose, Sprite] = {}
    front: dict[Pose, Sprite] = {}
    for pose in _FINGERS:
        # only the upper end differs by pose: paint that, and lay the one sleeve over it
        hand = _Arm(size, texels, mirrored=left, length=_HAND)
        hand.hand(skin, pose)
        back[pose] = arm.over(hand).sprite(pivot=(0.0, arm.top))
        over = _Arm(size, texels, mirrored=left, length=_HAND)
        if pose == "grip":
            over.thumb(skin, pose)
        front[pose] = over.sprite(pivot=(0.0, over.top))
    return Hand(back, front)


class _Arm(Easel):
    """An easel whose shapes are given with the point of contact at (0, 0), mirrored for a left hand."""

    def __init__(self, size: float, texels: float, *, mirrored: bool, length: float) -> None:
        super().__init__(0.24 * size, length * size, texels)
        self.size, self.side = size, -1.0 if mirrored else 1.0
        # the fingers reach 0.08 above the point of contact
        self.top = -self.h / 2 / texels + 0.08 * size

    def at(self, point: Point) -> Point:
        return point[0] * self.size * self.side, point[1] * self.size + self.top

    def over(self, hand: _Arm) -> _Arm:
        """A copy of this sleeve with a hand coming out of it."""
        joined = copy.copy(self)
        joined.rgba = self.rgba.copy()
        end = joined.rgba[: hand.h]
        end += hand.rgba * (1.0 - end[..., 3:])
        return joined

    def sleeve(self, texture: RGB, colour: Colour, cuff: float) -> None:
        start = self.at((0.0, cuff))
        whole = self.capsule(self.at((0.0, 0.1)), self.at((0.0, _LENGTH + 0.1)), 0.047 * self.size, 0.088 * self.size)
        # the cuff is a ring seen from a little above
        bend = start[1] - 0.012 * self.size * np.sqrt(np.maximum(1.0 - (self.x / (0.056 * self.size)) ** 2, 0.0))
        shape = np.maximum(whole, bend - self.y).astype(np.float32)
        light = self.relief(whole, 0.06 * self.size)[0]
        folds = 1.0 - 0.07 * np.sin(self.y * 55.0 / self.size + 30.0 * self.x)
        tall = np.concatenate([texture, texture[::-1]] * (self.h // (2 * len(texture)) + 1))
        self.fill(shape, tall[: self.h], (light * folds).astype(np.float32))
        self.fill(np.maximum(shape, self.y - bend - 0.022 * self.size).astype(np.float32), shade(colour, 0.75), light)

    def hand(self, skin: Colour, pose: Pose) -> None:
        size = self.size
        ball = self.capsule(self.at((0.002, 0.10)), self.at((0.0, 0.16)), 0.040 * size, 0.030 * size)
        wrist = _joined(
            ball, self.capsule(self.at((0.0, 0.15)), self.at((0.0, 0.6)), 0.030 * size, 0.045 * size), 0.03 * size
        )
        knuckles = self.capsule(self.at((-0.020, 0.074)), self.at((0.024, 0.080)), 0.027 * size, 0.025 * size)
        shape = _joined(wrist, knuckles, 0.02 * size)
        digits = [self._digit(base, tip, radius * size) for base, tip, radius in _FINGERS[pose]]
        if pose == "open":
            digits.append(self._digit(*_THUMBS[pose], 0.0155 * size))
        if pose == "point":
            # bent fingers lie on the palm, the straight one grows out of it
            shape = _joined(shape, digits.pop(), 0.012 * size)
            self.solid(shape, skin, 0.024 * size, 0.05)
            for digit in digits:
                self._over(digit, skin)
            self.thumb(skin, pose)
        else:
            bones = np.min(np.stack(digits), axis=0)
            self.solid(_joined(shape, bones, 0.014 * size), skin, 0.021 * size, 0.05)
        self._nails(skin, pose)

    def thumb(self, skin: Colour, pose: Pose) -> None:
        self._over(self._digit(*_THUMBS[pose], 0.0155 * self.size), skin)

    def _over(self, digit: Plane, skin: Colour) -> None:
        # a dark rim parts a digit from the skin under it
        self.fill(digit - np.float32(0.002 * self.size), shade(skin, 0.7), 1.0, 0.5)
        self.solid(digit, skin, 0.016 * self.size, 0.06)

    def _digit(self, base: Point, tip: Point, radius: float) -> Plane:
        return self.capsule(self.at(base), self.at(tip), 1.1 * radius, 0.86 * radius)

    def _nails(self, skin: Colour, pose: Pose) -> None:
        for _, tip, radius in _FINGERS[pose] if pose == "open" else _FINGERS[pose][3:]:
            x, y = self.at((tip[0], tip[1] - 0.1 * radius))
            r = radius * self.size
            self.fill(self.ellipse(x, y, 0.45 * r, 0.6 * r), shade(skin, 1.22), 1.0, 0.7)


def _joined(a: Plane, b: Plane, width: float) -> Plane:
    """The union of two shapes, with a fillet where they meet."""
    h = np.maximum(width - np.abs(a - b), 0.0) / width
    return (np.minimum(a, b) - h * h * np.float32(width / 4)).astype(np.float32)
