"""The objects on the table: their table, and how each is painted.

A prop's role says what can be done with it: a "roller" is round, a "cover" is large, hollow and upside down (an object
fits under and behind it, another stands on it), a "thing" is anything else. A painter fills the body of a canvas,
2 w wide and 2 h high; the base is its lower edge.
"""

import math
from functools import partial
from typing import Literal, NamedTuple

import numpy as np

from horst.synth.render import textures as tx
from horst.synth.render.raster import Colour, Point, Rng, ShapeCanvas, Sprite, smoothstep

Role = Literal["roller", "thing", "cover"]


class PropType(NamedTuple):
    """A type of object: its role, its size in scene units and its colours."""

    role: Role
    width: float
    height: float
    colours: tuple[str, ...]


_SIZES: dict[Role, dict[str, Point]] = {
    "roller": {
        "ball": (0.145, 0.145), "orange": (0.13, 0.126), "tomato": (0.135, 0.122), "apple": (0.135, 0.13),
        "wheel": (0.14, 0.14),
    },
    "thing": {
        "cup": (0.15, 0.13), "bottle": (0.085, 0.20), "book": (0.13, 0.165), "box": (0.15, 0.13), "can": (0.095, 0.145),
        "toy car": (0.18, 0.10), "block": (0.125, 0.125), "jar": (0.11, 0.145), "duck": (0.15, 0.135),
    },
    "cover": {
        "bowl": (0.27, 0.19), "bucket": (0.23, 0.215), "carton": (0.24, 0.21), "hat": (0.29, 0.20),
        "basket": (0.25, 0.205), "cloth": (0.26, 0.205),
    },
}  # fmt: skip
_COLOURS = {  # of the props that do not come in every colour
    "orange": "orange", "tomato": "red yellow green", "apple": "red green yellow pink",
    "carton": "brown white yellow orange grey teal", "basket": "brown yellow orange white teal pink",
}  # fmt: skip
PROPS = {
    kind: PropType(role, *size, tuple(_COLOURS[kind].split() if kind in _COLOURS else tx.COLOURS))
    for role, sizes in _SIZES.items()
    for kind, size in sizes.items()
}


def kinds(*roles: Role) -> list[str]:
    """The names of the props with these roles."""
    return [name for name, prop in PROPS.items() if prop.role in roles]


def make_prop(rng: Rng, kind: str, colour: str, texels: float, size: float = 1.0) -> Sprite:
    """The sprite of a prop in a named colour, its pivot in the centre of its body."""
    prop = PROPS[kind]
    canvas = ShapeCanvas(prop.width * size, prop.height * size, texels)
    paint = {"roller": _paint_roller, "thing": _paint_thing, "cover": _paint_cover}[prop.role]
    paint(kind, canvas, *canvas.half, rng, tx.vary(rng, tx.COLOURS[colour], 0.04))
    return canvas.sprite()


def _paint_roller(kind: str, c: ShapeCanvas, w: float, h: float, rng: Rng, colour: Colour) -> None:
    shade, contrast = partial(tx.shade, colour), tx.contrast(colour)
    match kind:
        case "ball":
            sectors = int(rng.integers(2, 4)) * 2
            angle = np.arctan2(c.y + 0.15 * w, c.x - 0.1 * w) + rng.uniform(0.0, 6.28)
            bands = smoothstep(np.sin(angle * sectors / 2) * 6.0 + 0.5)
            c.solid(c.ellipse(0, 0, w, w), tx.mix(colour, contrast, bands), w, 0.55)
            c.solid(c.ellipse(0.1 * w, -0.15 * w, 0.16 * w, 0.16 * w), contrast, w, 0.2)
        case "orange" | "tomato":
            pores = 0.90 + 0.16 * tx.value_noise(rng, c.h, c.w, 14.0, 1)
            c.solid(c.ellipse(0, 0, w, h), tx.tinted(colour, pores), w, 0.3)
            c.fill(c.ellipse(0.1 * w, -0.62 * h, 0.16 * w, 0.1 * h), (0.30, 0.38, 0.13))
            leaf = c.capsule((0.15 * w, -0.68 * h), (0.62 * w, -0.72 * h), 0.1 * w, 0.04 * w)
            c.solid(leaf, (0.25, 0.55, 0.2), 0.01)
        case "apple":
            left, right = (c.ellipse(side * w, 0.05 * h, 0.76 * w, 0.93 * h) for side in (-0.24, 0.24))
            blush = tx.mix(colour, (0.93, 0.80, 0.35), tx.value_noise(rng, c.h, c.w, 3.0, 2) * 0.35)
            c.solid(np.minimum(left, right), blush, 0.8 * w, 0.5)
            c.fill(c.ellipse(0, -0.72 * h, 0.2 * w, 0.08 * h), shade(0.5))
            c.fill(c.capsule((0, -0.72 * h), (0.1 * w, -1.0 * h), 0.05 * w), (0.33, 0.22, 0.12))
        case "wheel":
            c.solid(c.ellipse(0, 0, w, w), (0.16, 0.16, 0.17), 0.3 * w, 0.35)
            c.solid(c.ellipse(0, 0, 0.68 * w, 0.68 * w), colour, 0.3 * w, 0.4)
            spokes = int(rng.integers(3, 6))
            for k in range(spokes):
                turn = 2 * math.pi * k / spokes
                x, y = 0.38 * w * math.cos(turn), 0.38 * w * math.sin(turn)
                c.fill(c.ellipse(x, y, 0.15 * w, 0.15 * w), shade(0.4))
            c.solid(c.ellipse(0, 0, 0.16 * w, 0.16 * w), (0.8, 0.8, 0.8), 0.1 * w, 0.4)


def _paint_thing(kind: str, c: ShapeCanvas, w: float, h: float, rng: Rng, colour: Colour) -> None:
    shade, contrast, light = partial(tx.shade, colour), tx.contrast(colour), c.cylinder_light(w)
    match kind:
        case "cup":
            c.solid(c.ring(0.52 * w, 0.02 * h, 0.40 * w, 0.50 * h, 0.10 * w), shade(0.92), 0.1 * w, 0.2)
            body = c.convex((-0.95 * w, -0.85 * h), (0.55 * w, -0.85 * h), (0.42 * w, h), (-0.82 * w, h), corner=0.004)
            c.fill(body, colour, light)
            c.fill(c.band(body, 0.1 * h, 0.16 * h), contrast, light)
            c.streak(body, -0.6 * w, 0.22 * w, 0.4)
            c.fill(c.ellipse(-0.2 * w, -0.85 * h, 0.75 * w, 0.15 * h), shade(1.35))
            c.fill(c.ellipse(-0.2 * w, -0.83 * h, 0.64 * w, 0.10 * h), shade(0.38))
        case "bottle":
            neck = c.box(0, -0.6 * h, 0.8 * w, 0.8 * h, 0.1 * w)
            body = np.minimum(c.box(0, 0.28 * h, 2 * w, 1.42 * h, 0.5 * w), neck)
            c.fill(body, colour, light)
            c.fill(c.band(body, 0.38 * h, 0.28 * h), contrast, light)
            c.fill(c.band(body, 0.38 * h, 0.07 * h), shade(0.7), light)
            c.streak(body, -0.5 * w, 0.25 * w, 0.45)
            c.fill(c.box(0, -0.89 * h, 0.95 * w, 0.2 * h, 0.1 * w), tx.shade(contrast, 0.8), light)
        case "book":
            c.solid(c.box(0.02 * w, 0, 1.96 * w, 2 * h, 0.006), shade(0.62), 0.01, 0.0)
            c.fill(c.box(0.1 * w, -0.93 * h, 1.7 * w, 0.12 * h), (0.94, 0.92, 0.85))
            cover = c.box(0, 0.05 * h, 2 * w, 1.9 * h, 0.006)
            c.solid(cover, tx.choose_texture(rng, c.h, c.w, colour), 0.012, 0.15, 0.3)
            c.fill(np.maximum(cover, c.x + 0.74 * w), shade(0.72))
            c.fill(c.box(0.14 * w, -0.3 * h, 1.2 * w, 0.5 * h, 0.004), (0.95, 0.93, 0.86))
            c.fill(c.box(0.14 * w, -0.36 * h, 0.9 * w, 0.1 * h), shade(0.5))
            c.fill(c.box(0.14 * w, -0.2 * h, 0.6 * w, 0.07 * h), shade(0.5))
        case "box":
            paint, ribbon = tx.choose_texture(rng, c.h, c.w, colour), tx.shade(contrast, 0.95)
            lid = c.convex((-0.72 * w, -h), (0.92 * w, -h), (w, -0.58 * h), (-w, -0.58 * h))
            c.fill(lid, np.clip(paint * 1.12 + 0.1, 0.0, 1.0))
            front = c.box(0, 0.2 * h, 2 * w, 1.6 * h, 0.004)
            c.solid(front, paint, 0.012, 0.1, 0.35)
            c.fill(np.maximum(front, np.abs(c.x) - 0.14 * w), ribbon, 0.93)
            c.fill(np.maximum(lid, np.abs(c.x - 0.02 * w) - 0.13 * w), ribbon)
        case "can":
            body = c.box(0, 0.05 * h, 2 * w, 1.9 * h, 0.25 * w)
            c.fill(body, (0.74, 0.75, 0.77), light)
            label = c.band(body, 0.05 * h, 0.68 * h)
            c.fill(label, colour, light)
            wave = c.y - 0.1 * h - 0.16 * h * np.sin(c.x / w * 2.5 + rng.uniform(0, 6.28))
            c.fill(np.maximum(label, np.abs(wave) - 0.14 * h), contrast, light)
            c.streak(body, -0.5 * w, 0.3 * w, 0.5)
            c.fill(c.ellipse(0, -0.84 * h, 0.92 * w, 0.14 * h), (0.86, 0.87, 0.88))
            c.fill(c.ellipse(0, -0.83 * h, 0.74 * w, 0.09 * h), (0.58, 0.59, 0.61))
        case "toy car":
            c.solid(c.box(-0.06 * w, -0.42 * h, 1.1 * w, 1.1 * h, 0.35 * h), shade(0.9), 0.4 * h, 0.2)
            c.fill(c.box(-0.30 * w, -0.40 * h, 0.42 * w, 0.58 * h, 0.1 * h), (0.70, 0.85, 0.92))
            c.fill(c.box(0.20 * w, -0.40 * h, 0.40 * w, 0.58 * h, 0.1 * h), (0.62, 0.78, 0.88))
            c.solid(c.box(0, 0.2 * h, 2 * w, 0.86 * h, 0.3 * h), colour, 0.4 * h, 0.5)
            c.fill(c.box(0.9 * w, 0.1 * h, 0.14 * w, 0.22 * h, 0.02 * w), (1.0, 0.93, 0.6))
            for side in (-0.52, 0.52):
                c.solid(c.ellipse(side * w, 0.62 * h, 0.38 * h, 0.38 * h), (0.14, 0.14, 0.15), 0.2 * h, 0.3)
                c.fill(c.ellipse(side * w, 0.62 * h, 0.17 * h, 0.17 * h), (0.78, 0.78, 0.8))
        case "block":
            top = c.convex((-0.7 * w, -h), (w, -h), (w, -0.7 * h), (0.7 * w, -0.62 * h), (-w, -0.62 * h))
            c.fill(top, shade(1.3))
            c.fill(c.convex((0.7 * w, -0.62 * h), (w, -h), (w, 0.66 * h), (0.7 * w, h)), shade(0.62))
            c.fill(c.box(-0.15 * w, 0.19 * h, 1.7 * w, 1.62 * h, 0.004), colour, 0.95)
            for dx, dy in ((-0.65, -0.3), (0.35, -0.3), (-0.15, 0.2), (-0.65, 0.7), (0.35, 0.7)):
                c.fill(c.ellipse(dx * w, dy * h, 0.15 * w, 0.15 * h), contrast)
        case "jar":
            body = c.box(0, 0.16 * h, 2 * w, 1.68 * h, 0.4 * w)
            c.fill(body, (0.82, 0.88, 0.88), light)
            inside = np.maximum(c.box(0, 0.2 * h, 1.7 * w, 1.5 * h, 0.35 * w), -c.y - 0.25 * h)
            c.fill(inside, tx.texture("speckles", rng, c.h, c.w, colour), light)
            c.streak(body, -0.6 * w, 0.2 * w, 0.6)
            c.fill(c.box(0, -0.82 * h, 1.5 * w, 0.36 * h, 0.1 * w), shade(0.75), light)
        case "duck":
            tail = c.convex((-w, -0.15 * h), (-0.3 * w, 0.1 * h), (-0.5 * w, 0.7 * h), corner=0.008)
            c.solid(tail, colour, 0.1 * w, 0.1)
            c.solid(c.ellipse(-0.1 * w, 0.42 * h, 0.85 * w, 0.58 * h), colour, 0.6 * h, 0.35)
            c.solid(c.ellipse(0.35 * w, -0.42 * h, 0.46 * w, 0.56 * h), colour, 0.5 * h, 0.35)
            orange = colour[0] > 0.88 and colour[2] < 0.3 and colour[1] < 0.6
            beak = contrast if orange else (0.94, 0.5, 0.12)
            c.solid(c.ellipse(0.84 * w, -0.34 * h, 0.2 * w, 0.12 * h), beak, 0.1 * w, 0.2)
            c.fill(c.ellipse(0.48 * w, -0.55 * h, 0.09 * w, 0.11 * h), (0.08, 0.08, 0.1))
            c.solid(c.ellipse(-0.25 * w, 0.32 * h, 0.42 * w, 0.28 * h), shade(0.86), 0.2 * h, 0.1)


def _paint_cover(kind: str, c: ShapeCanvas, w: float, h: float, rng: Rng, colour: Colour) -> None:
    shade, contrast, light = partial(tx.shade, colour), tx.contrast(colour), c.cylinder_light(w)
    match kind:
        case "bowl":
            c.solid(c.box(0, -0.88 * h, 0.8 * w, 0.24 * h, 0.02), shade(0.8), 0.02, 0.1)
            egg = c.ellipse(0, 0.95 * h, 0.94 * w, 1.78 * h)
            dome = np.maximum(egg, c.y - 0.95 * h)
            c.fill(dome, tx.choose_texture(rng, c.h, c.w, colour), c.relief(egg, w)[0])
            c.streak(np.maximum(dome, c.y - 0.2 * h), -0.42 * w, 0.16 * w, 0.35)
            c.solid(c.box(0, 0.89 * h, 2 * w, 0.2 * h, 0.1 * h), shade(1.25), 0.1 * h, 0.2)
        case "bucket":
            body = c.taper(0, 0.7 * w, -0.85 * h, 0.93 * w, 0.95 * h, 0.004)
            c.fill(body, tx.choose_texture(rng, c.h, c.w, colour), light)
            for y in (-0.35, 0.25):
                c.fill(c.band(body, y * h, 0.035 * h), shade(0.62), light)
            c.streak(body, -0.45 * w, 0.2 * w, 0.35)
            c.fill(c.ellipse(0, -0.85 * h, 0.7 * w, 0.14 * h), shade(1.2))
            c.fill(c.ellipse(0, -0.84 * h, 0.58 * w, 0.10 * h), shade(0.9))
            c.fill(c.box(0, 0.88 * h, 2 * w, 0.22 * h, 0.1 * h), shade(1.1), light)
        case "carton":
            dull = (0.5 * colour[0] + 0.36, 0.5 * colour[1] + 0.27, 0.5 * colour[2] + 0.16)
            face, ribs = tx.texture("plain", rng, c.h, c.w, dull), 0.97 + 0.03 * np.sin(c.x * 330.0)
            lid, front = c.taper(0, 0.84 * w, -h, w, -0.66 * h), c.box(0, 0.17 * h, 2 * w, 1.66 * h, 0.003)
            c.fill(lid, np.clip(face * 1.18, 0.0, 1.0))
            c.fill(front, face, (ribs * (0.98 - 0.12 * (c.y / h))))
            tape = np.abs(c.x) - 0.10 * w
            c.fill(np.maximum(lid, tape), (0.86, 0.78, 0.60))
            c.fill(np.maximum(np.maximum(front, tape), c.y + 0.25 * h), (0.80, 0.71, 0.53))
            c.fill(c.box(0.52 * w, 0.5 * h, 0.5 * w, 0.42 * h, 0.003), (0.93, 0.92, 0.88))
            c.fill(c.box(0.52 * w, 0.44 * h, 0.36 * w, 0.07 * h), (0.25, 0.25, 0.27))
            c.fill(c.box(0.46 * w, 0.58 * h, 0.24 * w, 0.06 * h), (0.25, 0.25, 0.27))
        case "hat":
            felt, light = 0.88 + 0.2 * tx.value_noise(rng, c.h, c.w, 24.0, 2), c.cylinder_light(0.75 * w)
            crown = c.taper(0, 0.52 * w, -0.94 * h, 0.66 * w, 0.75 * h, 0.01)
            c.fill(crown, tx.tinted(colour, felt), light)
            c.fill(c.ellipse(0, -0.84 * h, 0.48 * w, 0.12 * h), shade(1.12), felt)
            c.fill(c.band(crown, 0.4 * h, 0.16 * h), contrast, light)
            c.solid(c.ellipse(0, 0.78 * h, w, 0.22 * h), tx.tinted(colour, felt), 0.2 * h, 0.0)
        case "basket":
            straw = (0.45 * colour[0] + 0.42, 0.45 * colour[1] + 0.31, 0.45 * colour[2] + 0.16)
            u, v = c.x / w * 6.0, c.y / h * 5.0
            row = np.floor(v)
            over = np.sin((u + (row % 2)) * math.pi) * 0.5 + 0.5
            round_strand = 1.0 - (2.0 * (v - row) - 1.0) ** 2
            body = c.taper(0, 0.78 * w, -0.92 * h, 0.94 * w, 0.96 * h, 0.006)
            c.fill(body, straw, (0.55 + 0.3 * over + 0.25 * round_strand) * light)
            c.fill(c.ellipse(0, -0.86 * h, 0.76 * w, 0.13 * h), tx.shade(straw, 1.1), (0.8 + 0.2 * over))
            braid = 0.8 + 0.3 * np.abs(np.sin((c.x / w * 9.0 + c.y / h * 3.0) * math.pi))
            c.fill(c.box(0, 0.86 * h, 2 * w, 0.26 * h, 0.12 * h), straw, braid)
        case "cloth":  # draped over something (or nothing) that one cannot see
            phase = rng.uniform(0.0, 6.28)
            hem = 0.95 * h + 0.05 * h * np.sin(c.x / w * 9.0 + phase)
            flare = 0.62 + 0.36 * smoothstep((c.y / h + 1.0) / 2.0) ** 1.5
            side = np.abs(c.x) - flare * w + 0.02 * w * np.sin(c.y / h * 7.0 + phase)
            top = c.ellipse(0, -0.25 * h, 0.72 * w, 0.75 * h)
            drape = np.minimum(np.maximum(np.maximum(side, c.y - hem), -0.25 * h - c.y), top)
            # folds fan out from the top and deepen towards the hem
            spread, depth = c.x / np.maximum(flare * w, 1e-3), smoothstep((c.y / h + 0.7) / 1.5)
            folds = 1.0 - 0.24 * depth * (0.5 + 0.5 * np.sin(spread * 9.0 + phase))
            c.fill(drape, tx.choose_texture(rng, c.h, c.w, colour), (folds * (0.75 * light + 0.3)))
            c.fill(np.maximum(drape, hem - 0.08 * h - c.y), contrast, folds, 0.7)
