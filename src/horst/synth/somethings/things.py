"""How rollers and things are painted: a function a kind, in the easel's body, base at its lower edge."""

from __future__ import annotations

import math

import numpy as np

from horst.synth.render.raster import smoothstep
from horst.synth.render.shapes import Easel, contrast, cylinder_light, half_size, random_texture, streak
from horst.synth.render.textures import Colour, flat, mix, shade, speckles, tinted, value_noise


def ball(easel: Easel, rng: np.random.Generator, colour: Colour) -> None:
    w, _ = half_size(easel)
    sectors = int(rng.integers(2, 4)) * 2
    turn = np.arctan2(easel.y + 0.15 * w, easel.x - 0.1 * w) + float(rng.uniform(0.0, 6.28))
    bands = smoothstep((np.sin(turn * sectors / 2) * 6.0 + 0.5).astype(np.float32))
    paint = mix(flat(easel.h, easel.w, colour), flat(easel.h, easel.w, contrast(colour)), bands)
    easel.solid(easel.ellipse(0, 0, w, w), paint, w, 0.55)
    easel.solid(easel.ellipse(0.1 * w, -0.15 * w, 0.16 * w, 0.16 * w), contrast(colour), w, 0.2)


def orange(easel: Easel, rng: np.random.Generator, colour: Colour) -> None:
    w, h = half_size(easel)
    pores = 0.90 + 0.16 * value_noise(rng, easel.h, easel.w, 14.0, 1)
    shape = easel.ellipse(0, 0, w, h)
    easel.solid(shape, tinted(colour, pores), w, 0.3)
    easel.fill(easel.ellipse(0.1 * w, -0.62 * h, 0.16 * w, 0.1 * h), (0.30, 0.38, 0.13))
    easel.solid(easel.capsule((0.15 * w, -0.68 * h), (0.62 * w, -0.72 * h), 0.1 * w, 0.04 * w), (0.25, 0.55, 0.2), 0.01)


def apple(easel: Easel, rng: np.random.Generator, colour: Colour) -> None:
    w, h = half_size(easel)
    shape = np.minimum(
        easel.ellipse(-0.24 * w, 0.05 * h, 0.76 * w, 0.93 * h), easel.ellipse(0.24 * w, 0.05 * h, 0.76 * w, 0.93 * h)
    )
    blush = value_noise(rng, easel.h, easel.w, 3.0, 2)
    warm = mix(flat(easel.h, easel.w, colour), flat(easel.h, easel.w, (0.93, 0.80, 0.35)), blush * 0.35)
    easel.solid(shape, warm, 0.8 * w, 0.5)
    easel.fill(easel.ellipse(0, -0.72 * h, 0.2 * w, 0.08 * h), shade(colour, 0.5))
    easel.fill(easel.capsule((0, -0.72 * h), (0.1 * w, -1.0 * h), 0.05 * w), (0.33, 0.22, 0.12))


def wheel(easel: Easel, rng: np.random.Generator, colour: Colour) -> None:
    w, _ = half_size(easel)
    easel.solid(easel.ellipse(0, 0, w, w), (0.16, 0.16, 0.17), 0.3 * w, 0.35)
    easel.solid(easel.ellipse(0, 0, 0.68 * w, 0.68 * w), colour, 0.3 * w, 0.4)
    spokes = int(rng.integers(3, 6))
    for k in range(spokes):
        turn = 2 * math.pi * k / spokes
        easel.fill(
            easel.ellipse(0.38 * w * math.cos(turn), 0.38 * w * math.sin(turn), 0.15 * w, 0.15 * w), shade(colour, 0.4)
        )
    easel.solid(easel.ellipse(0, 0, 0.16 * w, 0.16 * w), (0.8, 0.8, 0.8), 0.1 * w, 0.4)


def cup(easel: Easel, rng: np.random.Generator, colour: Colour) -> None:
    w, h = half_size(easel)
    ring = np.abs(easel.ellipse(0.52 * w, 0.02 * h, 0.40 * w, 0.50 * h)) - np.float32(0.10 * w)
    easel.solid(ring, shade(colour, 0.92), 0.1 * w, 0.2)
    body = easel.convex((-0.95 * w, -0.85 * h), (0.55 * w, -0.85 * h), (0.42 * w, h), (-0.82 * w, h), corner=0.004)
    tilt = cylinder_light(easel, w)
    easel.fill(body, colour, tilt)
    easel.fill(np.maximum(body, np.abs(easel.y - 0.1 * h) - 0.16 * h), contrast(colour), tilt)
    streak(easel, body, -0.6 * w, 0.22 * w, 0.4)
    easel.fill(easel.ellipse(-0.2 * w, -0.85 * h, 0.75 * w, 0.15 * h), shade(colour, 1.35))
    easel.fill(easel.ellipse(-0.2 * w, -0.83 * h, 0.64 * w, 0.10 * h), shade(colour, 0.38))


def bottle(easel: Easel, rng: np.random.Generator, colour: Colour) -> None:
    w, h = half_size(easel)
    body = np.minimum(
        easel.box(0, 0.28 * h, 2 * w, 1.42 * h, 0.5 * w), easel.box(0, -0.6 * h, 0.8 * w, 0.8 * h, 0.1 * w)
    )
    light = cylinder_light(easel, w)
    easel.fill(body, colour, light)
    easel.fill(np.maximum(body, np.abs(easel.y - 0.38 * h) - 0.28 * h), contrast(colour), light)
    easel.fill(np.maximum(body, np.abs(easel.y - 0.38 * h) - 0.07 * h), shade(colour, 0.7), light)
    streak(easel, body, -0.5 * w, 0.25 * w, 0.45)
    easel.fill(easel.box(0, -0.89 * h, 0.95 * w, 0.2 * h, 0.1 * w), shade(contrast(colour), 0.8), light)


def book(easel: Easel, rng: np.random.Generator, colour: Colour) -> None:
    w, h = half_size(easel)
    easel.solid(easel.box(0.02 * w, 0, 1.96 * w, 2 * h, 0.006), shade(colour, 0.62), 0.01, 0.0)
    easel.fill(easel.box(0.1 * w, -0.93 * h, 1.7 * w, 0.12 * h), (0.94, 0.92, 0.85))
    cover = easel.box(0, 0.05 * h, 2 * w, 1.9 * h, 0.006)
    easel.solid(cover, random_texture(easel, rng, colour), 0.012, 0.15, 0.3)
    easel.fill(np.maximum(cover, easel.x + 0.74 * w), shade(colour, 0.72))
    easel.fill(easel.box(0.14 * w, -0.3 * h, 1.2 * w, 0.5 * h, 0.004), (0.95, 0.93, 0.86))
    easel.fill(easel.box(0.14 * w, -0.36 * h, 0.9 * w, 0.1 * h), shade(colour, 0.5))
    easel.fill(easel.box(0.14 * w, -0.2 * h, 0.6 * w, 0.07 * h), shade(colour, 0.5))


def box(easel: Easel, rng: np.random.Generator, colour: Colour) -> None:
    w, h = half_size(easel)
    paint = random_texture(easel, rng, colour)
    lid = easel.convex((-0.72 * w, -h), (0.92 * w, -h), (w, -0.58 * h), (-w, -0.58 * h))
    easel.fill(lid, np.clip(paint * 1.12 + 0.1, 0.0, 1.0))
    front = easel.box(0, 0.2 * h, 2 * w, 1.6 * h, 0.004)
    easel.solid(front, paint, 0.012, 0.1, 0.35)
    ribbon = shade(contrast(colour), 0.95)
    easel.fill(np.maximum(front, np.abs(easel.x) - 0.14 * w), ribbon, 0.93)
    easel.fill(np.maximum(lid, np.abs(easel.x - 0.02 * w) - 0.13 * w), ribbon)


def can(easel: Easel, rng: np.random.Generator, colour: Colour) -> None:
    w, h = half_size(easel)
    body = easel.box(0, 0.05 * h, 2 * w, 1.9 * h, 0.25 * w)
    light = cylinder_light(easel, w)
    easel.fill(body, (0.74, 0.75, 0.77), light)
    label = np.maximum(body, np.abs(easel.y - 0.05 * h) - 0.68 * h)
    easel.fill(label, colour, light)
    wave = easel.y - 0.1 * h - 0.16 * h * np.sin(easel.x / w * 2.5 + float(rng.uniform(0, 6.28)))
    easel.fill(np.maximum(label, np.abs(wave).astype(np.float32) - 0.14 * h), contrast(colour), light)
    streak(easel, body, -0.5 * w, 0.3 * w, 0.5)
    easel.fill(easel.ellipse(0, -0.84 * h, 0.92 * w, 0.14 * h), (0.86, 0.87, 0.88))
    easel.fill(easel.ellipse(0, -0.83 * h, 0.74 * w, 0.09 * h), (0.58, 0.59, 0.61))


def car(easel: Easel, rng: np.random.Generator, colour: Colour) -> None:
    w, h = half_size(easel)
    easel.solid(easel.box(-0.06 * w, -0.42 * h, 1.1 * w, 1.1 * h, 0.35 * h), shade(colour, 0.9), 0.4 * h, 0.2)
    easel.fill(easel.box(-0.30 * w, -0.40 * h, 0.42 * w, 0.58 * h, 0.1 * h), (0.70, 0.85, 0.92))
    easel.fill(easel.box(0.20 * w, -0.40 * h, 0.40 * w, 0.58 * h, 0.1 * h), (0.62, 0.78, 0.88))
    easel.solid(easel.box(0, 0.2 * h, 2 * w, 0.86 * h, 0.3 * h), colour, 0.4 * h, 0.5)
    easel.fill(easel.box(0.9 * w, 0.1 * h, 0.14 * w, 0.22 * h, 0.02 * w), (1.0, 0.93, 0.6))
    for side in (-0.52, 0.52):
        easel.solid(easel.ellipse(side * w, 0.62 * h, 0.38 * h, 0.38 * h), (0.14, 0.14, 0.15), 0.2 * h, 0.3)
        easel.fill(easel.ellipse(side * w, 0.62 * h, 0.17 * h, 0.17 * h), (0.78, 0.78, 0.8))


def block(easel: Easel, rng: np.random.Generator, colour: Colour) -> None:
    w, h = half_size(easel)
    easel.fill(
        easel.convex((-0.7 * w, -h), (w, -h), (w, -0.7 * h), (0.7 * w, -0.62 * h), (-w, -0.62 * h)), shade(colour, 1.3)
    )
    easel.fill(easel.convex((0.7 * w, -0.62 * h), (w, -h), (w, 0.66 * h), (0.7 * w, h)), shade(colour, 0.62))
    easel.fill(easel.box(-0.15 * w, 0.19 * h, 1.7 * w, 1.62 * h, 0.004), colour, 0.95)
    dot = contrast(colour)
    for dx, dy in ((-0.65, -0.3), (0.35, -0.3), (-0.15, 0.2), (-0.65, 0.7), (0.35, 0.7)):
        easel.fill(easel.ellipse(dx * w, dy * h, 0.15 * w, 0.15 * h), dot)


def jar(easel: Easel, rng: np.random.Generator, colour: Colour) -> None:
    w, h = half_size(easel)
    body = easel.box(0, 0.16 * h, 2 * w, 1.68 * h, 0.4 * w)
    light = cylinder_light(easel, w)
    easel.fill(body, (0.82, 0.88, 0.88), light)
    inside = np.maximum(easel.box(0, 0.2 * h, 1.7 * w, 1.5 * h, 0.35 * w), -easel.y - 0.25 * h)
    easel.fill(inside, speckles(rng, easel.h, easel.w, colour), light)
    streak(easel, body, -0.6 * w, 0.2 * w, 0.6)
    easel.fill(easel.box(0, -0.82 * h, 1.5 * w, 0.36 * h, 0.1 * w), shade(colour, 0.75), light)


def duck(easel: Easel, rng: np.random.Generator, colour: Colour) -> None:
    w, h = half_size(easel)
    easel.solid(
        easel.convex((-w, -0.15 * h), (-0.3 * w, 0.1 * h), (-0.5 * w, 0.7 * h), corner=0.008), colour, 0.1 * w, 0.1
    )
    easel.solid(easel.ellipse(-0.1 * w, 0.42 * h, 0.85 * w, 0.58 * h), colour, 0.6 * h, 0.35)
    easel.solid(easel.ellipse(0.35 * w, -0.42 * h, 0.46 * w, 0.56 * h), colour, 0.5 * h, 0.35)
    beak = contrast(colour) if colour[0] > 0.88 and colour[2] < 0.3 and colour[1] < 0.6 else (0.94, 0.5, 0.12)
    easel.solid(easel.ellipse(0.84 * w, -0.34 * h, 0.2 * w, 0.12 * h), beak, 0.1 * w, 0.2)
    easel.fill(easel.ellipse(0.48 * w, -0.55 * h, 0.09 * w, 0.11 * h), (0.08, 0.08, 0.1))
    easel.solid(easel.ellipse(-0.25 * w, 0.32 * h, 0.42 * w, 0.28 * h), shade(colour, 0.86), 0.2 * h, 0.1)
