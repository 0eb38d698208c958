"""The room: where every place is, and the image of everything that never moves.

Scene units with (0, 0) in the centre of the image; its height is 1, its width 16 / 9. The back wall is above `WALL`,
the counter below. A mirrored kitchen has x negated.
"""

import math

import numpy as np

from horst.synth.kitchen.participants import Appearance
from horst.synth.render import textures as tx
from horst.synth.render.raster import RGB, Plane, Point, Rng, ShapeCanvas, Sprite, smoothstep

WALL, FRONT = -0.17, 0.43
SINK, SINK_SIZE = (-0.36, 0.035), (0.36, 0.25)
RACK, RACK_SIZE = (-0.055, 0.02), (0.20, 0.23)
HOB, HOB_SIZE = (0.42, 0.02), (0.40, 0.27)
BURNER, SMALL_BURNER = (0.37, 0.02), (0.54, -0.055)
BOARD, BOARD_SIZE = (0.07, 0.29), (0.40, 0.20)
BIN = (0.75, 0.24)
# centre and size of what a door closes, and the side of its hinge: -1 left, 1 right
DOOR_FRAMES = {"fridge": ((-0.745, -0.06), (0.29, 0.76), -1.0), "cupboard": ((0.725, -0.32), (0.33, 0.34), 1.0)}
TAP = (-0.36, -0.075)  # the outlet of the tap

SLOTS: dict[str, tuple[Point, ...]] = {  # of each place, in the order of `HOME` or in which they are filled
    "fridge": (
        (-0.82, -0.285), (-0.74, -0.262), (-0.745, 0.255), (-0.66, -0.255), (-0.82, 0.145),
        (-0.80, -0.07), (-0.69, -0.065), (-0.75, 0.145), (-0.68, 0.145),
    ),
    "cupboard": ((0.66, -0.37), (0.78, -0.38), (0.645, -0.235), (0.66, -0.395), (0.77, -0.235), (0.66, -0.42)),
    "shelf": ((-0.12, -0.335), (0.04, -0.303)), "rail": ((0.31, -0.30), (0.40, -0.31), (0.47, -0.31)),
    "hob": (BURNER,), "base": ((0.135, -0.10),), "edge": ((-0.145, -0.135),), "hook": ((-0.53, -0.305),),
    "sink": ((-0.44, 0.02), (-0.30, 0.05), (-0.37, 0.09), (-0.25, -0.01), (-0.48, 0.09)),
    "rack": ((-0.10, -0.02), (-0.02, 0.0), (-0.09, 0.06), (-0.01, 0.08), (-0.055, 0.02)),
    "board": ((-0.03, 0.27), (0.09, 0.29), (0.20, 0.27)),
    "counter": ((-0.47, 0.28), (-0.34, 0.31), (-0.20, 0.28), (0.36, 0.26), (0.48, 0.28), (0.59, 0.24)),
}  # fmt: skip
HANDLES: dict[str, Point] = {  # what a hand touches to operate a fixture
    "tap": (-0.29, -0.15), "hob": (0.59, 0.115), "kettle": (0.16, -0.06), "fridge": (-0.62, -0.10),
    "cupboard": (0.585, -0.22),
}  # fmt: skip
WASTE: Point = (0.24, 0.335)  # the corner of the board for scraps
DRYING: Point = (-0.05, 0.22)  # where dishes are dried, in front of the cook

STEEL, _GLASS = (0.74, 0.76, 0.78), (0.10, 0.10, 0.12)


def paint_room(look: Appearance, rng: Rng, height: int, width: int) -> RGB:
    """Everything that never moves, (height, width, 3)."""
    # with the margin, rounding never leaves a row or a column out
    c = ShapeCanvas(width / height, 1.0, height, margin=1.5 / height)
    c.x = c.x * np.float32(look.mirror)
    for paint in (_paint_surfaces, _paint_worktop, _paint_wall, _paint_front):
        paint(c, look, rng)
    top, left = (c.h - height) // 2, (c.w - width) // 2
    return c.rgba[top : top + height, left : left + width, :3].copy()


def _paint_surfaces(c: ShapeCanvas, look: Appearance, rng: Rng) -> None:
    (wall, wall_colour), (top, top_colour) = look.wall, look.counter
    c.fill(np.full((c.h, c.w), -1.0, np.float32), tx.texture(wall, rng, c.h, c.w, wall_colour), _lamp(c, 0.0, -0.62))
    c.fill(WALL - c.y, tx.texture(top, rng, c.h, c.w, top_colour), _lamp(c, 0.0, 0.1))
    _contact(c, np.abs(c.y - WALL) - np.float32(0.004), 0.05)
    c.fill(FRONT - c.y, tx.texture("plain", rng, c.h, c.w, tx.shade(look.cabinet, 0.72)))
    c.fill(np.abs(c.y - FRONT) - np.float32(0.012), tx.shade(top_colour, 0.78))


def _lamp(c: ShapeCanvas, x: float, y: float) -> Plane:
    """Soft light that decreases with the distance from a point."""
    far = np.hypot((c.x - x) * 0.7, c.y - y)
    return np.asarray(1.08 - 0.30 * smoothstep(far / 0.9), np.float32)


def _contact(c: ShapeCanvas, shape: Plane, reach: float, strength: float = 0.45) -> None:
    """Contact shadow: a soft dark rim around a shape."""
    fall = 1.0 - np.clip(shape / reach, 0.0, 1.0)
    c.rgba[..., :3] *= (1.0 - strength * fall * fall)[..., None].astype(np.float32)


def _paint_worktop(c: ShapeCanvas, look: Appearance, rng: Rng) -> None:
    (x, y), (w, h) = SINK, SINK_SIZE
    rim = c.box(x, y, w + 0.03, h + 0.03, 0.045)
    _contact(c, rim, 0.03, 0.3)
    c.solid(rim, STEEL, 0.012, 0.5, 0.2)
    bowl = c.box(x, y, w, h, 0.04)
    depth = smoothstep(-bowl / 0.09)
    brushed = 0.5 + 0.28 * depth + 0.05 * np.sin(c.y * 400.0)
    c.fill(bowl, STEEL, brushed - 0.3 * (y - c.y) / h * (1.0 - depth))
    c.fill(c.ellipse(x, y + 0.02, 0.022, 0.018), tx.shade(STEEL, 0.45))
    c.fill(c.ellipse(x, y + 0.02, 0.010, 0.008), (0.15, 0.15, 0.16))
    (x, y), (w, h) = RACK, RACK_SIZE
    tray = c.box(x, y, w, h, 0.02)
    _contact(c, tray, 0.03, 0.35)
    c.solid(tray, (0.84, 0.85, 0.86), 0.012, 0.2, 0.3)
    c.fill(c.box(x, y, w - 0.03, h - 0.03, 0.015), (0.62, 0.64, 0.66))
    for k in range(7):
        bar = x - w / 2 + 0.025 + k * (w - 0.05) / 6
        c.solid(c.capsule((bar, y - h / 2 + 0.02), (bar, y + h / 2 - 0.02), 0.004), (0.92, 0.92, 0.93), 0.004, 0.4)
    (x, y), (w, h) = HOB, HOB_SIZE
    glass = c.box(x, y, w, h, 0.018)
    _contact(c, glass, 0.025, 0.3)
    c.solid(glass, _GLASS, 0.008, 0.3, 0.4)
    sheen = np.maximum(glass, np.abs(c.x - x + 0.6 * (c.y - y) + 0.05) - np.float32(0.035))
    c.glow(sheen, 0.10)
    for (bx, by), r in ((BURNER, 0.115), (SMALL_BURNER, 0.062)):
        for ring in (1.0, 0.62):
            c.fill(c.ring(bx, by, r * ring, 0.78 * r * ring, 0.003), (0.42, 0.42, 0.45))
    kx, ky = HANDLES["hob"]
    c.solid(c.ellipse(kx, ky, 0.022, 0.019), (0.80, 0.80, 0.82), 0.012, 0.6)
    c.fill(c.capsule((kx, ky - 0.004), (kx, ky - 0.016), 0.003), (0.2, 0.2, 0.2))


def _paint_wall(c: ShapeCanvas, look: Appearance, rng: Rng) -> None:
    # a shelf with jars of spices, a rail, a hook, a plant and the base of the kettle
    _contact(c, c.box(-0.03, -0.235, 0.40, 0.03, 0.01), 0.03, 0.35)
    c.fill(c.box(-0.03, -0.25, 0.42, 0.022, 0.004), tx.texture("wood", rng, c.h, c.w, look.board), 0.95)
    for x, colour in ((-0.21, (0.72, 0.30, 0.18)), (0.125, (0.86, 0.76, 0.50)), (0.16, (0.40, 0.46, 0.22))):
        light = np.clip(0.8 + 0.4 * (x - c.x) / 0.018, 0.55, 1.2)
        c.fill(c.box(x, -0.295, 0.036, 0.066, 0.006), tx.vary(rng, colour, 0.06), light)
        c.fill(c.box(x, -0.332, 0.034, 0.018, 0.003), (0.22, 0.22, 0.24), light)
    c.solid(c.capsule((0.26, -0.415), (0.53, -0.415), 0.007), STEEL, 0.007, 0.7)
    for x in (0.31, 0.40, 0.47):
        c.fill(c.ring(x, -0.405, 0.008, 0.010, 0.0025), tx.shade(STEEL, 0.6))
    c.solid(c.ellipse(-0.53, -0.39, 0.012, 0.012), STEEL, 0.01, 0.7)
    x, y = -0.36, -0.22
    _contact(c, c.ellipse(x, y + 0.045, 0.05, 0.01), 0.03, 0.4)
    for k in range(11):
        turn = math.pi * (0.08 + 0.084 * k) + rng.uniform(-0.08, 0.08)
        reach = rng.uniform(0.09, 0.15)
        tip = (x - reach * 0.8 * math.cos(turn), y - 0.03 - reach * math.sin(turn))
        c.solid(c.capsule((x, y - 0.03), tip, 0.007, 0.014), tx.vary(rng, (0.28, 0.52, 0.25), 0.06), 0.012, 0.15)
    pot = c.taper(x, 0.055, y - 0.04, 0.04, y + 0.05, 0.003)
    c.fill(pot, (0.76, 0.45, 0.30), np.clip(1.0 - 5.0 * (c.x - x), 0.6, 1.2))
    c.fill(np.maximum(pot, c.y - y + 0.022), (0.84, 0.53, 0.37))
    base = c.ellipse(0.135, -0.02, 0.075, 0.035)
    _contact(c, base, 0.02, 0.4)
    c.solid(base, (0.2, 0.2, 0.22), 0.012, 0.3)


def _paint_front(c: ShapeCanvas, look: Appearance, rng: Rng) -> None:
    (x, y), (w, h) = BOARD, BOARD_SIZE
    _contact(c, c.box(x + 0.006, y + 0.012, w, h, 0.02), 0.03, 0.45)
    c.fill(c.box(x, y + 0.010, w, h, 0.02), tx.shade(look.board, 0.6))
    c.solid(c.box(x, y, w, h, 0.02), tx.texture("wood", rng, c.h, c.w, look.board), 0.008, 0.1, 0.4)
    c.fill(c.ellipse(x - w / 2 + 0.03, y, 0.010, 0.012), tx.shade(look.board, 0.45))
    x, y = BIN
    _contact(c, c.ellipse(x, y + 0.05, 0.11, 0.13), 0.04, 0.45)
    body = c.taper(x, 0.10, y, 0.085, y + 0.24)
    c.fill(body, (0.34, 0.38, 0.40), np.clip(0.95 - 3.0 * (c.x - x), 0.6, 1.25))
    c.solid(c.ellipse(x, y, 0.105, 0.062), (0.48, 0.52, 0.54), 0.012, 0.3, 0.2)
    c.fill(c.ellipse(x, y + 0.004, 0.088, 0.048), (0.10, 0.11, 0.12))
    c.fill(c.ellipse(x, y + 0.022, 0.070, 0.028), (0.20, 0.21, 0.21))
    # the insides of fridge and cupboard; closed doors are drawn over them
    for name, outside, inside, rows in (
        ("fridge", look.fridge, (0.90, 0.94, 0.96), (-0.21, -0.02, 0.18)),
        ("cupboard", look.cabinet, tx.shade(look.board, 0.75), (-0.32, -0.175)),
    ):
        (x, y), (w, h), _ = DOOR_FRAMES[name]
        case = c.box(x, y, w, h, 0.01)
        _contact(c, case, 0.035, 0.4)
        c.fill(case, tx.shade(outside, 0.8))
        hollow = c.box(x, y, w - 0.025, h - 0.025, 0.008)
        c.fill(hollow, inside, 0.62 + 0.40 * smoothstep(-hollow / 0.08))
        for row in rows:
            c.fill(c.band(hollow, row, 0.005), tx.shade(inside, 0.7))


def door_sprite(look: Appearance, door: str, texels: float) -> Sprite:
    """A closed door with its handle. The pivot is the hinge at the outer edge."""
    (cx, cy), (w, h), hinge = DOOR_FRAMES[door]
    colour, long = (look.fridge, 0.13) if door == "fridge" else (look.cabinet, 0.03)
    c = ShapeCanvas(w, h, texels)
    c.x = c.x * np.float32(look.mirror)
    c.solid(c.box(0, 0, w, h, 0.012), colour, 0.010, 0.1, 0.3)
    c.streak(c.box(0, 0, w - 0.02, h - 0.02), -0.1 * w, 0.3 * w, 0.10)
    if door == "fridge":
        c.fill(c.band(c.box(0, 0, w, h), 0.16, 0.004), tx.shade(colour, 0.55))
        magnets = ((-0.06, -0.22, (0.85, 0.3, 0.25)), (-0.01, -0.26, (0.95, 0.8, 0.3)), (0.02, -0.18, (0.3, 0.5, 0.8)))
        for x, y, paint in magnets:
            c.solid(c.box(x, y, 0.03, 0.026, 0.004), paint, 0.006, 0.1)
    else:
        c.fill(np.abs(c.box(0, 0, w - 0.07, h - 0.07, 0.004)) - 0.0035, tx.shade(colour, 0.7))
    x, y = HANDLES[door][0] - cx, HANDLES[door][1] - cy
    shadow = c.capsule((x + 0.006, y - long + 0.008), (x + 0.006, y + long + 0.008), 0.011)
    c.fill(shadow, (0, 0, 0), 1.0, 0.25)
    c.solid(c.capsule((x, y - long), (x, y + long), 0.010), (0.82, 0.83, 0.85), 0.010, 0.7)
    return c.sprite(pivot=(hinge * look.mirror * w / 2, 0.0))
