"""A hand on a forearm with a sleeve, in a few poses.

On the canvas the fingers point up (towards -y) and the arm hangs down. A pose has two layers, so that a gripped object
is drawn between the palm and the thumb: `back`, then the object, then `front`. Their pivot is the point of contact.
"""

import math
from typing import Literal, NamedTuple

import numpy as np

from horst.synth.render.raster import RGB, Colour, Plane, Point, Rng, ShapeCanvas, Sprite
from horst.synth.render.textures import choose, choose_colour, choose_texture, shade, vary

Pose = Literal["open", "grip", "point"]

SKINS: tuple[Colour, ...] = (
    (0.95, 0.78, 0.67), (0.89, 0.69, 0.55), (0.78, 0.57, 0.42), (0.62, 0.43, 0.31), (0.45, 0.30, 0.22),
    (0.33, 0.22, 0.17),
)  # fmt: skip
_LENGTH = 1.5
_HAND = 0.48
# base, tip and radius of the four fingers by pose, little finger on the right; the palm's middle is (0, 0.09)
_FINGERS: dict[Pose, tuple[tuple[Point, Point, float], ...]] = {
    "open": (
        ((0.036, 0.060), (0.066, -0.010), 0.0115), ((0.016, 0.045), (0.031, -0.042), 0.0135),
        ((-0.007, 0.042), (-0.005, -0.050), 0.0140), ((-0.030, 0.050), (-0.042, -0.034), 0.0135),
    ),
    "grip": (
        ((0.040, 0.062), (0.060, 0.012), 0.0125), ((0.022, 0.048), (0.050, -0.022), 0.0140),
        ((0.002, 0.044), (0.026, -0.040), 0.0145), ((-0.020, 0.050), (0.000, -0.036), 0.0140),
    ),
    "point": (
        ((0.036, 0.062), (0.046, 0.040), 0.0150), ((0.017, 0.050), (0.024, 0.024), 0.0160),
        ((-0.004, 0.048), (-0.001, 0.020), 0.0160), ((-0.027, 0.050), (-0.022, -0.046), 0.0140),
    ),
}  # fmt: skip
_THUMBS: dict[Pose, tuple[Point, Point]] = {
    "open": ((-0.040, 0.100), (-0.082, 0.036)),
    "grip": ((-0.040, 0.095), (-0.050, 0.010)),
    "point": ((-0.038, 0.095), (-0.014, 0.050)),
}


class Hand(NamedTuple):
    """The layers of a hand by pose."""

    back: dict[Pose, Sprite]
    front: dict[Pose, Sprite]


def reach_angle(hand: Point, shoulder: Point) -> float:
    """The angle of a hand whose arm points back to the shoulder."""
    return math.atan2(hand[0] - shoulder[0], shoulder[1] - hand[1])


def make_hand(rng: Rng, texels: float, size: float = 1.0, look: tuple[Colour, Colour, bool] | None = None) -> Hand:
    """A hand. Its look is skin, sleeve and whether it is the left one, random unless given."""
    if look is None:
        look = vary(rng, choose(rng, SKINS), 0.02), vary(rng, choose_colour(rng), 0.05), rng.random() < 0.5
    skin, sleeve, left = look
    arm = _Arm(size, texels, mirrored=left, length=_LENGTH)
    texture = choose_texture(rng, 2 * arm.w, arm.w, sleeve)
    arm.sleeve(texture, sleeve, cuff=rng.uniform(0.20, 0.34))
    sleeved, layers = arm.rgba, Hand({}, {})
    for pose in _FINGERS:
        # only the hand differs by pose: paint it, and put the same sleeve over it
        hand, over = (_Arm(size, texels, mirrored=left, length=_HAND) for _ in range(2))
        hand.hand(skin, pose)
        arm.rgba = sleeved.copy()
        end = arm.rgba[: hand.h]
        end += hand.rgba * (1.0 - end[..., 3:])
        layers.back[pose] = arm.sprite(pivot=(0.0, arm.top))
        if pose == "grip":
            over.thumb(skin, pose)
        layers.front[pose] = over.sprite(pivot=(0.0, over.top))
    return layers


class _Arm(ShapeCanvas):
    """A canvas on which the point of contact is (0, 0); mirrored for a left hand."""

    def __init__(self, size: float, texels: float, *, mirrored: bool, length: float) -> None:
        super().__init__(0.24 * size, length * size, texels)
        self.size, self.side = size, -1.0 if mirrored else 1.0
        # the fingers reach 0.08 above the point of contact
        self.top = -self.h / 2 / texels + 0.08 * size

    def at(self, point: Point) -> Point:
        return point[0] * self.size * self.side, point[1] * self.size + self.top

    def sleeve(self, texture: RGB, colour: Colour, cuff: float) -> None:
        start = self.at((0.0, cuff))
        whole = self.capsule(self.at((0.0, 0.1)), self.at((0.0, _LENGTH + 0.1)), 0.047 * self.size, 0.088 * self.size)
        # the cuff is a ring seen slightly from above
        bend = start[1] - 0.012 * self.size * np.sqrt(np.maximum(1.0 - (self.x / (0.056 * self.size)) ** 2, 0.0))
        shape = np.maximum(whole, bend - self.y)
        light = self.relief(whole, 0.06 * self.size)[0]
        folds = 1.0 - 0.07 * np.sin(self.y * 55.0 / self.size + 30.0 * self.x)
        tall = np.concatenate([texture, texture[::-1]] * (self.h // (2 * len(texture)) + 1))
        self.fill(shape, tall[: self.h], light * folds)
        self.fill(np.maximum(shape, self.y - bend - 0.022 * self.size), shade(colour, 0.75), light)

    def hand(self, skin: Colour, pose: Pose) -> None:
        size = self.size
        ball = self.capsule(self.at((0.002, 0.10)), self.at((0.0, 0.16)), 0.040 * size, 0.030 * size)
        forearm = self.capsule(self.at((0.0, 0.15)), self.at((0.0, 0.6)), 0.030 * size, 0.045 * size)
        knuckles = self.capsule(self.at((-0.020, 0.074)), self.at((0.024, 0.080)), 0.027 * size, 0.025 * size)
        shape = _joined(_joined(ball, forearm, 0.03 * size), knuckles, 0.02 * size)
        digits = [self._digit(base, tip, radius * size) for base, tip, radius in _FINGERS[pose]]
        if pose == "open":
            digits.append(self._digit(*_THUMBS[pose], 0.0155 * size))
        if pose == "point":
            # bent fingers lie on the palm, the straight one extends from it
            shape = _joined(shape, digits.pop(), 0.012 * size)
            self.solid(shape, skin, 0.024 * size, 0.05)
            for digit in digits:
                self._over(digit, skin)
            self.thumb(skin, pose)
        else:
            bones = np.min(np.stack(digits), axis=0)
            self.solid(_joined(shape, bones, 0.014 * size), skin, 0.021 * size, 0.05)
        for _, tip, radius in _FINGERS[pose] if pose == "open" else _FINGERS[pose][3:]:
            (x, y), r = self.at((tip[0], tip[1] - 0.1 * radius)), radius * size
            self.fill(self.ellipse(x, y, 0.45 * r, 0.6 * r), shade(skin, 1.22), 1.0, 0.7)  # the nail

    def thumb(self, skin: Colour, pose: Pose) -> None:
        self._over(self._digit(*_THUMBS[pose], 0.0155 * self.size), skin)

    def _over(self, digit: Plane, skin: Colour) -> None:
        # a dark rim separates a finger from the skin under it
        self.fill(digit - np.float32(0.002 * self.size), shade(skin, 0.7), 1.0, 0.5)
        self.solid(digit, skin, 0.016 * self.size, 0.06)

    def _digit(self, base: Point, tip: Point, radius: float) -> Plane:
        return self.capsule(self.at(base), self.at(tip), 1.1 * radius, 0.86 * radius)


def _joined(a: Plane, b: Plane, width: float) -> Plane:
    """The union of two shapes with a fillet where they meet."""
    h = np.maximum(width - np.abs(a - b), 0.0) / width
    return (np.minimum(a, b) - h * h * np.float32(width / 4)).astype(np.float32)
