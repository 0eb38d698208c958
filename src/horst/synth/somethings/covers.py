"""How covers are painted: large hollow things, upside down on the table, that may hide another under or behind them."""

from __future__ import annotations

import math

import numpy as np

from horst.synth.render.raster import smoothstep
from horst.synth.render.shapes import Easel, contrast, cylinder_light, half_size, random_texture, streak
from horst.synth.render.textures import Colour, plain, shade, tinted, value_noise


def bowl(easel: Easel, rng: np.random.Generator, colour: Colour) -> None:
    w, h = half_size(easel)
    easel.solid(easel.box(0, -0.88 * h, 0.8 * w, 0.24 * h, 0.02), shade(colour, 0.8), 0.02, 0.1)
    dome = np.maximum(easel.ellipse(0, 0.95 * h, 0.94 * w, 1.78 * h), easel.y - 0.95 * h).astype(np.float32)
    easel.fill(
        dome, random_texture(easel, rng, colour), easel.relief(easel.ellipse(0, 0.95 * h, 0.94 * w, 1.78 * h), w)[0]
    )
    streak(easel, np.maximum(dome, easel.y - 0.2 * h), -0.42 * w, 0.16 * w, 0.35)
    easel.solid(easel.box(0, 0.89 * h, 2 * w, 0.2 * h, 0.1 * h), shade(colour, 1.25), 0.1 * h, 0.2)


def bucket(easel: Easel, rng: np.random.Generator, colour: Colour) -> None:
    w, h = half_size(easel)
    light = cylinder_light(easel, w)
    body = easel.convex(
        (-0.7 * w, -0.85 * h), (0.7 * w, -0.85 * h), (0.93 * w, 0.95 * h), (-0.93 * w, 0.95 * h), corner=0.004
    )
    easel.fill(body, random_texture(easel, rng, colour), light)
    for y in (-0.35, 0.25):
        easel.fill(np.maximum(body, np.abs(easel.y - y * h) - 0.035 * h), shade(colour, 0.62), light)
    streak(easel, body, -0.45 * w, 0.2 * w, 0.35)
    easel.fill(easel.ellipse(0, -0.85 * h, 0.7 * w, 0.14 * h), shade(colour, 1.2))
    easel.fill(easel.ellipse(0, -0.84 * h, 0.58 * w, 0.10 * h), shade(colour, 0.9))
    easel.fill(easel.box(0, 0.88 * h, 2 * w, 0.22 * h, 0.1 * h), shade(colour, 1.1), light)


def carton(easel: Easel, rng: np.random.Generator, colour: Colour) -> None:
    w, h = half_size(easel)
    dull = (0.5 * colour[0] + 0.36, 0.5 * colour[1] + 0.27, 0.5 * colour[2] + 0.16)
    ribs = 0.97 + 0.03 * np.sin(easel.x * 330.0)
    face = plain(rng, easel.h, easel.w, dull)
    lid = easel.convex((-0.84 * w, -h), (0.84 * w, -h), (w, -0.66 * h), (-w, -0.66 * h))
    easel.fill(lid, np.clip(face * 1.18, 0.0, 1.0))
    front = easel.box(0, 0.17 * h, 2 * w, 1.66 * h, 0.003)
    easel.fill(front, face, (ribs * (0.98 - 0.12 * (easel.y / h))).astype(np.float32))
    easel.fill(np.maximum(lid, np.abs(easel.x) - 0.10 * w), (0.86, 0.78, 0.60))
    easel.fill(np.maximum(np.maximum(front, np.abs(easel.x) - 0.10 * w), easel.y + 0.25 * h), (0.80, 0.71, 0.53))
    easel.fill(easel.box(0.52 * w, 0.5 * h, 0.5 * w, 0.42 * h, 0.003), (0.93, 0.92, 0.88))
    easel.fill(easel.box(0.52 * w, 0.44 * h, 0.36 * w, 0.07 * h), (0.25, 0.25, 0.27))
    easel.fill(easel.box(0.46 * w, 0.58 * h, 0.24 * w, 0.06 * h), (0.25, 0.25, 0.27))


def hat(easel: Easel, rng: np.random.Generator, colour: Colour) -> None:
    w, h = half_size(easel)
    felt = 0.88 + 0.2 * value_noise(rng, easel.h, easel.w, 24.0, 2)
    paint = tinted(colour, felt)
    crown = easel.convex(
        (-0.52 * w, -0.94 * h), (0.52 * w, -0.94 * h), (0.66 * w, 0.75 * h), (-0.66 * w, 0.75 * h), corner=0.01
    )
    easel.fill(crown, paint, cylinder_light(easel, 0.75 * w))
    easel.fill(easel.ellipse(0, -0.84 * h, 0.48 * w, 0.12 * h), shade(colour, 1.12), felt)
    band = np.maximum(crown, np.abs(easel.y - 0.4 * h) - 0.16 * h)
    easel.fill(band, contrast(colour), cylinder_light(easel, 0.75 * w))
    easel.solid(easel.ellipse(0, 0.78 * h, w, 0.22 * h), paint, 0.2 * h, 0.0)


def basket(easel: Easel, rng: np.random.Generator, colour: Colour) -> None:
    w, h = half_size(easel)
    straw = (0.45 * colour[0] + 0.42, 0.45 * colour[1] + 0.31, 0.45 * colour[2] + 0.16)
    u, v = easel.x / w * 6.0, easel.y / h * 5.0
    row = np.floor(v)
    over = np.sin((u + (row % 2)) * math.pi) * 0.5 + 0.5
    round_strand = 1.0 - (2.0 * (v - row) - 1.0) ** 2
    weave = (0.55 + 0.3 * over + 0.25 * round_strand) * cylinder_light(easel, w)
    body = easel.convex(
        (-0.78 * w, -0.92 * h), (0.78 * w, -0.92 * h), (0.94 * w, 0.96 * h), (-0.94 * w, 0.96 * h), corner=0.006
    )
    easel.fill(body, straw, weave.astype(np.float32))
    easel.fill(
        easel.ellipse(0, -0.86 * h, 0.76 * w, 0.13 * h), shade(straw, 1.1), (0.8 + 0.2 * over).astype(np.float32)
    )
    braid = 0.8 + 0.3 * np.abs(np.sin((easel.x / w * 9.0 + easel.y / h * 3.0) * math.pi))
    easel.fill(easel.box(0, 0.86 * h, 2 * w, 0.26 * h, 0.12 * h), straw, braid.astype(np.float32))


def cloth(easel: Easel, rng: np.random.Generator, colour: Colour) -> None:
    """A cloth draped over something (or nothing) that one cannot see."""
    w, h = half_size(easel)
    phase = float(rng.uniform(0.0, 6.28))
    hem = 0.95 * h + 0.05 * h * np.sin(easel.x / w * 9.0 + phase)
    flare = 0.62 + 0.36 * smoothstep(((easel.y / h + 1.0) / 2.0).astype(np.float32)) ** 1.5
    side = np.abs(easel.x) - flare * w + 0.02 * w * np.sin(easel.y / h * 7.0 + phase)
    top = easel.ellipse(0, -0.25 * h, 0.72 * w, 0.75 * h)
    drape = np.minimum(np.maximum(np.maximum(side, easel.y - hem), -0.25 * h - easel.y), top).astype(np.float32)
    # folds fan out from the top and deepen towards the hem
    spread = easel.x / np.maximum(flare * w, 1e-3)
    depth = smoothstep(((easel.y / h + 0.7) / 1.5).astype(np.float32))
    folds = 1.0 - 0.24 * depth * (0.5 + 0.5 * np.sin(spread * 9.0 + phase))
    easel.fill(
        drape, random_texture(easel, rng, colour), (folds * (0.75 * cylinder_light(easel, w) + 0.3)).astype(np.float32)
    )
    easel.fill(
        np.maximum(drape, hem - 0.08 * h - easel.y).astype(np.float32), contrast(colour), folds.astype(np.float32), 0.7
    )
