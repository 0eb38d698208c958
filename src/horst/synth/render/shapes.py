"""Where sprites are painted: anti-aliased shapes from signed distances, with a light that makes them look round."""

from __future__ import annotations

import math

import numpy as np

from horst.synth.render.raster import RGB, RGBA, Plane, Sprite, clamp, make_sprite, smoothstep
from horst.synth.render.textures import COVERS, Colour

# the light comes from the upper left, a little from the front
_LIGHT = (-0.45, -0.62, 0.64)
Paint = Colour | RGB


class Easel:
    """A transparent picture in scene units with (0, 0) in its middle: shapes are filled one over the other.

    `x` and `y` are the coordinates of every texel; distances are planes in scene units, negative inside.
    """

    def __init__(self, width: float, height: float, texels: float, margin: float = 0.02) -> None:
        self.texels = texels
        self.h, self.w = (max(math.ceil((side + 2 * margin) * texels), 4) for side in (height, width))
        self.body = (width, height)
        self.y: Plane = (((np.arange(self.h, dtype=np.float32) + 0.5) - self.h / 2) / texels)[:, None].repeat(self.w, 1)
        self.x: Plane = (((np.arange(self.w, dtype=np.float32) + 0.5) - self.w / 2) / texels)[None].repeat(self.h, 0)
        self.rgba: RGBA = np.zeros((self.h, self.w, 4), np.float32)

    def fill(self, distance: Plane, paint: Paint, light: Plane | float = 1.0, opacity: float = 1.0) -> None:
        """Composite a shape: a colour or a picture of the easel's size, times light."""
        alpha = clamp(np.float32(0.5) - distance * np.float32(self.texels), 0.0, 1.0)
        box = _box_of(alpha)
        if box is None:
            return
        alpha = alpha[box][..., None] * np.float32(opacity)
        lit, colour = np.asarray(light, np.float32), np.asarray(paint, np.float32)
        colour = (colour[box] if colour.ndim == 3 else colour) * (lit[box][..., None] if lit.ndim else lit)
        target = self.rgba[box]
        target *= 1.0 - alpha
        target[..., :3] += clamp(colour, 0.0, 1.0) * alpha
        target[..., 3:] += alpha

    def solid(self, distance: Plane, paint: Paint, depth: float, gloss: float = 0.25, flatness: float = 0.0) -> None:
        """Fill a shape that bulges: its surface rises over `depth` from the edge inwards; gloss adds a highlight."""
        light, shine = self.relief(distance, depth, flatness)
        self.fill(distance, paint, light)
        if gloss > 0.0:
            self.glow(distance, shine * gloss)

    def relief(self, distance: Plane, depth: float, flatness: float = 0.0) -> tuple[Plane, Plane]:
        """Diffuse and specular light on a surface inflated from its outline."""
        down, across = np.gradient(distance)
        length = np.maximum(np.hypot(down, across), 1e-6)
        rim = (1.0 - clamp(-distance / max(depth, 1e-4), 0.0, 1.0)) * (1.0 - flatness)
        nx, ny, nz = across / length * rim, down / length * rim, np.sqrt(np.maximum(1.0 - rim * rim, 0.0))
        toward = nx * _LIGHT[0] + ny * _LIGHT[1] + nz * _LIGHT[2]
        # half way between the light and the eye
        half = (nx * _LIGHT[0] + ny * _LIGHT[1] + nz * (_LIGHT[2] + 1.0)) / 1.811
        diffuse = 0.50 + 0.68 * np.maximum(toward, 0.0) + 0.06 * toward
        return diffuse.astype(np.float32), (np.maximum(half, 0.0) ** 24).astype(np.float32)

    def glow(self, distance: Plane, strength: Plane | float) -> None:
        """Lay white over what is already there, inside a shape: highlights, glass."""
        alpha = np.clip(0.5 - distance * self.texels, 0.0, 1.0) * strength
        self.rgba[..., :3] += (self.rgba[..., 3:] - self.rgba[..., :3]) * alpha[..., None].astype(np.float32)

    def sprite(self, pivot: tuple[float, float] = (0.0, 0.0), body: tuple[float, float] | None = None) -> Sprite:
        """The picture as a sprite; the pivot is a point of the easel in scene units."""
        at = (self.w / 2 + pivot[0] * self.texels, self.h / 2 + pivot[1] * self.texels)
        return make_sprite(self.rgba, self.texels, pivot=at, body=body or self.body)

    def ellipse(self, cx: float, cy: float, rx: float, ry: float) -> Plane:
        """Distance to an ellipse, to first order (exact on its outline)."""
        px, py = (self.x - cx) / rx, (self.y - cy) / ry
        k0 = np.hypot(px, py)
        k1 = np.maximum(np.hypot(px / rx, py / ry), 1e-6)
        return np.where(k0 < 1e-3, -min(rx, ry), k0 * (k0 - 1.0) / k1).astype(np.float32)

    def box(self, cx: float, cy: float, width: float, height: float, corner: float = 0.0) -> Plane:
        """Distance to a rectangle with round corners."""
        qx, qy = np.abs(self.x - cx) - (width / 2 - corner), np.abs(self.y - cy) - (height / 2 - corner)
        outside = np.hypot(np.maximum(qx, 0.0), np.maximum(qy, 0.0))
        return (outside + np.minimum(np.maximum(qx, qy), 0.0) - corner).astype(np.float32)

    def capsule(self, a: tuple[float, float], b: tuple[float, float], ra: float, rb: float | None = None) -> Plane:
        """Distance to a rounded stick from a to b, its radius going from ra to rb."""
        bx, by = b[0] - a[0], b[1] - a[1]
        px, py = self.x - a[0], self.y - a[1]
        t = np.clip((px * bx + py * by) / max(bx * bx + by * by, 1e-9), 0.0, 1.0)
        radius = ra + (0.0 if rb is None else rb - ra) * t
        return (np.hypot(px - bx * t, py - by * t) - radius).astype(np.float32)

    def convex(self, *points: tuple[float, float], corner: float = 0.0) -> Plane:
        """Distance to a convex polygon, its points in clockwise order on the screen; corners a little rounded."""
        sides = []
        for (ax, ay), (bx, by) in zip(points, points[1:] + points[:1], strict=True):
            length = math.hypot(bx - ax, by - ay)
            sides.append(((self.x - ax) * (by - ay) - (self.y - ay) * (bx - ax)) / length)
        stack = np.stack(sides)
        if corner <= 0.0:
            return stack.max(axis=0).astype(np.float32)
        # a soft maximum rounds the corners
        top = stack.max(axis=0)
        return (top + corner * np.log(np.exp((stack - top) / corner).sum(axis=0))).astype(np.float32)


def _box_of(alpha: Plane) -> tuple[slice, slice] | None:
    """The rows and columns where there is anything: most shapes are small against their easel."""
    rows, columns = np.flatnonzero(alpha.any(axis=1)), np.flatnonzero(alpha.any(axis=0))
    if not rows.size:
        return None
    return slice(int(rows[0]), int(rows[-1]) + 1), slice(int(columns[0]), int(columns[-1]) + 1)


def half_size(easel: Easel) -> tuple[float, float]:
    """Half the width and half the height of the body."""
    return easel.body[0] / 2, easel.body[1] / 2


def contrast(colour: Colour) -> Colour:
    """A colour that shows well on this one."""
    return (0.95, 0.93, 0.88) if sum(colour) < 2.1 else (0.25, 0.33, 0.52)


def random_texture(easel: Easel, rng: np.random.Generator, colour: Colour) -> RGB:
    """Any texture, as large as the easel."""
    return COVERS[int(rng.integers(len(COVERS)))](rng, easel.h, easel.w, colour)


def cylinder_light(easel: Easel, half_width: float) -> Plane:
    """The light across an upright cylinder: bright on the left, dark on the right."""
    t = np.clip(easel.x / half_width, -1.0, 1.0)
    facing = np.maximum(-0.55 * t + 0.83 * np.sqrt(1.0 - t * t), 0.0)
    return (0.46 + 0.62 * facing).astype(np.float32)


def streak(easel: Easel, distance: Plane, x: float, width: float, strength: float) -> None:
    """An upright highlight, as on glaze or metal."""
    gap = np.abs(easel.x - x) / width
    easel.glow(distance, smoothstep(1.0 - gap) * np.float32(strength))
