"""The kitchen's objects: how each is painted, seen from above and in front, and the table of them.

A painter fills the body of a canvas, 2 w wide and 2 h high.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from horst.synth.kitchen.participants import Appearance
from horst.synth.kitchen.room import SINK_SIZE
from horst.synth.kitchen.room import STEEL as _CHROME
from horst.synth.kitchen.world import VEGETABLES
from horst.synth.render import textures as tx
from horst.synth.render.raster import Colour, Point, Rng, ShapeCanvas, Sprite, blur

_STEEL, _BLACK, _GREEN = (0.78, 0.79, 0.81), (0.15, 0.15, 0.17), (0.30, 0.56, 0.24)
_WOOD = (0.66, 0.45, 0.27)
RAW: dict[str, Colour] = {
    "onion": (0.82, 0.58, 0.28), "carrot": (0.93, 0.49, 0.13), "tomato": (0.86, 0.19, 0.13), "egg": (0.93, 0.80, 0.66),
    "tea": (0.45, 0.25, 0.10), "pasta": (0.93, 0.80, 0.42), "milk": (0.95, 0.94, 0.90), "water": (0.62, 0.78, 0.88),
    "oil": (0.88, 0.72, 0.16),
}  # fmt: skip
PEELED: dict[str, Colour] = {"onion": (0.94, 0.92, 0.80), "carrot": (0.98, 0.60, 0.22)}
INSIDE: dict[str, Colour] = {"onion": (0.95, 0.93, 0.85), "carrot": (0.97, 0.56, 0.16), "tomato": (0.90, 0.26, 0.18)}
FOODS = (*VEGETABLES, "pasta", "egg")
LIQUIDS = ("tea", "milk", "water", "oil")
POURED = {"kettle": "water", "milk": "milk", "oil": "oil", "pasta": "pasta"}  # what comes out when pouring
SURFACE = {"cup": (0.066, 0.034), "pan": (0.18, 0.13), "plate": (0.09, 0.055)}  # size of what a vessel holds


def plate(c: ShapeCanvas, w: float, h: float, look: Appearance, rng: Rng) -> None:
    c.solid(c.ellipse(0, 0, w, h), look.plate, 0.02, 0.25, 0.4)
    c.fill(c.ring(0, 0, 0.86 * w, 0.86 * h, 0.0025), tx.shade(look.plate, 0.72))
    c.fill(c.ellipse(0, 0.02 * h, 0.64 * w, 0.62 * h), tx.shade(look.plate, 0.88))
    c.fill(c.ellipse(0, 0.06 * h, 0.60 * w, 0.56 * h), tx.shade(look.plate, 0.98))


def cup(c: ShapeCanvas, w: float, h: float, look: Appearance, rng: Rng) -> None:
    colour = tx.vary(rng, look.cup, 0.05)
    c.solid(c.ring(0.62 * w, 0.1 * h, 0.30 * w, 0.42 * h, 0.1 * w), tx.shade(colour, 0.9), 0.01, 0.1)
    body = c.convex(
        (-0.9 * w, -0.55 * h), (0.6 * w, -0.55 * h), (0.46 * w, 0.95 * h), (-0.76 * w, 0.95 * h), corner=0.004
    )
    c.fill(body, colour, c.cylinder_light(w))
    c.streak(body, -0.6 * w, 0.2 * w, 0.4)
    c.fill(c.ellipse(-0.15 * w, -0.56 * h, 0.76 * w, 0.40 * h), tx.shade(colour, 1.35))
    c.fill(c.ellipse(-0.15 * w, -0.54 * h, 0.64 * w, 0.32 * h), tx.shade(colour, 0.42))


def pan(c: ShapeCanvas, w: float, h: float, look: Appearance, rng: Rng) -> None:
    """The bowl is on the left; the handle points right and towards the cook."""
    c.solid(c.capsule((0.0, 0.25 * h), (0.93 * w, 0.72 * h), 0.016, 0.014), _BLACK, 0.014, 0.3)
    cx, cy = PAN_BOWL
    c.solid(c.ellipse(cx, cy + 0.016, 0.118, 0.096), tx.shade(look.pan, 0.62), 0.03, 0.2)
    c.solid(c.ellipse(cx, cy, 0.118, 0.092), look.pan, 0.012, 0.4, 0.2)
    c.fill(c.ellipse(cx, cy + 0.003, 0.102, 0.077), tx.shade(look.pan, 0.55))
    c.fill(c.ellipse(cx, cy + 0.012, 0.092, 0.066), tx.shade(look.pan, 0.74))


PAN_BOWL = (-0.075, -0.015)  # the centre of the pan's bowl on its canvas: the point that stands on the hob


def kettle(c: ShapeCanvas, w: float, h: float, look: Appearance, rng: Rng) -> None:
    colour = look.kettle
    spout = c.convex((-w, -0.42 * h), (-0.5 * w, -0.1 * h), (-0.45 * w, 0.35 * h), corner=0.006)
    c.solid(spout, tx.shade(colour, 0.85), 0.02, 0.2)
    c.solid(c.ring(0.5 * w, -0.02 * h, 0.42 * w, 0.52 * h, 0.012), _BLACK, 0.012, 0.3)
    body = c.taper(0, 0.42 * w, -0.7 * h, 0.66 * w, 0.95 * h, 0.008)
    c.fill(body, colour, c.cylinder_light(0.75 * w))
    c.streak(body, -0.3 * w, 0.14 * w, 0.6)
    c.solid(c.ellipse(0, -0.68 * h, 0.44 * w, 0.18 * h), tx.shade(colour, 1.15), 0.02, 0.2)
    c.solid(c.ellipse(0, -0.8 * h, 0.10 * w, 0.12 * h), _BLACK, 0.01, 0.3)


def knife(c: ShapeCanvas, w: float, h: float, look: Appearance, rng: Rng) -> None:
    edge = ((-0.7 * w, -0.55 * h), (0.3 * w, -h), (0.85 * w, -0.3 * h), (0.85 * w, 0.2 * h), (-0.7 * w, 0.2 * h))
    c.solid(c.convex(*edge, corner=0.002), _STEEL, 0.01, 0.5)
    c.fill(c.box(0.6 * w, -0.15 * h, 0.3 * w, 0.8 * h), (0.94, 0.95, 0.96))
    c.solid(c.capsule((-0.05 * w, 0.3 * h), (0, 0.9 * h), 0.016), _BLACK, 0.016, 0.4)


def spoon(c: ShapeCanvas, w: float, h: float, look: Appearance, rng: Rng) -> None:
    c.solid(c.capsule((0, -0.3 * h), (0, 0.9 * h), 0.010, 0.014), _WOOD, 0.012, 0.2)
    c.solid(c.ellipse(0, -0.66 * h, 0.95 * w, 0.34 * h), _WOOD, 0.012, 0.2)
    c.fill(c.ellipse(0, -0.66 * h, 0.6 * w, 0.24 * h), tx.shade(_WOOD, 0.75))


def sponge(c: ShapeCanvas, w: float, h: float, look: Appearance, rng: Rng) -> None:
    c.solid(c.box(0, 0.12 * h, 2 * w, 1.7 * h, 0.01), (0.95, 0.80, 0.22), 0.012, 0.1)
    c.solid(c.box(0, -0.5 * h, 2 * w, h, 0.01), (0.24, 0.56, 0.30), 0.012, 0.1)
    for _ in range(7):
        x, y = rng.uniform(-0.8, 0.8) * w, rng.uniform(0.15, 0.8) * h
        c.fill(c.ellipse(x, y, 0.004, 0.004), (0.78, 0.62, 0.12))


def cloth(c: ShapeCanvas, w: float, h: float, look: Appearance, rng: Rng) -> None:
    texture, colour = look.cloth
    shape = c.convex((-0.7 * w, -h), (0.7 * w, -h), (w, 0.95 * h), (-0.95 * w, h), corner=0.008)
    folds = 0.92 + 0.12 * np.sin(c.x / w * 7.0 + c.y / h * 0.8)
    c.fill(shape, texture(rng, c.h, c.w, colour), folds)


def onion(c: ShapeCanvas, w: float, h: float, look: Appearance, rng: Rng, colour: Colour = RAW["onion"]) -> None:
    c.solid(c.capsule((0, -0.5 * h), (0.05 * w, -0.95 * h), 0.2 * w, 0.05 * w), tx.shade(colour, 0.85), 0.01, 0.1)
    shape = c.ellipse(0, 0.1 * h, w, 0.86 * h)
    skin = 0.93 + 0.07 * np.sin(c.x / w * 9.0 / (1.15 - np.clip(np.abs(c.y / h), 0, 1)))
    c.solid(shape, tx.tinted(colour, skin), w, 0.35)


def carrot(c: ShapeCanvas, w: float, h: float, look: Appearance, rng: Rng, colour: Colour = RAW["carrot"]) -> None:
    for dy in (-0.6, 0.0, 0.6) if colour == RAW["carrot"] else ():
        c.solid(c.capsule((0.5 * w, 0), (0.95 * w, dy * h), 0.012, 0.006), _GREEN, 0.01, 0.1)
    shape = c.capsule((0.45 * w, 0), (-0.93 * w, 0.2 * h), 0.75 * h, 0.12 * h)
    c.solid(shape, colour, 0.6 * h, 0.3)
    for k in (-0.4, -0.1, 0.2):
        c.fill(np.maximum(shape, np.abs(c.x - k * w) - np.float32(0.002)), tx.shade(colour, 0.8))


def tomato(c: ShapeCanvas, w: float, h: float, look: Appearance, rng: Rng) -> None:
    c.solid(c.ellipse(0, 0, w, h), RAW["tomato"], w, 0.6)
    for k in range(5):
        turn = 2 * math.pi * k / 5 + 0.3
        tip = (0.42 * w * math.cos(turn), -0.45 * h + 0.3 * h * math.sin(turn))
        c.fill(c.capsule((0, -0.45 * h), tip, 0.005, 0.002), _GREEN)


def egg(c: ShapeCanvas, w: float, h: float, look: Appearance, rng: Rng) -> None:
    c.solid(c.ellipse(0, 0, w, h), tx.vary(rng, RAW["egg"], 0.03), w, 0.3)


def pasta(c: ShapeCanvas, w: float, h: float, look: Appearance, rng: Rng) -> None:
    c.solid(c.box(0, 0.03 * h, 1.9 * w, 1.9 * h, 0.008), (0.20, 0.36, 0.66), 0.02, 0.2)
    c.fill(c.box(0, 0.35 * h, 1.4 * w, 0.9 * h, 0.01), RAW["pasta"])
    for k in (-0.4, 0.0, 0.4):
        c.fill(c.capsule((k * w - 0.01, 0.2 * h), (k * w + 0.01, 0.6 * h), 0.004), tx.shade(RAW["pasta"], 0.8))
    c.fill(c.box(0, -0.45 * h, 1.5 * w, 0.34 * h, 0.004), (0.95, 0.94, 0.90))


def milk(c: ShapeCanvas, w: float, h: float, look: Appearance, rng: Rng) -> None:
    c.fill(c.taper(0, 0.5 * w, -h, 0.95 * w, -0.45 * h), (0.80, 0.86, 0.93))
    c.solid(c.box(0, 0.27 * h, 1.9 * w, 1.46 * h, 0.004), (0.95, 0.96, 0.97), 0.012, 0.1, 0.3)
    c.fill(c.box(0, 0.55 * h, 1.9 * w, 0.5 * h), (0.22, 0.46, 0.78))
    c.solid(c.ellipse(0.2 * w, -0.72 * h, 0.26 * w, 0.14 * h), (0.80, 0.20, 0.20), 0.01, 0.3)


def oil(c: ShapeCanvas, w: float, h: float, look: Appearance, rng: Rng) -> None:
    body = np.minimum(c.box(0, 0.32 * h, 1.9 * w, 1.36 * h, 0.5 * w), c.box(0, -0.55 * h, 0.7 * w, 0.8 * h, 0.1 * w))
    light = c.cylinder_light(w)
    c.fill(body, (0.78, 0.66, 0.16), light)
    c.fill(c.band(body, 0.42 * h, 0.24 * h), (0.90, 0.89, 0.78), light)
    c.streak(body, -0.5 * w, 0.25 * w, 0.5)
    c.fill(c.box(0, -0.9 * h, 0.85 * w, 0.2 * h, 0.002), (0.25, 0.42, 0.20), light)


def tea(c: ShapeCanvas, w: float, h: float, look: Appearance, rng: Rng) -> None:
    c.fill(c.taper(0, 0.8 * w, -h, w, -0.6 * h), (0.52, 0.68, 0.44))
    c.solid(c.box(0, 0.2 * h, 2 * w, 1.6 * h, 0.003), (0.30, 0.50, 0.28), 0.01, 0.1, 0.3)
    c.fill(c.ellipse(0, 0.2 * h, 0.55 * w, 0.45 * h), (0.93, 0.90, 0.76))
    c.fill(c.ellipse(0.05 * w, 0.2 * h, 0.22 * w, 0.28 * h), (0.45, 0.62, 0.30))


def tea_bag(c: ShapeCanvas, w: float, h: float, look: Appearance, rng: Rng) -> None:
    c.fill(c.capsule((0, -0.2 * h), (0.6 * w, -h), 0.0025), (0.9, 0.9, 0.88))
    c.solid(c.box(0, 0.3 * h, 1.5 * w, 1.3 * h, 0.006), (0.72, 0.58, 0.40), 0.012, 0.1)


def pieces(c: ShapeCanvas, w: float, h: float, look: Appearance, rng: Rng, noun: str) -> None:
    """A heap of cut vegetable, of pasta or of fried egg."""
    if noun == "egg":
        for dx in (-0.012, 0.014):
            c.solid(c.ellipse(dx, 0.3 * dx, 0.042, 0.032), (0.97, 0.96, 0.92), 0.01, 0.1, 0.5)
        c.solid(c.ellipse(0, 0, 0.017, 0.014), (0.96, 0.70, 0.12), 0.015, 0.4)
        return
    for k in range(14):
        turn, far = 2.4 * k, math.sqrt((k + 0.3) / 14)
        x, y = 0.046 * far * math.cos(turn), 0.030 * far * math.sin(turn)
        turn = rng.uniform(0, math.pi)
        if noun == "pasta":
            dx, dy = 0.012 * math.cos(turn), 0.009 * math.sin(turn)
            c.solid(c.capsule((x - dx, y - dy), (x + dx, y + dy), 0.005), RAW["pasta"], 0.005, 0.2)
        elif noun == "onion":
            c.solid(c.ring(x, y, 0.012, 0.009, 0.003), INSIDE["onion"], 0.004, 0.1)
        else:
            c.solid(c.ellipse(x, y, 0.013, 0.010), tx.shade(INSIDE[noun], 0.85), 0.004, 0.1)
            c.fill(c.ellipse(x, y, 0.008, 0.006), tx.shade(INSIDE[noun], 1.25))


def scraps(c: ShapeCanvas, w: float, h: float, look: Appearance, rng: Rng, noun: str) -> None:
    """Peel, egg shells or a used tea bag."""
    for _ in range(6):
        x, y, turn = rng.uniform(-0.028, 0.028), rng.uniform(-0.014, 0.014), rng.uniform(0, math.pi)
        tip = (x + 0.014 * math.cos(turn), y + 0.009 * math.sin(turn))
        c.solid(c.capsule((x, y), tip, 0.006, 0.003), tx.shade(RAW[noun], 0.85), 0.005, 0.1)


def liquid(c: ShapeCanvas, w: float, h: float, look: Appearance, rng: Rng, colour: Colour) -> None:
    """The surface of a liquid in a cup or pan or on a plate."""
    c.fill(c.ellipse(0, 0, w, h), colour)
    c.fill(c.ellipse(-0.3 * w, -0.24 * h, 0.4 * w, 0.32 * h), tx.shade(colour, 1.3), 1.0, 0.6)


def stream(c: ShapeCanvas, w: float, h: float, look: Appearance, rng: Rng, colour: Colour) -> None:
    """What is poured. The pivot is the upper end."""
    c.fill(c.capsule((0, -0.05), (0, 0.05), 0.005, 0.007), tx.shade(colour, 1.1), c.cylinder_light(0.012), 0.9)


def tap(c: ShapeCanvas, w: float, h: float, look: Appearance, rng: Rng) -> None:
    """The tap, drawn in front of what is in the sink. The pivot is its outlet."""
    c.solid(c.ellipse(0, -0.055, 0.032, 0.022), tx.shade(_CHROME, 0.85), 0.02, 0.5)
    c.solid(c.capsule((0.0, -0.06), (0.0, 0.02), 0.017, 0.014), tx.shade(_CHROME, 1.1), 0.016, 0.8)
    c.fill(c.ellipse(0, 0.026, 0.011, 0.006), (0.30, 0.31, 0.33))
    c.solid(c.capsule((0.012, -0.06), (0.07, -0.075), 0.010, 0.012), tx.shade(_CHROME, 1.05), 0.012, 0.8)
    c.solid(c.ellipse(0.073, -0.076, 0.013, 0.012), (0.72, 0.20, 0.18), 0.012, 0.5)


def water(c: ShapeCanvas, w: float, h: float, look: Appearance, rng: Rng) -> None:
    """The water jet of the tap. The pivot is the outlet."""
    c.fill(c.capsule((0, -0.065), (0, 0.055), 0.010, 0.013), (0.80, 0.91, 0.97), c.cylinder_light(0.02), 0.8)
    c.fill(c.ellipse(0, 0.058, 0.040, 0.014), (0.88, 0.95, 0.98), 1.0, 0.55)
    c.fill(c.ellipse(0, 0.056, 0.020, 0.008), (0.97, 0.99, 1.0), 1.0, 0.7)


def hot(c: ShapeCanvas, w: float, h: float, look: Appearance, rng: Rng) -> None:
    """The glow of the burner."""
    r = np.hypot(c.x / 0.13, c.y / 0.102)
    ring = np.exp(-(((r - 0.95) / 0.14) ** 2)).astype(np.float32)
    c.fill(c.ellipse(0, 0, 0.165, 0.132), (1.0, 0.33, 0.08), 1.0)
    c.rgba *= ring[..., None]


def foam(c: ShapeCanvas, w: float, h: float, look: Appearance, rng: Rng) -> None:
    """Soapy water in the sink."""
    surface = c.box(0, 0.01, 2 * w - 0.03, 2 * h - 0.04, 0.035)
    ripples = blur(rng.random((c.h, c.w), dtype=np.float32), 3)
    c.fill(surface, tx.mix((0.52, 0.70, 0.78), (0.72, 0.85, 0.90), ripples), 1.0, 0.82)
    for _ in range(46):
        x, y, r = rng.uniform(-0.15, 0.15), rng.uniform(-0.08, 0.09), rng.uniform(0.005, 0.016)
        c.solid(np.maximum(c.ellipse(x, y, r, r), surface), (0.95, 0.97, 0.98), r, 0.4)


def puff(c: ShapeCanvas, w: float, h: float, look: Appearance, rng: Rng) -> None:
    """A puff of steam."""
    soft = np.exp(-((c.x / 0.034) ** 2 + (c.y / 0.028) ** 2)).astype(np.float32)
    c.fill(c.ellipse(0, 0, 0.07, 0.06), (0.97, 0.98, 1.0))
    c.rgba *= soft[..., None]


def dirt(c: ShapeCanvas, w: float, h: float, look: Appearance, rng: Rng) -> None:
    """Food residue on a plate or pan."""
    for _ in range(7):
        x, y, r = rng.uniform(-0.038, 0.038), rng.uniform(-0.022, 0.022), rng.uniform(0.004, 0.013)
        c.fill(c.ellipse(x, y, 1.4 * r, r), tx.vary(rng, (0.52, 0.30, 0.14), 0.06), 1.0, 0.8)


class KitchenProp(NamedTuple):
    """Size in scene units, painter, and the point that stands on a surface, relative to the centre."""

    width: float
    height: float
    paint: Callable[[ShapeCanvas, float, float, Appearance, Rng], None]
    pivot: Point = (0.0, 0.0)


PROPS = {
    "plate": KitchenProp(0.20, 0.145, plate),
    "cup": KitchenProp(0.105, 0.105, cup),
    "pan": KitchenProp(0.40, 0.24, pan, PAN_BOWL),
    "kettle": KitchenProp(0.17, 0.17, kettle),
    "knife": KitchenProp(0.055, 0.24, knife),
    "spoon": KitchenProp(0.052, 0.22, spoon),
    "sponge": KitchenProp(0.085, 0.055, sponge),
    "cloth": KitchenProp(0.12, 0.17, cloth),
    "onion": KitchenProp(0.085, 0.09, onion),
    "carrot": KitchenProp(0.19, 0.055, carrot),
    "tomato": KitchenProp(0.085, 0.078, tomato),
    "egg": KitchenProp(0.048, 0.058, egg),
    "pasta": KitchenProp(0.10, 0.14, pasta),
    "milk": KitchenProp(0.075, 0.14, milk),
    "oil": KitchenProp(0.055, 0.15, oil),
    "tea": KitchenProp(0.085, 0.085, tea),
    "tea bag": KitchenProp(0.045, 0.055, tea_bag),
    "peeled onion": KitchenProp(0.08, 0.085, partial(onion, colour=PEELED["onion"])),
    "peeled carrot": KitchenProp(0.19, 0.05, partial(carrot, colour=PEELED["carrot"])),
    **{f"pieces {noun}": KitchenProp(0.12, 0.085, partial(pieces, noun=noun)) for noun in FOODS},
    **{f"scraps {n}": KitchenProp(0.08, 0.05, partial(scraps, noun=n)) for n in ("onion", "carrot", "egg", "tea")},
    **{f"{v} {n}": KitchenProp(*SURFACE[v], partial(liquid, colour=RAW[n])) for v in SURFACE for n in LIQUIDS},
    **{f"stream {n}": KitchenProp(0.03, 0.11, partial(stream, colour=RAW[POURED[n]]), (0.0, -0.05)) for n in POURED},
    "tap": KitchenProp(0.24, 0.20, tap, (0.0, 0.026)),
    "water": KitchenProp(0.09, 0.15, water, (0.0, -0.065)),
    "hot": KitchenProp(0.34, 0.28, hot),
    "foam": KitchenProp(*SINK_SIZE, foam),
    "puff": KitchenProp(0.14, 0.12, puff),
    "dirt": KitchenProp(0.11, 0.075, dirt),
}


def paint_prop(name: str, look: Appearance, rng: Rng, texels: float) -> Sprite:
    prop = PROPS[name]
    c = ShapeCanvas(prop.width, prop.height, texels)
    prop.paint(c, *c.half, look, rng)
    return c.sprite(pivot=prop.pivot)
