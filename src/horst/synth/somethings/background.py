"""The room of a clip: a wall that may drift, a table, a shelf, clutter, what passes by, and the occluder."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from horst.synth.render.raster import Camera, Canvas, Plane, Sprite, bilinear, blur, make_sprite
from horst.synth.render.shapes import Easel
from horst.synth.render.textures import (
    COLOURS,
    COVERS,
    TABLES,
    WALLPAPERS,
    WALLS,
    WOODS,
    Colour,
    Texture,
    plaster,
    shade,
    tiles,
    vary,
    wood,
)
from horst.synth.somethings.props import KINDS, make_object
from horst.synth.somethings.scene import SHELF_Y, ground, table_edge

_MARGIN = 0.16
_DRIFT = 0.16
_NEAR, _FAR = 1.14, -0.16


@dataclass(frozen=True, slots=True, eq=False)
class Room:
    """The layers of the background, far to near, and how they move."""

    wall: Sprite
    drift: tuple[float, float]
    """How far the wall's picture moves during the clip, in scene units."""
    floor: Sprite
    """Floor, table and shelf with what stands on them for good."""
    passer: Sprite | None
    path: tuple[float, float, float, float]
    """Where the passer starts and how far it goes: x, y, dx, dy."""


def make_room(rng: np.random.Generator, height: int, width: int) -> Room:
    """A room for pictures of a size."""
    unit = min(height, width)
    # backgrounds are a little out of focus anyway: few texels are enough
    texels = 1.15 * unit
    wide, tall = width / unit + 2 * _MARGIN, height / unit + 2 * _MARGIN
    drifting = rng.random() < 0.6
    turn, speed = float(rng.uniform(0, 2 * math.pi)), float(rng.uniform(0.03, _DRIFT)) if drifting else 0.0
    passer = _passer(rng, texels) if rng.random() < 0.55 else None
    side = 1.0 if rng.random() < 0.5 else -1.0
    start = 0.5 - side * float(rng.uniform(0.1, 0.8))
    path = (start, float(rng.uniform(0.2, 0.55)), side * float(rng.uniform(0.3, 1.0)), float(rng.uniform(-0.15, 0.15)))
    return Room(
        wall=_wall(rng, wide + 2 * _DRIFT, tall + 2 * _DRIFT, texels),
        drift=(speed * math.cos(turn), speed * math.sin(turn)),
        floor=_floor(rng, wide, tall, texels),
        passer=passer,
        path=path,
    )


def draw_room(canvas: Canvas, room: Room, time: float) -> None:
    """Fill the canvas with the room at a time in [0, 1]."""
    shift = time - 0.5
    # the wall is far: it follows half of the camera's way
    x = 0.5 + 0.5 * (canvas.camera.x - 0.5) + room.drift[0] * shift
    y = 0.5 + 0.5 * (canvas.camera.y - 0.5) + room.drift[1] * shift
    canvas.draw(room.wall, x, y)
    if room.passer is not None:
        px, py, dx, dy = room.path
        canvas.draw(room.passer, px + dx * time, py + dy * time + 0.01 * math.sin(14.0 * time), angle=2.0 * dx * time)
    canvas.draw(room.floor, 0.5, 0.5)


def make_occluder(rng: np.random.Generator, texels: float) -> Sprite:
    """A hanging cloth just before the camera, out of focus."""
    width, height = float(rng.uniform(0.85, 1.05)), float(rng.uniform(0.75, 0.95))
    easel = Easel(width, height, texels * 0.5, margin=0.08)
    colour = vary(rng, list(COLOURS.values())[int(rng.integers(len(COLOURS)))], 0.08)
    folds = 0.82 + 0.18 * np.sin(easel.x * float(rng.uniform(14, 30)) + 3.0 * easel.y + float(rng.uniform(0, 6.28)))
    paint = COVERS[int(rng.integers(len(COVERS)))](rng, easel.h, easel.w, colour)
    wave = 0.02 * np.sin(easel.x * 13.0)
    easel.fill((easel.box(0, 0, width, height, 0.08) + wave).astype(np.float32), paint, folds.astype(np.float32))
    return make_sprite(blur(easel.rgba, max(round(texels * 0.012), 1)), texels * 0.5)


def _wall(rng: np.random.Generator, width: float, height: float, texels: float) -> Sprite:
    h, w = math.ceil(height * texels), math.ceil(width * texels)
    colour = vary(rng, WALLS[int(rng.integers(len(WALLS)))], 0.08)
    canvas = Canvas(h, w)
    canvas.camera = Camera(zoom=texels / canvas.unit)
    canvas.pixels[:] = WALLPAPERS[int(rng.integers(len(WALLPAPERS)))](rng, h, w, colour)
    for _ in range(int(rng.integers(1, 5))):
        picture = _picture(rng, texels)
        canvas.draw(
            picture, float(rng.uniform(-0.2, 1.2)), float(rng.uniform(-0.1, 0.5)), angle=float(rng.normal(0, 0.04))
        )
    # light falls in from one side
    fade = np.linspace(1.0, float(rng.uniform(0.7, 0.9)), w, dtype=np.float32)[None, :, None]
    light = fade if rng.random() < 0.5 else fade[:, ::-1]
    canvas.pixels[:] *= light
    canvas.pixels[:] = blur(canvas.pixels, int(rng.integers(0, 2)))
    return canvas.sprite()


def _picture(rng: np.random.Generator, texels: float) -> Sprite:
    """A framed picture, a poster or a window with sky."""
    width, height = float(rng.uniform(0.14, 0.34)), float(rng.uniform(0.14, 0.32))
    easel = Easel(width, height, texels)
    frame = shade(WOODS[int(rng.integers(len(WOODS)))], float(rng.uniform(0.5, 1.4)))
    easel.solid(easel.box(0, 0, width, height, 0.006), frame, 0.012, 0.0)
    colour = list(COLOURS.values())[int(rng.integers(len(COLOURS)))]
    texture = COVERS[int(rng.integers(len(COVERS)))](rng, easel.h, easel.w, vary(rng, colour, 0.1))
    easel.fill(easel.box(0, 0, width - 0.04, height - 0.04), texture, float(rng.uniform(0.7, 1.0)))
    return easel.sprite()


def _floor(rng: np.random.Generator, width: float, height: float, texels: float) -> Sprite:
    easel = Easel(width, height, texels, margin=0.0)
    x, y = easel.x + 0.5, easel.y + 0.5
    line = float(rng.uniform(0.60, 0.68))
    ground_texture: Texture = (wood, tiles, plaster)[int(rng.integers(3))]
    paint = ground_texture(rng, easel.h, easel.w, vary(rng, shade(WOODS[int(rng.integers(4))], 0.6), 0.05))
    easel.fill((line - y).astype(np.float32), paint, (0.55 + 0.5 * np.clip(y - line, 0, 1)).astype(np.float32))
    easel.fill(np.maximum(line - 0.025 - y, y - line).astype(np.float32), (0.86, 0.84, 0.80), 0.75)
    _paint_table(rng, easel, x, y)
    plank = float(rng.uniform(0.6, 0.8))
    colour = vary(rng, WOODS[int(rng.integers(len(WOODS)))], 0.06)
    _paint_shelf(easel, plank, colour)
    layer = Canvas(easel.h, easel.w, alpha=True)
    layer.camera = Camera(zoom=texels / layer.unit)
    layer.pixels[:] = easel.rgba
    _clutter(rng, layer, plank, texels)
    return layer.sprite()


def _paint_table(rng: np.random.Generator, easel: Easel, x: Plane, y: Plane) -> None:
    depth = (y - ground(0.0)) / (ground(1.0) - ground(0.0))
    texture: Texture = TABLES[int(rng.integers(len(TABLES)))]
    named = list(COLOURS.values())[int(rng.integers(len(COLOURS)))]
    # a cloth is paler than the things on it, so that they stand out
    colour = WOODS[int(rng.integers(len(WOODS)))] if texture is wood else shade(named, float(rng.uniform(1.15, 1.5)))
    colour = vary(rng, colour, 0.06)
    flat_top = texture(rng, easel.h, easel.w, colour)
    # seen at a slant: what is far is narrower
    u = (x - 0.5) / (0.86 + 0.15 * depth) + 0.5
    v = 0.08 + 0.62 * np.log1p(np.maximum(depth - _FAR, 0.0) * 0.9)
    top = bilinear(flat_top, (u * easel.w).astype(np.float32), (v * easel.h).astype(np.float32))
    left, right = ((table_edge(_FAR, s) - 0.5, table_edge(_NEAR, s) - 0.5) for s in (-1, 1))
    back, front = ground(_FAR) - 0.5, ground(_NEAR) - 0.5
    for leg in (left[1] + 0.03, right[1] - 0.03):
        easel.fill(easel.box(leg, front + 0.3, 0.045, 0.6), shade(colour, 0.35))
    apron = easel.convex(
        (left[1], front), (right[1], front), (right[1] - 0.004, front + 0.035), (left[1] + 0.004, front + 0.035)
    )
    easel.fill(apron, shade(colour, 0.5))
    board = easel.convex((left[0], back), (right[0], back), (right[1], front), (left[1], front))
    light = (0.80 + 0.22 * np.clip(depth, 0, 1) - 0.12 * (x - 0.5)).astype(np.float32)
    easel.fill(board, top, light)


def _paint_shelf(easel: Easel, plank: float, colour: Colour) -> None:
    y = SHELF_Y - 0.5
    easel.fill(easel.box(0, y + 0.028, plank, 0.022), shade(colour, 0.35), 1.0, 0.35)
    easel.fill(easel.box(0, y, plank, 0.018), shade(colour, 1.1))
    easel.fill(easel.box(0, y + 0.015, plank, 0.018), shade(colour, 0.7))
    for side in (-0.4, 0.4):
        easel.fill(easel.box(side * plank, y + 0.045, 0.014, 0.05, 0.004), (0.25, 0.25, 0.27))


def _clutter(rng: np.random.Generator, layer: Canvas, plank: float, texels: float) -> None:
    """Small things that nobody touches: on the shelf's ends, along the back of the table, on the floor."""
    for _ in range(int(rng.integers(3, 7))):
        kind = str(rng.choice([k for k, what in KINDS.items() if what.role != "cover"]))
        colour = str(rng.choice(list(KINDS[kind].colours)))
        size = float(rng.uniform(0.4, 0.7))
        sprite = make_object(rng, kind, colour, texels, size=size)
        spot = int(rng.integers(4))
        if spot == 0:
            x, y = 0.5 + (0.5 if rng.random() < 0.5 else -0.5) * (plank - 0.12), SHELF_Y + 0.004
        elif spot == 1:
            x, y = float(rng.choice([0.03, 0.97])) + float(rng.normal(0, 0.02)), float(rng.uniform(0.76, 0.98))
        else:
            x, y = float(rng.uniform(0.15, 0.85)), ground(float(rng.uniform(-0.13, -0.02)))
        layer.shadow(x, y, sprite.width * 1.2, 0.02, 0.3)
        layer.draw(sprite, x, y - sprite.height / 2, light=0.85)


def _passer(rng: np.random.Generator, texels: float) -> Sprite:
    """Something irrelevant that crosses the background."""
    kind = str(rng.choice([k for k, what in KINDS.items() if what.role != "cover"]))
    return make_object(rng, kind, str(rng.choice(list(KINDS[kind].colours))), texels, size=float(rng.uniform(0.6, 1.3)))
