"""The things on the table: each kind paints itself in a colour, with texture, shading and a highlight.

A kind has a role that says what can be done with it: a "roller" is round, a "cover" is large, hollow and upside down
(a thing fits under and behind it, another stands on it), a "thing" is anything else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from horst.synth.render.raster import Sprite
from horst.synth.render.shapes import Easel
from horst.synth.render.textures import COLOURS, Colour, vary
from horst.synth.somethings import covers, things

Role = Literal["roller", "thing", "cover"]
Painter = Callable[[Easel, np.random.Generator, Colour], None]


@dataclass(frozen=True, slots=True)
class Kind:
    """A sort of object: its role, its size in scene units and the function that paints it."""

    role: Role
    width: float
    height: float
    paint: Painter
    colours: tuple[str, ...] = tuple(COLOURS)


def make_object(rng: np.random.Generator, kind: str, colour: str, texels: float, *, size: float = 1.0) -> Sprite:
    """The sprite of a kind in a named colour, its pivot in the middle of its body."""
    what = KINDS[kind]
    easel = Easel(what.width * size, what.height * size, texels)
    what.paint(easel, rng, vary(rng, COLOURS[colour], 0.04))
    return easel.sprite()


def names(role: Role) -> list[str]:
    """The kinds of a role, in their fixed order."""
    return [name for name, kind in KINDS.items() if kind.role == role]


KINDS: dict[str, Kind] = {
    "ball": Kind("roller", 0.145, 0.145, things.ball),
    "orange": Kind("roller", 0.13, 0.126, things.orange, ("orange",)),
    "tomato": Kind("roller", 0.135, 0.122, things.orange, ("red", "yellow", "green")),
    "apple": Kind("roller", 0.135, 0.13, things.apple, ("red", "green", "yellow", "pink")),
    "wheel": Kind("roller", 0.14, 0.14, things.wheel),
    "cup": Kind("thing", 0.15, 0.13, things.cup),
    "bottle": Kind("thing", 0.085, 0.20, things.bottle),
    "book": Kind("thing", 0.13, 0.165, things.book),
    "box": Kind("thing", 0.15, 0.13, things.box),
    "can": Kind("thing", 0.095, 0.145, things.can),
    "toy car": Kind("thing", 0.18, 0.10, things.car),
    "block": Kind("thing", 0.125, 0.125, things.block),
    "jar": Kind("thing", 0.11, 0.145, things.jar),
    "duck": Kind("thing", 0.15, 0.135, things.duck),
    "bowl": Kind("cover", 0.27, 0.19, covers.bowl),
    "bucket": Kind("cover", 0.23, 0.215, covers.bucket),
    "carton": Kind("cover", 0.24, 0.21, covers.carton, ("brown", "white", "yellow", "orange", "grey", "teal")),
    "hat": Kind("cover", 0.29, 0.20, covers.hat),
    "basket": Kind("cover", 0.25, 0.205, covers.basket, ("brown", "yellow", "orange", "white", "teal", "pink")),
    "cloth": Kind("cover", 0.26, 0.205, covers.cloth),
}
