"""The background of a clip: a drifting wall, an object that passes by, table, shelf and clutter. Also the occluder."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from horst.synth.render import textures as tx
from horst.synth.render.raster import Camera, FrameBuffer, Plane, Sprite, bilinear, blur, make_sprite
from horst.synth.render.shapes import ShapeCanvas
from horst.synth.render.textures import Colour, Rng, choose, uniform
from horst.synth.somethings.props import PROPS, kinds, make_prop
from horst.synth.somethings.scene import SHELF_Y, ground, table_edge

_MARGIN = 0.16
_DRIFT = 0.16
_NEAR, _FAR = 1.14, -0.16


@dataclass(frozen=True, slots=True, eq=False)
class Background:
    """The layers of the background, far to near, and how they move."""

    wall: Sprite
    drift: tuple[float, float]  # how far the wall moves during the clip, in scene units
    floor: Sprite  # floor, table and shelf with the clutter on them
    passerby: Sprite | None
    path: tuple[float, float, float, float]  # where the passer-by starts and how far it goes: x, y, dx, dy


def make_background(rng: Rng, height: int, width: int) -> Background:
    """A background for frames of a size."""
    unit = min(height, width)
    # backgrounds are slightly out of focus: few texels suffice
    texels = 1.15 * unit
    wide, tall = width / unit + 2 * _MARGIN, height / unit + 2 * _MARGIN
    drifting = rng.random() < 0.6
    turn, speed = uniform(rng, 0, 2 * math.pi), uniform(rng, 0.03, _DRIFT) if drifting else 0.0
    passerby = _random_prop(rng, texels, (0.6, 1.3)) if rng.random() < 0.55 else None
    side = 1.0 if rng.random() < 0.5 else -1.0
    start = 0.5 - side * uniform(rng, 0.1, 0.8)
    path = (start, uniform(rng, 0.2, 0.55), side * uniform(rng, 0.3, 1.0), uniform(rng, -0.15, 0.15))
    return Background(
        wall=_wall(rng, wide + 2 * _DRIFT, tall + 2 * _DRIFT, texels),
        drift=(speed * math.cos(turn), speed * math.sin(turn)),
        floor=_floor(rng, wide, tall, texels),
        passerby=passerby,
        path=path,
    )


def draw_background(frame: FrameBuffer, background: Background, time: float) -> None:
    """Fill the frame with the background at a time in [0, 1]."""
    shift, camera = time - 0.5, frame.camera
    # the wall is far away: it follows half of the camera's motion
    x = 0.5 + 0.5 * (camera.x - 0.5) + background.drift[0] * shift
    y = 0.5 + 0.5 * (camera.y - 0.5) + background.drift[1] * shift
    frame.draw(background.wall, x, y)
    if background.passerby is not None:
        px, py, dx, dy = background.path
        sway = 0.01 * math.sin(14.0 * time)
        frame.draw(background.passerby, px + dx * time, py + dy * time + sway, angle=2.0 * dx * time)
    frame.draw(background.floor, 0.5, 0.5)


def make_occluder(rng: Rng, texels: float) -> Sprite:
    """A hanging cloth close to the camera, out of focus."""
    width, height = uniform(rng, 0.85, 1.05), uniform(rng, 0.75, 0.95)
    canvas = ShapeCanvas(width, height, texels * 0.5, margin=0.08)
    colour = tx.vary(rng, tx.choose_colour(rng), 0.08)
    folds = 0.82 + 0.18 * np.sin(canvas.x * uniform(rng, 14, 30) + 3.0 * canvas.y + uniform(rng, 0, 6.28))
    paint = tx.choose_texture(rng, canvas.h, canvas.w, colour)
    wave = 0.02 * np.sin(canvas.x * 13.0)
    canvas.fill(canvas.box(0, 0, width, height, 0.08) + wave, paint, folds)
    return make_sprite(blur(canvas.rgba, max(round(texels * 0.012), 1)), texels * 0.5)


def _wall(rng: Rng, width: float, height: float, texels: float) -> Sprite:
    h, w = math.ceil(height * texels), math.ceil(width * texels)
    colour = tx.vary(rng, choose(rng, tx.WALLS), 0.08)
    layer = FrameBuffer(h, w)
    layer.camera = Camera(zoom=texels / layer.unit)
    layer.pixels[:] = choose(rng, tx.WALLPAPERS)(rng, h, w, colour)
    for _ in range(int(rng.integers(1, 5))):
        poster = _poster(rng, texels)
        layer.draw(poster, uniform(rng, -0.2, 1.2), uniform(rng, -0.1, 0.5), angle=float(rng.normal(0, 0.04)))
    # the light comes from one side
    fade = np.linspace(1.0, uniform(rng, 0.7, 0.9), w, dtype=np.float32)[None, :, None]
    layer.pixels[:] *= fade if rng.random() < 0.5 else fade[:, ::-1]
    layer.pixels[:] = blur(layer.pixels, int(rng.integers(0, 2)))
    return layer.sprite()


def _poster(rng: Rng, texels: float) -> Sprite:
    """A framed poster."""
    width, height = uniform(rng, 0.14, 0.34), uniform(rng, 0.14, 0.32)
    canvas = ShapeCanvas(width, height, texels)
    frame = tx.shade(choose(rng, tx.WOODS), uniform(rng, 0.5, 1.4))
    canvas.solid(canvas.box(0, 0, width, height, 0.006), frame, 0.012, 0.0)
    colour = tx.choose_colour(rng)
    chosen = choose(rng, tx.FABRICS)
    texture = chosen(rng, canvas.h, canvas.w, tx.vary(rng, colour, 0.1))
    canvas.fill(canvas.box(0, 0, width - 0.04, height - 0.04), texture, uniform(rng, 0.7, 1.0))
    return canvas.sprite()


def _floor(rng: Rng, width: float, height: float, texels: float) -> Sprite:
    canvas = ShapeCanvas(width, height, texels, margin=0.0)
    x, y = canvas.x + 0.5, canvas.y + 0.5
    line = uniform(rng, 0.60, 0.68)
    texture = choose(rng, (tx.wood, tx.tiles, tx.plaster))
    colour = tx.vary(rng, tx.shade(choose(rng, tx.WOODS), 0.6), 0.05)
    canvas.fill(line - y, texture(rng, canvas.h, canvas.w, colour), 0.55 + 0.5 * np.clip(y - line, 0, 1))
    canvas.fill(np.maximum(line - 0.025 - y, y - line), (0.86, 0.84, 0.80), 0.75)
    _paint_table(rng, canvas, x, y)
    plank = uniform(rng, 0.6, 0.8)
    _paint_shelf(canvas, plank, tx.vary(rng, choose(rng, tx.WOODS), 0.06))
    layer = FrameBuffer(canvas.h, canvas.w, alpha=True)
    layer.camera = Camera(zoom=texels / layer.unit)
    layer.pixels[:] = canvas.rgba
    _clutter(rng, layer, plank, texels)
    return layer.sprite()


def _paint_table(rng: Rng, canvas: ShapeCanvas, x: Plane, y: Plane) -> None:
    depth = (y - ground(0.0)) / (ground(1.0) - ground(0.0))
    texture = choose(rng, tx.TABLES)
    named = tx.choose_colour(rng)
    # a cloth is paler than the objects on it, so that they stand out
    colour = choose(rng, tx.WOODS) if texture is tx.wood else tx.shade(named, uniform(rng, 1.15, 1.5))
    colour = tx.vary(rng, colour, 0.06)
    flat_top = texture(rng, canvas.h, canvas.w, colour)
    # perspective: the far side is narrower
    u = (x - 0.5) / (0.86 + 0.15 * depth) + 0.5
    v = 0.08 + 0.62 * np.log1p(np.maximum(depth - _FAR, 0.0) * 0.9)
    top = bilinear(flat_top, u * canvas.w, v * canvas.h)
    left, right = ((table_edge(_FAR, s) - 0.5, table_edge(_NEAR, s) - 0.5) for s in (-1, 1))
    back, front = ground(_FAR) - 0.5, ground(_NEAR) - 0.5
    for leg in (left[1] + 0.03, right[1] - 0.03):
        canvas.fill(canvas.box(leg, front + 0.3, 0.045, 0.6), tx.shade(colour, 0.35))
    apron = canvas.convex(
        (left[1], front), (right[1], front), (right[1] - 0.004, front + 0.035), (left[1] + 0.004, front + 0.035)
    )
    canvas.fill(apron, tx.shade(colour, 0.5))
    board = canvas.convex((left[0], back), (right[0], back), (right[1], front), (left[1], front))
    light = 0.80 + 0.22 * np.clip(depth, 0, 1) - 0.12 * (x - 0.5)
    canvas.fill(board, top, light)


def _paint_shelf(canvas: ShapeCanvas, plank: float, colour: Colour) -> None:
    y = SHELF_Y - 0.5
    canvas.fill(canvas.box(0, y + 0.028, plank, 0.022), tx.shade(colour, 0.35), 1.0, 0.35)
    canvas.fill(canvas.box(0, y, plank, 0.018), tx.shade(colour, 1.1))
    canvas.fill(canvas.box(0, y + 0.015, plank, 0.018), tx.shade(colour, 0.7))
    for side in (-0.4, 0.4):
        canvas.fill(canvas.box(side * plank, y + 0.045, 0.014, 0.05, 0.004), (0.25, 0.25, 0.27))


def _clutter(rng: Rng, layer: FrameBuffer, plank: float, texels: float) -> None:
    """Small objects that nobody touches: at the ends of the shelf, at the back of the table, on the floor."""
    for _ in range(int(rng.integers(3, 7))):
        sprite = _random_prop(rng, texels, (0.4, 0.7))
        where = int(rng.integers(4))
        if where == 0:
            x, y = 0.5 + (0.5 if rng.random() < 0.5 else -0.5) * (plank - 0.12), SHELF_Y + 0.004
        elif where == 1:
            x, y = float(rng.choice([0.03, 0.97])) + float(rng.normal(0, 0.02)), uniform(rng, 0.76, 0.98)
        else:
            x, y = uniform(rng, 0.15, 0.85), ground(uniform(rng, -0.13, -0.02))
        layer.shadow(x, y, sprite.width * 1.2, 0.02, 0.3)
        layer.draw(sprite, x, y - sprite.height / 2, light=0.85)


def _random_prop(rng: Rng, texels: float, sizes: tuple[float, float]) -> Sprite:
    kind = str(rng.choice(kinds("roller", "thing")))
    return make_prop(rng, kind, str(rng.choice(list(PROPS[kind].colours))), texels, uniform(rng, *sizes))
