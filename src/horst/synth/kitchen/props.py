"""The kitchen's objects: their table, and how each is painted, seen from above and in front."""

import math
from functools import partial

import numpy as np

from horst.synth.kitchen.participants import Appearance
from horst.synth.kitchen.room import SINK_SIZE, STEEL
from horst.synth.kitchen.world import VEGETABLES
from horst.synth.render import textures as tx
from horst.synth.render.raster import Colour, Point, Rng, ShapeCanvas, Sprite, blur

_BLADE, _BLACK, _GREEN = (0.78, 0.79, 0.81), (0.15, 0.15, 0.17), (0.30, 0.56, 0.24)
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
PAN_BOWL = (-0.075, -0.015)  # the centre of the pan's bowl on its canvas: the point that stands on the hob
PROPS: dict[str, Point] = {  # width and height in scene units
    "plate": (0.20, 0.145), "cup": (0.105, 0.105), "pan": (0.40, 0.24), "kettle": (0.17, 0.17),
    "knife": (0.055, 0.24), "spoon": (0.052, 0.22), "sponge": (0.085, 0.055), "cloth": (0.12, 0.17),
    "onion": (0.085, 0.09), "carrot": (0.19, 0.055), "tomato": (0.085, 0.078), "egg": (0.048, 0.058),
    "pasta": (0.10, 0.14), "milk": (0.075, 0.14), "oil": (0.055, 0.15), "tea": (0.085, 0.085),
    "tea bag": (0.045, 0.055), "peeled onion": (0.08, 0.085), "peeled carrot": (0.19, 0.05),
    **{f"pieces {noun}": (0.12, 0.085) for noun in FOODS},
    **{f"scraps {noun}": (0.08, 0.05) for noun in ("onion", "carrot", "egg", "tea")},
    **{f"{vessel} {noun}": size for vessel, size in SURFACE.items() for noun in LIQUIDS},
    **{f"stream {noun}": (0.03, 0.11) for noun in POURED},
    "tap": (0.24, 0.20), "water": (0.09, 0.15), "hot": (0.34, 0.28), "foam": SINK_SIZE, "puff": (0.14, 0.12),
    "dirt": (0.11, 0.075),
}  # fmt: skip
# the point that stands on a surface, relative to the centre, if it is another one
_PIVOTS = {"pan": PAN_BOWL, "tap": (0.0, 0.026), "water": (0.0, -0.065)}
_PIVOTS |= {f"stream {noun}": (0.0, -0.05) for noun in POURED}


def paint_prop(name: str, look: Appearance, rng: Rng, texels: float) -> Sprite:
    c = ShapeCanvas(*PROPS[name], texels)
    for paint in (_paint_utensil, _paint_food, _paint_contents, _paint_effect):
        paint(name, c, *c.half, look, rng)
    return c.sprite(pivot=_PIVOTS.get(name, (0.0, 0.0)))


# Each painter fills the body of a canvas, 2 w wide and 2 h high, if the name is one of its objects.


def _paint_utensil(name: str, c: ShapeCanvas, w: float, h: float, look: Appearance, rng: Rng) -> None:
    match name:
        case "plate":
            shade = partial(tx.shade, look.plate)
            c.solid(c.ellipse(0, 0, w, h), look.plate, 0.02, 0.25, 0.4)
            c.fill(c.ring(0, 0, 0.86 * w, 0.86 * h, 0.0025), shade(0.72))
            c.fill(c.ellipse(0, 0.02 * h, 0.64 * w, 0.62 * h), shade(0.88))
            c.fill(c.ellipse(0, 0.06 * h, 0.60 * w, 0.56 * h), shade(0.98))
        case "cup":
            colour = tx.vary(rng, look.cup, 0.05)
            c.solid(c.ring(0.62 * w, 0.1 * h, 0.30 * w, 0.42 * h, 0.1 * w), tx.shade(colour, 0.9), 0.01, 0.1)
            upper, lower = ((-0.9 * w, -0.55 * h), (0.6 * w, -0.55 * h)), ((0.46 * w, 0.95 * h), (-0.76 * w, 0.95 * h))
            body = c.convex(*upper, *lower, corner=0.004)
            c.fill(body, colour, c.cylinder_light(w))
            c.streak(body, -0.6 * w, 0.2 * w, 0.4)
            c.fill(c.ellipse(-0.15 * w, -0.56 * h, 0.76 * w, 0.40 * h), tx.shade(colour, 1.35))
            c.fill(c.ellipse(-0.15 * w, -0.54 * h, 0.64 * w, 0.32 * h), tx.shade(colour, 0.42))
        case "pan":  # the bowl is on the left; the handle points right and towards the cook
            c.solid(c.capsule((0.0, 0.25 * h), (0.93 * w, 0.72 * h), 0.016, 0.014), _BLACK, 0.014, 0.3)
            (cx, cy), shade = PAN_BOWL, partial(tx.shade, look.pan)
            c.solid(c.ellipse(cx, cy + 0.016, 0.118, 0.096), shade(0.62), 0.03, 0.2)
            c.solid(c.ellipse(cx, cy, 0.118, 0.092), look.pan, 0.012, 0.4, 0.2)
            c.fill(c.ellipse(cx, cy + 0.003, 0.102, 0.077), shade(0.55))
            c.fill(c.ellipse(cx, cy + 0.012, 0.092, 0.066), shade(0.74))
        case "kettle":
            colour = look.kettle
            spout = c.convex((-w, -0.42 * h), (-0.5 * w, -0.1 * h), (-0.45 * w, 0.35 * h), corner=0.006)
            c.solid(spout, tx.shade(colour, 0.85), 0.02, 0.2)
            c.solid(c.ring(0.5 * w, -0.02 * h, 0.42 * w, 0.52 * h, 0.012), _BLACK, 0.012, 0.3)
            body = c.taper(0, 0.42 * w, -0.7 * h, 0.66 * w, 0.95 * h, 0.008)
            c.fill(body, colour, c.cylinder_light(0.75 * w))
            c.streak(body, -0.3 * w, 0.14 * w, 0.6)
            c.solid(c.ellipse(0, -0.68 * h, 0.44 * w, 0.18 * h), tx.shade(colour, 1.15), 0.02, 0.2)
            c.solid(c.ellipse(0, -0.8 * h, 0.10 * w, 0.12 * h), _BLACK, 0.01, 0.3)
        case "knife":
            tip, back = ((-0.7 * w, -0.55 * h), (0.3 * w, -h)), ((0.85 * w, -0.3 * h), (0.85 * w, 0.2 * h))
            c.solid(c.convex(*tip, *back, (-0.7 * w, 0.2 * h), corner=0.002), _BLADE, 0.01, 0.5)
            c.fill(c.box(0.6 * w, -0.15 * h, 0.3 * w, 0.8 * h), (0.94, 0.95, 0.96))
            c.solid(c.capsule((-0.05 * w, 0.3 * h), (0, 0.9 * h), 0.016), _BLACK, 0.016, 0.4)
        case "spoon":
            c.solid(c.capsule((0, -0.3 * h), (0, 0.9 * h), 0.010, 0.014), _WOOD, 0.012, 0.2)
            c.solid(c.ellipse(0, -0.66 * h, 0.95 * w, 0.34 * h), _WOOD, 0.012, 0.2)
            c.fill(c.ellipse(0, -0.66 * h, 0.6 * w, 0.24 * h), tx.shade(_WOOD, 0.75))
        case "sponge":
            c.solid(c.box(0, 0.12 * h, 2 * w, 1.7 * h, 0.01), (0.95, 0.80, 0.22), 0.012, 0.1)
            c.solid(c.box(0, -0.5 * h, 2 * w, h, 0.01), (0.24, 0.56, 0.30), 0.012, 0.1)
            for _ in range(7):
                x, y = rng.uniform(-0.8, 0.8) * w, rng.uniform(0.15, 0.8) * h
                c.fill(c.ellipse(x, y, 0.004, 0.004), (0.78, 0.62, 0.12))
        case "cloth":
            shape = c.convex((-0.7 * w, -h), (0.7 * w, -h), (w, 0.95 * h), (-0.95 * w, h), corner=0.008)
            folds = 0.92 + 0.12 * np.sin(c.x / w * 7.0 + c.y / h * 0.8)
            texture, colour = look.cloth
            c.fill(shape, tx.texture(texture, rng, c.h, c.w, colour), folds)


def _paint_food(name: str, c: ShapeCanvas, w: float, h: float, look: Appearance, rng: Rng) -> None:
    match name:
        case "onion" | "peeled onion":
            colour = (RAW if name == "onion" else PEELED)["onion"]
            stalk = c.capsule((0, -0.5 * h), (0.05 * w, -0.95 * h), 0.2 * w, 0.05 * w)
            c.solid(stalk, tx.shade(colour, 0.85), 0.01, 0.1)
            skin = 0.93 + 0.07 * np.sin(c.x / w * 9.0 / (1.15 - np.clip(np.abs(c.y / h), 0, 1)))
            c.solid(c.ellipse(0, 0.1 * h, w, 0.86 * h), tx.tinted(colour, skin), w, 0.35)
        case "carrot" | "peeled carrot":
            colour = (RAW if name == "carrot" else PEELED)["carrot"]
            for dy in (-0.6, 0.0, 0.6) if name == "carrot" else ():
                c.solid(c.capsule((0.5 * w, 0), (0.95 * w, dy * h), 0.012, 0.006), _GREEN, 0.01, 0.1)
            shape = c.capsule((0.45 * w, 0), (-0.93 * w, 0.2 * h), 0.75 * h, 0.12 * h)
            c.solid(shape, colour, 0.6 * h, 0.3)
            for k in (-0.4, -0.1, 0.2):
                c.fill(np.maximum(shape, np.abs(c.x - k * w) - np.float32(0.002)), tx.shade(colour, 0.8))
        case "tomato":
            c.solid(c.ellipse(0, 0, w, h), RAW["tomato"], w, 0.6)
            for k in range(5):
                turn = 2 * math.pi * k / 5 + 0.3
                tip = (0.42 * w * math.cos(turn), -0.45 * h + 0.3 * h * math.sin(turn))
                c.fill(c.capsule((0, -0.45 * h), tip, 0.005, 0.002), _GREEN)
        case "egg":
            c.solid(c.ellipse(0, 0, w, h), tx.vary(rng, RAW["egg"], 0.03), w, 0.3)
        case "pasta":
            c.solid(c.box(0, 0.03 * h, 1.9 * w, 1.9 * h, 0.008), (0.20, 0.36, 0.66), 0.02, 0.2)
            c.fill(c.box(0, 0.35 * h, 1.4 * w, 0.9 * h, 0.01), RAW["pasta"])
            for k in (-0.4, 0.0, 0.4):
                noodle = c.capsule((k * w - 0.01, 0.2 * h), (k * w + 0.01, 0.6 * h), 0.004)
                c.fill(noodle, tx.shade(RAW["pasta"], 0.8))
            c.fill(c.box(0, -0.45 * h, 1.5 * w, 0.34 * h, 0.004), (0.95, 0.94, 0.90))
        case "milk":
            c.fill(c.taper(0, 0.5 * w, -h, 0.95 * w, -0.45 * h), (0.80, 0.86, 0.93))
            c.solid(c.box(0, 0.27 * h, 1.9 * w, 1.46 * h, 0.004), (0.95, 0.96, 0.97), 0.012, 0.1, 0.3)
            c.fill(c.box(0, 0.55 * h, 1.9 * w, 0.5 * h), (0.22, 0.46, 0.78))
            c.solid(c.ellipse(0.2 * w, -0.72 * h, 0.26 * w, 0.14 * h), (0.80, 0.20, 0.20), 0.01, 0.3)
        case "oil":
            light, neck = c.cylinder_light(w), c.box(0, -0.55 * h, 0.7 * w, 0.8 * h, 0.1 * w)
            body = np.minimum(c.box(0, 0.32 * h, 1.9 * w, 1.36 * h, 0.5 * w), neck)
            c.fill(body, (0.78, 0.66, 0.16), light)
            c.fill(c.band(body, 0.42 * h, 0.24 * h), (0.90, 0.89, 0.78), light)
            c.streak(body, -0.5 * w, 0.25 * w, 0.5)
            c.fill(c.box(0, -0.9 * h, 0.85 * w, 0.2 * h, 0.002), (0.25, 0.42, 0.20), light)
        case "tea":
            c.fill(c.taper(0, 0.8 * w, -h, w, -0.6 * h), (0.52, 0.68, 0.44))
            c.solid(c.box(0, 0.2 * h, 2 * w, 1.6 * h, 0.003), (0.30, 0.50, 0.28), 0.01, 0.1, 0.3)
            c.fill(c.ellipse(0, 0.2 * h, 0.55 * w, 0.45 * h), (0.93, 0.90, 0.76))
            c.fill(c.ellipse(0.05 * w, 0.2 * h, 0.22 * w, 0.28 * h), (0.45, 0.62, 0.30))
        case "tea bag":
            c.fill(c.capsule((0, -0.2 * h), (0.6 * w, -h), 0.0025), (0.9, 0.9, 0.88))
            c.solid(c.box(0, 0.3 * h, 1.5 * w, 1.3 * h, 0.006), (0.72, 0.58, 0.40), 0.012, 0.1)


def _paint_contents(name: str, c: ShapeCanvas, w: float, h: float, look: Appearance, rng: Rng) -> None:
    match name.split():
        case ["pieces", "egg"]:  # fried
            for dx in (-0.012, 0.014):
                c.solid(c.ellipse(dx, 0.3 * dx, 0.042, 0.032), (0.97, 0.96, 0.92), 0.01, 0.1, 0.5)
            c.solid(c.ellipse(0, 0, 0.017, 0.014), (0.96, 0.70, 0.12), 0.015, 0.4)
        case ["pieces", noun]:  # a heap of cut vegetable or of pasta
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
        case ["scraps", noun]:  # peel, egg shells or a used tea bag
            for _ in range(6):
                x, y, turn = rng.uniform(-0.028, 0.028), rng.uniform(-0.014, 0.014), rng.uniform(0, math.pi)
                tip = (x + 0.014 * math.cos(turn), y + 0.009 * math.sin(turn))
                c.solid(c.capsule((x, y), tip, 0.006, 0.003), tx.shade(RAW[noun], 0.85), 0.005, 0.1)
        case ["stream", noun]:  # what is poured; the pivot is the upper end
            colour = tx.shade(RAW[POURED[noun]], 1.1)
            c.fill(c.capsule((0, -0.05), (0, 0.05), 0.005, 0.007), colour, c.cylinder_light(0.012), 0.9)
        case ["cup" | "pan" | "plate", noun]:  # the surface of a liquid in it
            c.fill(c.ellipse(0, 0, w, h), RAW[noun])
            c.fill(c.ellipse(-0.3 * w, -0.24 * h, 0.4 * w, 0.32 * h), tx.shade(RAW[noun], 1.3), 1.0, 0.6)


def _paint_effect(name: str, c: ShapeCanvas, w: float, h: float, look: Appearance, rng: Rng) -> None:
    match name:
        case "tap":  # drawn in front of what is in the sink; the pivot is its outlet
            c.solid(c.ellipse(0, -0.055, 0.032, 0.022), tx.shade(STEEL, 0.85), 0.02, 0.5)
            c.solid(c.capsule((0.0, -0.06), (0.0, 0.02), 0.017, 0.014), tx.shade(STEEL, 1.1), 0.016, 0.8)
            c.fill(c.ellipse(0, 0.026, 0.011, 0.006), (0.30, 0.31, 0.33))
            c.solid(c.capsule((0.012, -0.06), (0.07, -0.075), 0.010, 0.012), tx.shade(STEEL, 1.05), 0.012, 0.8)
            c.solid(c.ellipse(0.073, -0.076, 0.013, 0.012), (0.72, 0.20, 0.18), 0.012, 0.5)
        case "water":  # the jet of the tap; the pivot is the outlet
            c.fill(c.capsule((0, -0.065), (0, 0.055), 0.010, 0.013), (0.80, 0.91, 0.97), c.cylinder_light(0.02), 0.8)
            c.fill(c.ellipse(0, 0.058, 0.040, 0.014), (0.88, 0.95, 0.98), 1.0, 0.55)
            c.fill(c.ellipse(0, 0.056, 0.020, 0.008), (0.97, 0.99, 1.0), 1.0, 0.7)
        case "hot":  # the glow of the burner
            c.fill(c.ellipse(0, 0, 0.165, 0.132), (1.0, 0.33, 0.08), 1.0)
            ring = np.exp(-(((np.hypot(c.x / 0.13, c.y / 0.102) - 0.95) / 0.14) ** 2))
            c.rgba *= ring[..., None].astype(np.float32)
        case "foam":  # soapy water in the sink
            surface = c.box(0, 0.01, 2 * w - 0.03, 2 * h - 0.04, 0.035)
            ripples = blur(rng.random((c.h, c.w), dtype=np.float32), 3)
            c.fill(surface, tx.mix((0.52, 0.70, 0.78), (0.72, 0.85, 0.90), ripples), 1.0, 0.82)
            for _ in range(46):
                x, y, r = rng.uniform(-0.15, 0.15), rng.uniform(-0.08, 0.09), rng.uniform(0.005, 0.016)
                c.solid(np.maximum(c.ellipse(x, y, r, r), surface), (0.95, 0.97, 0.98), r, 0.4)
        case "puff":  # of steam
            c.fill(c.ellipse(0, 0, 0.07, 0.06), (0.97, 0.98, 1.0))
            c.rgba *= np.exp(-((c.x / 0.034) ** 2 + (c.y / 0.028) ** 2))[..., None].astype(np.float32)
        case "dirt":  # food residue on a plate or pan
            for _ in range(7):
                x, y, r = rng.uniform(-0.038, 0.038), rng.uniform(-0.022, 0.022), rng.uniform(0.004, 0.013)
                c.fill(c.ellipse(x, y, 1.4 * r, r), tx.vary(rng, (0.52, 0.30, 0.14), 0.06), 1.0, 0.8)
