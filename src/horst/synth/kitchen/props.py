"""How the kitchen's objects are painted: one function a noun, seen from above and in front."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from horst.synth.kitchen.participants import Look
from horst.synth.render.raster import Sprite
from horst.synth.render.shapes import Easel, cylinder_light, half_size, streak
from horst.synth.render.textures import Colour, shade, tinted, vary

_STEEL, _BLACK, _GREEN = (0.78, 0.79, 0.81), (0.15, 0.15, 0.17), (0.30, 0.56, 0.24)
_WOOD = (0.66, 0.45, 0.27)
RAW: dict[str, Colour] = {
    "onion": (0.82, 0.58, 0.28), "carrot": (0.93, 0.49, 0.13), "tomato": (0.86, 0.19, 0.13), "egg": (0.93, 0.80, 0.66),
    "tea": (0.45, 0.25, 0.10), "pasta": (0.93, 0.80, 0.42), "milk": (0.95, 0.94, 0.90), "water": (0.62, 0.78, 0.88),
    "oil": (0.88, 0.72, 0.16),
}  # fmt: skip
PEELED: dict[str, Colour] = {"onion": (0.94, 0.92, 0.80), "carrot": (0.98, 0.60, 0.22)}
INSIDE: dict[str, Colour] = {"onion": (0.95, 0.93, 0.85), "carrot": (0.97, 0.56, 0.16), "tomato": (0.90, 0.26, 0.18)}


def plate(e: Easel, look: Look, rng: np.random.Generator) -> None:
    w, h = half_size(e)
    e.solid(e.ellipse(0, 0, w, h), look.plate, 0.02, 0.25, 0.4)
    e.fill(np.abs(e.ellipse(0, 0, 0.86 * w, 0.86 * h)) - np.float32(0.0025), shade(look.plate, 0.72))
    e.fill(e.ellipse(0, 0.02 * h, 0.64 * w, 0.62 * h), shade(look.plate, 0.88))
    e.fill(e.ellipse(0, 0.06 * h, 0.60 * w, 0.56 * h), shade(look.plate, 0.98))


def cup(e: Easel, look: Look, rng: np.random.Generator) -> None:
    w, h = half_size(e)
    colour = vary(rng, look.cup, 0.05)
    e.solid(
        np.abs(e.ellipse(0.62 * w, 0.1 * h, 0.30 * w, 0.42 * h)) - np.float32(0.1 * w), shade(colour, 0.9), 0.01, 0.1
    )
    body = e.convex(
        (-0.9 * w, -0.55 * h), (0.6 * w, -0.55 * h), (0.46 * w, 0.95 * h), (-0.76 * w, 0.95 * h), corner=0.004
    )
    e.fill(body, colour, cylinder_light(e, w))
    streak(e, body, -0.6 * w, 0.2 * w, 0.4)
    e.fill(e.ellipse(-0.15 * w, -0.56 * h, 0.76 * w, 0.40 * h), shade(colour, 1.35))
    e.fill(e.ellipse(-0.15 * w, -0.54 * h, 0.64 * w, 0.32 * h), shade(colour, 0.42))


def pan(e: Easel, look: Look, rng: np.random.Generator) -> None:
    """The bowl is the left part of the body; its handle points right and towards the cook."""
    w, h = half_size(e)
    e.solid(e.capsule((0.0, 0.25 * h), (0.93 * w, 0.72 * h), 0.016, 0.014), _BLACK, 0.014, 0.3)
    cx, cy = PAN_BOWL
    e.solid(e.ellipse(cx, cy + 0.016, 0.118, 0.096), shade(look.pan, 0.62), 0.03, 0.2)
    e.solid(e.ellipse(cx, cy, 0.118, 0.092), look.pan, 0.012, 0.4, 0.2)
    e.fill(e.ellipse(cx, cy + 0.003, 0.102, 0.077), shade(look.pan, 0.55))
    e.fill(e.ellipse(cx, cy + 0.012, 0.092, 0.066), shade(look.pan, 0.74))


PAN_BOWL = (-0.075, -0.015)
"""The middle of the pan's bowl on its easel: the point that stands on the hob."""


def kettle(e: Easel, look: Look, rng: np.random.Generator) -> None:
    w, h = half_size(e)
    c = look.kettle
    e.solid(
        e.convex((-w, -0.42 * h), (-0.5 * w, -0.1 * h), (-0.45 * w, 0.35 * h), corner=0.006), shade(c, 0.85), 0.02, 0.2
    )
    ring = np.abs(e.ellipse(0.5 * w, -0.02 * h, 0.42 * w, 0.52 * h)) - np.float32(0.012)
    e.solid(ring, _BLACK, 0.012, 0.3)
    body = e.convex(
        (-0.42 * w, -0.7 * h), (0.42 * w, -0.7 * h), (0.66 * w, 0.95 * h), (-0.66 * w, 0.95 * h), corner=0.008
    )
    e.fill(body, c, cylinder_light(e, 0.75 * w))
    streak(e, body, -0.3 * w, 0.14 * w, 0.6)
    e.solid(e.ellipse(0, -0.68 * h, 0.44 * w, 0.18 * h), shade(c, 1.15), 0.02, 0.2)
    e.solid(e.ellipse(0, -0.8 * h, 0.10 * w, 0.12 * h), _BLACK, 0.01, 0.3)


def knife(e: Easel, look: Look, rng: np.random.Generator) -> None:
    w, h = half_size(e)
    edge = ((-0.7 * w, -0.55 * h), (0.3 * w, -h), (0.85 * w, -0.3 * h), (0.85 * w, 0.2 * h), (-0.7 * w, 0.2 * h))
    e.solid(e.convex(*edge, corner=0.002), _STEEL, 0.01, 0.5)
    e.fill(e.box(0.6 * w, -0.15 * h, 0.3 * w, 0.8 * h), (0.94, 0.95, 0.96))
    e.solid(e.capsule((-0.05 * w, 0.3 * h), (0, 0.9 * h), 0.016), _BLACK, 0.016, 0.4)


def spoon(e: Easel, look: Look, rng: np.random.Generator) -> None:
    w, h = half_size(e)
    e.solid(e.capsule((0, -0.3 * h), (0, 0.9 * h), 0.010, 0.014), _WOOD, 0.012, 0.2)
    e.solid(e.ellipse(0, -0.66 * h, 0.95 * w, 0.34 * h), _WOOD, 0.012, 0.2)
    e.fill(e.ellipse(0, -0.66 * h, 0.6 * w, 0.24 * h), shade(_WOOD, 0.75))


def sponge(e: Easel, look: Look, rng: np.random.Generator) -> None:
    w, h = half_size(e)
    e.solid(e.box(0, 0.12 * h, 2 * w, 1.7 * h, 0.01), (0.95, 0.80, 0.22), 0.012, 0.1)
    e.solid(e.box(0, -0.5 * h, 2 * w, h, 0.01), (0.24, 0.56, 0.30), 0.012, 0.1)
    for _ in range(7):
        x, y = rng.uniform(-0.8, 0.8) * w, rng.uniform(0.15, 0.8) * h
        e.fill(e.ellipse(x, y, 0.004, 0.004), (0.78, 0.62, 0.12))


def cloth(e: Easel, look: Look, rng: np.random.Generator) -> None:
    w, h = half_size(e)
    texture, colour = look.cloth
    shape = e.convex((-0.7 * w, -h), (0.7 * w, -h), (w, 0.95 * h), (-0.95 * w, h), corner=0.008)
    folds = 0.92 + 0.12 * np.sin(e.x / w * 7.0 + e.y / h * 0.8)
    e.fill(shape, texture(rng, e.h, e.w, colour), folds.astype(np.float32))


def onion(e: Easel, look: Look, rng: np.random.Generator) -> None:
    _bulb(e, RAW["onion"])


def _bulb(e: Easel, colour: Colour) -> None:
    w, h = half_size(e)
    e.solid(e.capsule((0, -0.5 * h), (0.05 * w, -0.95 * h), 0.2 * w, 0.05 * w), shade(colour, 0.85), 0.01, 0.1)
    shape = e.ellipse(0, 0.1 * h, w, 0.86 * h)
    skin = 0.93 + 0.07 * np.sin(e.x / w * 9.0 / (1.15 - np.clip(np.abs(e.y / h), 0, 1)))
    e.solid(shape, tinted(colour, skin.astype(np.float32)), w, 0.35)


def carrot(e: Easel, look: Look, rng: np.random.Generator) -> None:
    _root(e, RAW["carrot"], leaves=True)


def _root(e: Easel, colour: Colour, leaves: bool) -> None:
    w, h = half_size(e)
    for dy in (-0.6, 0.0, 0.6) if leaves else ():
        e.solid(e.capsule((0.5 * w, 0), (0.95 * w, dy * h), 0.012, 0.006), _GREEN, 0.01, 0.1)
    shape = e.capsule((0.45 * w, 0), (-0.93 * w, 0.2 * h), 0.75 * h, 0.12 * h)
    e.solid(shape, colour, 0.6 * h, 0.3)
    for k in (-0.4, -0.1, 0.2):
        e.fill(np.maximum(shape, np.abs(e.x - k * w) - np.float32(0.002)), shade(colour, 0.8))


def tomato(e: Easel, look: Look, rng: np.random.Generator) -> None:
    w, h = half_size(e)
    e.solid(e.ellipse(0, 0, w, h), RAW["tomato"], w, 0.6)
    for k in range(5):
        turn = 2 * math.pi * k / 5 + 0.3
        e.fill(
            e.capsule((0, -0.45 * h), (0.42 * w * math.cos(turn), -0.45 * h + 0.3 * h * math.sin(turn)), 0.005, 0.002),
            _GREEN,
        )


def egg(e: Easel, look: Look, rng: np.random.Generator) -> None:
    w, h = half_size(e)
    e.solid(e.ellipse(0, 0, w, h), vary(rng, RAW["egg"], 0.03), w, 0.3)


def pasta(e: Easel, look: Look, rng: np.random.Generator) -> None:
    w, h = half_size(e)
    e.solid(e.box(0, 0.03 * h, 1.9 * w, 1.9 * h, 0.008), (0.20, 0.36, 0.66), 0.02, 0.2)
    e.fill(e.box(0, 0.35 * h, 1.4 * w, 0.9 * h, 0.01), RAW["pasta"])
    for k in (-0.4, 0.0, 0.4):
        e.fill(e.capsule((k * w - 0.01, 0.2 * h), (k * w + 0.01, 0.6 * h), 0.004), shade(RAW["pasta"], 0.8))
    e.fill(e.box(0, -0.45 * h, 1.5 * w, 0.34 * h, 0.004), (0.95, 0.94, 0.90))


def milk(e: Easel, look: Look, rng: np.random.Generator) -> None:
    w, h = half_size(e)
    e.fill(e.convex((-0.5 * w, -h), (0.5 * w, -h), (0.95 * w, -0.45 * h), (-0.95 * w, -0.45 * h)), (0.80, 0.86, 0.93))
    e.solid(e.box(0, 0.27 * h, 1.9 * w, 1.46 * h, 0.004), (0.95, 0.96, 0.97), 0.012, 0.1, 0.3)
    e.fill(e.box(0, 0.55 * h, 1.9 * w, 0.5 * h), (0.22, 0.46, 0.78))
    e.solid(e.ellipse(0.2 * w, -0.72 * h, 0.26 * w, 0.14 * h), (0.80, 0.20, 0.20), 0.01, 0.3)


def oil(e: Easel, look: Look, rng: np.random.Generator) -> None:
    w, h = half_size(e)
    body = np.minimum(e.box(0, 0.32 * h, 1.9 * w, 1.36 * h, 0.5 * w), e.box(0, -0.55 * h, 0.7 * w, 0.8 * h, 0.1 * w))
    light = cylinder_light(e, w)
    e.fill(body, (0.78, 0.66, 0.16), light)
    e.fill(np.maximum(body, np.abs(e.y - 0.42 * h) - np.float32(0.24 * h)), (0.90, 0.89, 0.78), light)
    streak(e, body, -0.5 * w, 0.25 * w, 0.5)
    e.fill(e.box(0, -0.9 * h, 0.85 * w, 0.2 * h, 0.002), (0.25, 0.42, 0.20), light)


def tea(e: Easel, look: Look, rng: np.random.Generator) -> None:
    w, h = half_size(e)
    e.fill(e.convex((-0.8 * w, -h), (0.8 * w, -h), (w, -0.6 * h), (-w, -0.6 * h)), (0.52, 0.68, 0.44))
    e.solid(e.box(0, 0.2 * h, 2 * w, 1.6 * h, 0.003), (0.30, 0.50, 0.28), 0.01, 0.1, 0.3)
    e.fill(e.ellipse(0, 0.2 * h, 0.55 * w, 0.45 * h), (0.93, 0.90, 0.76))
    e.fill(e.ellipse(0.05 * w, 0.2 * h, 0.22 * w, 0.28 * h), (0.45, 0.62, 0.30))


def tea_bag(e: Easel, look: Look, rng: np.random.Generator) -> None:
    w, h = half_size(e)
    e.fill(e.capsule((0, -0.2 * h), (0.6 * w, -h), 0.0025), (0.9, 0.9, 0.88))
    e.solid(e.box(0, 0.3 * h, 1.5 * w, 1.3 * h, 0.006), (0.72, 0.58, 0.40), 0.012, 0.1)


Painter = Callable[[Easel, Look, np.random.Generator], None]


@dataclass(frozen=True, slots=True)
class Kind:
    """Size in scene units, where it stands or is held (from the middle), and the function that paints it."""

    width: float
    height: float
    paint: Painter
    pivot: tuple[float, float] = (0.0, 0.0)


KINDS = {
    "plate": Kind(0.20, 0.145, plate),
    "cup": Kind(0.105, 0.105, cup),
    "pan": Kind(0.40, 0.24, pan, PAN_BOWL),
    "kettle": Kind(0.17, 0.17, kettle),
    "knife": Kind(0.055, 0.24, knife),
    "spoon": Kind(0.052, 0.22, spoon),
    "sponge": Kind(0.085, 0.055, sponge),
    "cloth": Kind(0.12, 0.17, cloth),
    "onion": Kind(0.085, 0.09, onion),
    "carrot": Kind(0.19, 0.055, carrot),
    "tomato": Kind(0.085, 0.078, tomato),
    "egg": Kind(0.048, 0.058, egg),
    "pasta": Kind(0.10, 0.14, pasta),
    "milk": Kind(0.075, 0.14, milk),
    "oil": Kind(0.055, 0.15, oil),
    "tea": Kind(0.085, 0.085, tea),
    "tea bag": Kind(0.045, 0.055, tea_bag),
    "peeled onion": Kind(0.08, 0.085, lambda e, look, rng: _bulb(e, PEELED["onion"])),
    "peeled carrot": Kind(0.19, 0.05, lambda e, look, rng: _root(e, PEELED["carrot"], leaves=False)),
}


def paint_thing(name: str, look: Look, rng: np.random.Generator, texels: float) -> Sprite:
    kind = KINDS[name]
    easel = Easel(kind.width, kind.height, texels)
    kind.paint(easel, look, rng)
    return easel.sprite(pivot=kind.pivot)


def paint_pieces(noun: str, rng: np.random.Generator, texels: float) -> Sprite:
    """A heap of cut vegetable, of pasta or of fried egg, as it lies on a board, in a pan and on a plate."""
    e = Easel(0.12, 0.085, texels)
    if noun == "egg":
        for dx in (-0.012, 0.014):
            e.solid(e.ellipse(dx, 0.3 * dx, 0.042, 0.032), (0.97, 0.96, 0.92), 0.01, 0.1, 0.5)
        e.solid(e.ellipse(0, 0, 0.017, 0.014), (0.96, 0.70, 0.12), 0.015, 0.4)
        return e.sprite()
    for k in range(14):
        turn, far = 2.4 * k, math.sqrt((k + 0.3) / 14)
        x, y = 0.046 * far * math.cos(turn), 0.030 * far * math.sin(turn)
        _piece(e, noun, x, y, float(rng.uniform(0, math.pi)))
    return e.sprite()


def _piece(e: Easel, noun: str, x: float, y: float, turn: float) -> None:
    dx, dy = 0.012 * math.cos(turn), 0.009 * math.sin(turn)
    if noun == "pasta":
        e.solid(e.capsule((x - dx, y - dy), (x + dx, y + dy), 0.005), RAW["pasta"], 0.005, 0.2)
    elif noun == "onion":
        e.solid(np.abs(e.ellipse(x, y, 0.012, 0.009)) - np.float32(0.003), INSIDE["onion"], 0.004, 0.1)
    else:
        e.solid(e.ellipse(x, y, 0.013, 0.010), shade(INSIDE[noun], 0.85), 0.004, 0.1)
        e.fill(e.ellipse(x, y, 0.008, 0.006), shade(INSIDE[noun], 1.25))


def paint_scraps(noun: str, rng: np.random.Generator, texels: float) -> Sprite:
    """Peel, egg shells or a used tea bag."""
    e = Easel(0.08, 0.05, texels)
    for _ in range(6):
        x, y, turn = rng.uniform(-0.028, 0.028), rng.uniform(-0.014, 0.014), rng.uniform(0, math.pi)
        tip = (x + 0.014 * math.cos(turn), y + 0.009 * math.sin(turn))
        e.solid(e.capsule((x, y), tip, 0.006, 0.003), shade(RAW[noun], 0.85), 0.005, 0.1)
    return e.sprite()


def paint_liquid(colour: Colour, width: float, height: float, texels: float) -> Sprite:
    """A calm surface: in a cup, a pan or the sink."""
    e = Easel(width, height, texels)
    e.fill(e.ellipse(0, 0, width / 2, height / 2), colour)
    e.fill(e.ellipse(-0.15 * width, -0.12 * height, 0.2 * width, 0.16 * height), shade(colour, 1.3), 1.0, 0.6)
    return e.sprite()


def paint_stream(colour: Colour, texels: float) -> Sprite:
    """What is poured, its pivot at the upper end."""
    e = Easel(0.03, 0.11, texels)
    e.fill(e.capsule((0, -0.05), (0, 0.05), 0.005, 0.007), shade(colour, 1.1), cylinder_light(e, 0.012), 0.9)
    return e.sprite(pivot=(0.0, -0.05))


def paint_dirt(rng: np.random.Generator, texels: float) -> Sprite:
    """What a meal leaves on a plate."""
    e = Easel(0.11, 0.075, texels)
    for _ in range(7):
        x, y, r = rng.uniform(-0.038, 0.038), rng.uniform(-0.022, 0.022), rng.uniform(0.004, 0.013)
        e.fill(e.ellipse(x, y, 1.4 * r, r), vary(rng, (0.52, 0.30, 0.14), 0.06), 1.0, 0.8)
    return e.sprite()
