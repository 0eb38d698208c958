"""The room: where every place lies, and the picture of all that never moves.

Scene units with (0, 0) in the middle of the picture; its height is 1, its width 16 / 9. The back wall is above `WALL`,
the counter below. A mirrored kitchen is the same one with x negated.
"""

from __future__ import annotations

import math

import numpy as np

from horst.synth.kitchen.participants import Look
from horst.synth.render.raster import RGB, Plane, Sprite, blur, smoothstep
from horst.synth.render.shapes import Easel, cylinder_light, streak
from horst.synth.render.textures import Colour, flat, mix, plain, shade, vary, wood

Point = tuple[float, float]

WALL, FRONT = -0.17, 0.43
SINK, SINK_SIZE = (-0.36, 0.035), (0.36, 0.25)
RACK, RACK_SIZE = (-0.055, 0.02), (0.20, 0.23)
HOB, HOB_SIZE = (0.42, 0.02), (0.40, 0.27)
BURNER, SMALL_BURNER = (0.37, 0.02), (0.54, -0.055)
BOARD, BOARD_SIZE = (0.07, 0.29), (0.40, 0.20)
BIN = (0.75, 0.24)
FRIDGE, FRIDGE_SIZE = (-0.745, -0.06), (0.29, 0.76)
CUPBOARD, CUPBOARD_SIZE = (0.725, -0.32), (0.33, 0.34)
TAP = (-0.36, -0.075)
"""Where the water leaves the tap."""

SPOTS: dict[str, tuple[Point, ...]] = {
    "fridge": (
        (-0.82, -0.285), (-0.74, -0.262), (-0.745, 0.255), (-0.66, -0.255), (-0.82, 0.145),
        (-0.80, -0.07), (-0.69, -0.065), (-0.75, 0.145), (-0.68, 0.145),
    ),
    "cupboard": ((0.66, -0.37), (0.78, -0.38), (0.645, -0.235), (0.66, -0.395), (0.77, -0.235), (0.66, -0.42)),
    "shelf": ((-0.12, -0.335), (0.04, -0.303)),
    "rail": ((0.31, -0.30), (0.40, -0.31), (0.47, -0.31)),
    "hob": (BURNER,),
    "base": ((0.135, -0.10),),
    "edge": ((-0.145, -0.135),),
    "hook": ((-0.53, -0.305),),
    "sink": ((-0.44, 0.02), (-0.30, 0.05), (-0.37, 0.09), (-0.25, -0.01), (-0.48, 0.09)),
    "rack": ((-0.10, -0.02), (-0.02, 0.0), (-0.09, 0.06), (-0.01, 0.08), (-0.055, 0.02)),
    "board": ((-0.03, 0.27), (0.09, 0.29), (0.20, 0.27)),
    "counter": ((-0.47, 0.28), (-0.34, 0.31), (-0.20, 0.28), (0.36, 0.26), (0.48, 0.28), (0.59, 0.24)),
}  # fmt: skip
"""The slots of each place, in the order of `HOME` or as they are filled."""

KNOBS: dict[str, Point] = {
    "tap": (-0.29, -0.15),
    "hob": (0.59, 0.115),
    "kettle": (0.16, -0.06),
    "fridge": (-0.62, -0.10),
    "cupboard": (0.585, -0.22),
    "bin": (0.75, 0.20),
}
"""What a hand touches to work a fixture."""
WASTE: Point = (0.24, 0.335)
"""The corner of the board where scraps lie."""
DRYING: Point = (-0.05, 0.22)
"""Where things are rubbed dry, in front of the cook."""

_STEEL, _GLASS = (0.74, 0.76, 0.78), (0.10, 0.10, 0.12)


def paint_room(look: Look, rng: np.random.Generator, height: int, width: int) -> RGB:
    """All that never moves, (height, width, 3)."""
    # the margin makes sure that rounding never leaves a row or a column short
    e = Easel(width / height, 1.0, height, margin=1.5 / height)
    e.x = e.x * np.float32(look.mirror)
    _surfaces(e, look, rng)
    _sink(e)
    _rack(e)
    _hob(e)
    _small_things(e, look, rng)
    _board(e, look, rng)
    _bin(e)
    _cases(e, look)
    top, left = (e.h - height) // 2, (e.w - width) // 2
    return e.rgba[top : top + height, left : left + width, :3].copy()


def _surfaces(e: Easel, look: Look, rng: np.random.Generator) -> None:
    (wall, wall_colour), (top, top_colour) = look.wall, look.counter
    everywhere = np.full((e.h, e.w), -1.0, np.float32)
    e.fill(everywhere, wall(rng, e.h, e.w, wall_colour), _lamp(e, 0.0, -0.62))
    counter = WALL - e.y
    e.fill(counter, top(rng, e.h, e.w, top_colour), _lamp(e, 0.0, 0.1))
    _contact(e, np.abs(e.y - WALL) - np.float32(0.004), 0.05)
    e.fill(FRONT - e.y, plain(rng, e.h, e.w, shade(look.cabinet, 0.72)))
    e.fill(np.abs(e.y - FRONT) - np.float32(0.012), shade(top_colour, 0.78))


def _lamp(e: Easel, x: float, y: float) -> Plane:
    """Soft light that falls off from a point."""
    far = np.hypot((e.x - x) * 0.7, e.y - y)
    return (1.08 - 0.30 * smoothstep((far / 0.9).astype(np.float32))).astype(np.float32)


def _contact(e: Easel, shape: Plane, reach: float, strength: float = 0.45) -> None:
    """A soft dark rim around a shape, where it meets what is behind."""
    fall = 1.0 - np.clip(shape / reach, 0.0, 1.0)
    e.rgba[..., :3] *= (1.0 - strength * fall * fall)[..., None].astype(np.float32)


def _sink(e: Easel) -> None:
    (x, y), (w, h) = SINK, SINK_SIZE
    rim = e.box(x, y, w + 0.03, h + 0.03, 0.045)
    _contact(e, rim, 0.03, 0.3)
    e.solid(rim, _STEEL, 0.012, 0.5, 0.2)
    bowl = e.box(x, y, w, h, 0.04)
    depth = smoothstep(-bowl / 0.09)
    brushed = 0.5 + 0.28 * depth + 0.05 * np.sin(e.y * 400.0)
    e.fill(bowl, _STEEL, (brushed - 0.3 * (y - e.y) / h * (1.0 - depth)).astype(np.float32))
    e.fill(e.ellipse(x, y + 0.02, 0.022, 0.018), shade(_STEEL, 0.45))
    e.fill(e.ellipse(x, y + 0.02, 0.010, 0.008), (0.15, 0.15, 0.16))


def tap_sprite(texels: float) -> Sprite:
    """The tap is in front of what is in the sink, so it is drawn again after it."""
    e = Easel(0.24, 0.20, texels)
    e.solid(e.ellipse(0, -0.055, 0.032, 0.022), shade(_STEEL, 0.85), 0.02, 0.5)
    e.solid(e.capsule((0.0, -0.06), (0.0, 0.02), 0.017, 0.014), shade(_STEEL, 1.1), 0.016, 0.8)
    e.fill(e.ellipse(0, 0.026, 0.011, 0.006), (0.30, 0.31, 0.33))
    e.solid(e.capsule((0.012, -0.06), (0.07, -0.075), 0.010, 0.012), shade(_STEEL, 1.05), 0.012, 0.8)
    e.solid(e.ellipse(0.073, -0.076, 0.013, 0.012), (0.72, 0.20, 0.18), 0.012, 0.5)
    return e.sprite(pivot=(0.0, 0.026))


def _rack(e: Easel) -> None:
    (x, y), (w, h) = RACK, RACK_SIZE
    tray = e.box(x, y, w, h, 0.02)
    _contact(e, tray, 0.03, 0.35)
    e.solid(tray, (0.84, 0.85, 0.86), 0.012, 0.2, 0.3)
    e.fill(e.box(x, y, w - 0.03, h - 0.03, 0.015), (0.62, 0.64, 0.66))
    for k in range(7):
        bar = x - w / 2 + 0.025 + k * (w - 0.05) / 6
        e.solid(e.capsule((bar, y - h / 2 + 0.02), (bar, y + h / 2 - 0.02), 0.004), (0.92, 0.92, 0.93), 0.004, 0.4)


def _hob(e: Easel) -> None:
    (x, y), (w, h) = HOB, HOB_SIZE
    glass = e.box(x, y, w, h, 0.018)
    _contact(e, glass, 0.025, 0.3)
    e.solid(glass, _GLASS, 0.008, 0.3, 0.4)
    sheen = np.maximum(glass, np.abs(e.x - x + 0.6 * (e.y - y) + 0.05) - np.float32(0.035))
    e.glow(sheen, 0.10)
    for (bx, by), r in ((BURNER, 0.115), (SMALL_BURNER, 0.062)):
        for ring in (1.0, 0.62):
            e.fill(np.abs(e.ellipse(bx, by, r * ring, 0.78 * r * ring)) - np.float32(0.003), (0.42, 0.42, 0.45))
    kx, ky = KNOBS["hob"]
    e.solid(e.ellipse(kx, ky, 0.022, 0.019), (0.80, 0.80, 0.82), 0.012, 0.6)
    e.fill(e.capsule((kx, ky - 0.004), (kx, ky - 0.016), 0.003), (0.2, 0.2, 0.2))


def hot_sprite(texels: float) -> Sprite:
    """The glow of the burner that is on."""
    e = Easel(0.34, 0.28, texels)
    r = np.hypot(e.x / 0.13, e.y / 0.102)
    ring = np.exp(-(((r - 0.95) / 0.14) ** 2)).astype(np.float32)
    e.fill(e.ellipse(0, 0, 0.165, 0.132), (1.0, 0.33, 0.08), 1.0)
    e.rgba *= ring[..., None]
    return e.sprite()


def _small_things(e: Easel, look: Look, rng: np.random.Generator) -> None:
    shelf = e.box(-0.03, -0.25, 0.42, 0.022, 0.004)
    _contact(e, e.box(-0.03, -0.235, 0.40, 0.03, 0.01), 0.03, 0.35)
    e.fill(shelf, wood(rng, e.h, e.w, look.board), 0.95)
    for x, colour in ((-0.21, (0.72, 0.30, 0.18)), (0.125, (0.86, 0.76, 0.50)), (0.16, (0.40, 0.46, 0.22))):
        _spice(e, x, vary(rng, colour, 0.06))
    e.solid(e.capsule((0.26, -0.415), (0.53, -0.415), 0.007), _STEEL, 0.007, 0.7)
    for x in (0.31, 0.40, 0.47):
        e.fill(np.abs(e.ellipse(x, -0.405, 0.008, 0.010)) - np.float32(0.0025), shade(_STEEL, 0.6))
    e.solid(e.ellipse(-0.53, -0.39, 0.012, 0.012), _STEEL, 0.01, 0.7)
    _plant(e, rng)
    base = e.ellipse(0.135, -0.02, 0.075, 0.035)
    _contact(e, base, 0.02, 0.4)
    e.solid(base, (0.2, 0.2, 0.22), 0.012, 0.3)


def _spice(e: Easel, x: float, colour: Colour) -> None:
    jar = e.box(x, -0.295, 0.036, 0.066, 0.006)
    light = np.clip(0.8 + 0.4 * (x - e.x) / 0.018, 0.55, 1.2).astype(np.float32)
    e.fill(jar, colour, light)
    e.fill(e.box(x, -0.332, 0.034, 0.018, 0.003), (0.22, 0.22, 0.24), light)


def _plant(e: Easel, rng: np.random.Generator) -> None:
    x, y = -0.36, -0.22
    _contact(e, e.ellipse(x, y + 0.045, 0.05, 0.01), 0.03, 0.4)
    for k in range(11):
        turn = math.pi * (0.08 + 0.084 * k) + float(rng.uniform(-0.08, 0.08))
        reach = float(rng.uniform(0.09, 0.15))
        tip = (x - reach * 0.8 * math.cos(turn), y - 0.03 - reach * math.sin(turn))
        e.solid(e.capsule((x, y - 0.03), tip, 0.007, 0.014), vary(rng, (0.28, 0.52, 0.25), 0.06), 0.012, 0.15)
    pot = e.convex(
        (x - 0.055, y - 0.04), (x + 0.055, y - 0.04), (x + 0.04, y + 0.05), (x - 0.04, y + 0.05), corner=0.003
    )
    e.fill(pot, (0.76, 0.45, 0.30), np.clip(1.0 - 5.0 * (e.x - x), 0.6, 1.2).astype(np.float32))
    e.fill(np.maximum(pot, e.y - y + 0.022), (0.84, 0.53, 0.37))


def _board(e: Easel, look: Look, rng: np.random.Generator) -> None:
    (x, y), (w, h) = BOARD, BOARD_SIZE
    _contact(e, e.box(x + 0.006, y + 0.012, w, h, 0.02), 0.03, 0.45)
    e.fill(e.box(x, y + 0.010, w, h, 0.02), shade(look.board, 0.6))
    e.solid(e.box(x, y, w, h, 0.02), wood(rng, e.h, e.w, look.board), 0.008, 0.1, 0.4)
    e.fill(e.ellipse(x - w / 2 + 0.03, y, 0.010, 0.012), shade(look.board, 0.45))


def _bin(e: Easel) -> None:
    x, y = BIN
    _contact(e, e.ellipse(x, y + 0.05, 0.11, 0.13), 0.04, 0.45)
    body = e.convex((x - 0.10, y), (x + 0.10, y), (x + 0.085, y + 0.24), (x - 0.085, y + 0.24))
    e.fill(body, (0.34, 0.38, 0.40), np.clip(0.95 - 3.0 * (e.x - x), 0.6, 1.25).astype(np.float32))
    e.solid(e.ellipse(x, y, 0.105, 0.062), (0.48, 0.52, 0.54), 0.012, 0.3, 0.2)
    e.fill(e.ellipse(x, y + 0.004, 0.088, 0.048), (0.10, 0.11, 0.12))
    e.fill(e.ellipse(x, y + 0.022, 0.070, 0.028), (0.20, 0.21, 0.21))


def _cases(e: Easel, look: Look) -> None:
    """The insides of fridge and cupboard; doors are drawn over them when closed."""
    for (x, y), (w, h), inside, rows in (
        (FRIDGE, FRIDGE_SIZE, (0.90, 0.94, 0.96), (-0.21, -0.02, 0.18)),
        (CUPBOARD, CUPBOARD_SIZE, shade(look.board, 0.75), (-0.32, -0.175)),
    ):
        case = e.box(x, y, w, h, 0.01)
        _contact(e, case, 0.035, 0.4)
        e.fill(case, shade(look.fridge if rows[0] > -0.3 else look.cabinet, 0.8))
        hollow = e.box(x, y, w - 0.025, h - 0.025, 0.008)
        e.fill(hollow, inside, (0.62 + 0.40 * smoothstep(-hollow / 0.08)).astype(np.float32))
        for row in rows:
            e.fill(np.maximum(hollow, np.abs(e.y - row) - np.float32(0.005)), shade(inside, 0.7))


def door_sprite(look: Look, door: str, texels: float) -> Sprite:
    """A closed door with its handle, its pivot at the hinge: the outer edge."""
    (w, h), colour = (FRIDGE_SIZE, look.fridge) if door == "fridge" else (CUPBOARD_SIZE, look.cabinet)
    side = 1.0 if door == "fridge" else -1.0
    e = Easel(w, h, texels)
    e.x = e.x * np.float32(look.mirror)
    e.solid(e.box(0, 0, w, h, 0.012), colour, 0.010, 0.1, 0.3)
    streak(e, e.box(0, 0, w - 0.02, h - 0.02), -0.1 * w, 0.3 * w, 0.10)
    (x, y), (cx, cy) = KNOBS[door], FRIDGE if door == "fridge" else CUPBOARD
    long = 0.13 if door == "fridge" else 0.03
    if door == "fridge":
        e.fill(np.maximum(e.box(0, 0, w, h), np.abs(e.y - 0.16) - np.float32(0.004)), shade(colour, 0.55))
        for mx, my, c in (
            (-0.06, -0.22, (0.85, 0.3, 0.25)),
            (-0.01, -0.26, (0.95, 0.8, 0.3)),
            (0.02, -0.18, (0.3, 0.5, 0.8)),
        ):
            e.solid(e.box(mx, my, 0.03, 0.026, 0.004), c, 0.006, 0.1)
    else:
        e.fill(np.abs(e.box(0, 0, w - 0.07, h - 0.07, 0.004)) - np.float32(0.0035), shade(colour, 0.7))
    e.fill(
        e.capsule((x - cx + 0.006, y - cy - long + 0.008), (x - cx + 0.006, y - cy + long + 0.008), 0.011),
        (0, 0, 0),
        1.0,
        0.25,
    )
    e.solid(e.capsule((x - cx, y - cy - long), (x - cx, y - cy + long), 0.010), (0.82, 0.83, 0.85), 0.010, 0.7)
    return e.sprite(pivot=(-side * look.mirror * w / 2, 0.0))


def foam_sprite(rng: np.random.Generator, texels: float) -> Sprite:
    """Soapy water that fills the sink."""
    w, h = SINK_SIZE
    e = Easel(w, h, texels)
    surface = e.box(0, 0.01, w - 0.03, h - 0.04, 0.035)
    e.fill(surface, mix(flat(e.h, e.w, (0.52, 0.70, 0.78)), flat(e.h, e.w, (0.72, 0.85, 0.90)),
                        blur(rng.random((e.h, e.w), dtype=np.float32), 3)), 1.0, 0.82)  # fmt: skip
    for _ in range(46):
        x, y, r = rng.uniform(-0.15, 0.15), rng.uniform(-0.08, 0.09), rng.uniform(0.005, 0.016)
        e.solid(np.maximum(e.ellipse(x, y, r, r), surface).astype(np.float32), (0.95, 0.97, 0.98), r, 0.4)
    return e.sprite()


def water_sprite(texels: float) -> Sprite:
    """The jet of the tap, its pivot at the tap's mouth."""
    e = Easel(0.09, 0.15, texels)
    e.fill(e.capsule((0, -0.065), (0, 0.055), 0.010, 0.013), (0.80, 0.91, 0.97), cylinder_light(e, 0.02), 0.8)
    e.fill(e.ellipse(0, 0.058, 0.040, 0.014), (0.88, 0.95, 0.98), 1.0, 0.55)
    e.fill(e.ellipse(0, 0.056, 0.020, 0.008), (0.97, 0.99, 1.0), 1.0, 0.7)
    return e.sprite(pivot=(0.0, -0.065))


def puff_sprite(texels: float) -> Sprite:
    """A breath of steam."""
    e = Easel(0.14, 0.12, texels)
    soft = np.exp(-((e.x / 0.034) ** 2 + (e.y / 0.028) ** 2)).astype(np.float32)
    e.fill(e.ellipse(0, 0, 0.07, 0.06), (0.97, 0.98, 1.0))
    e.rgba *= soft[..., None]
    return e.sprite()
