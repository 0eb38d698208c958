"""Painting sprites: anti-aliased shapes from signed distances, shaded by one light."""

from __future__ import annotations

import math

import numpy as np

from horst.synth.render.raster import RGB, RGBA, Array, Plane, Sprite, clamp, make_sprite, smoothstep
from horst.synth.render.textures import Colour

# the light comes from the upper left, slightly from the front
_LIGHT = (-0.45, -0.62, 0.64)
Point = tuple[float, float]


class ShapeCanvas:
    """A transparent image in scene units with (0, 0) in its centre, on which shapes are composited.

    `x` and `y` are the coordinates of every texel. A shape is a plane of signed distances in scene units, negative
    inside. A paint is a colour or an image of the canvas' size.
    """

    def __init__(self, width: float, height: float, texels: float, margin: float = 0.02) -> None:
        self.texels = texels
        self.h, self.w = (max(math.ceil((side + 2 * margin) * texels), 4) for side in (height, width))
        self.body = (width, height)
        self.half = (width / 2, height / 2)
        self.y: Plane = (((np.arange(self.h, dtype=np.float32) + 0.5) - self.h / 2) / texels)[:, None].repeat(self.w, 1)
        self.x: Plane = (((np.arange(self.w, dtype=np.float32) + 0.5) - self.w / 2) / texels)[None].repeat(self.h, 0)
        self.rgba: RGBA = np.zeros((self.h, self.w, 4), np.float32)

    def fill(self, shape: Array, paint: Colour | RGB, light: Array | float = 1.0, opacity: float = 1.0) -> None:
        """Composite a shape, its paint multiplied by the light."""
        alpha = clamp(np.float32(0.5) - shape * np.float32(self.texels), 0.0, 1.0)
        # most shapes are small compared with the canvas
        rows, columns = np.flatnonzero(alpha.any(axis=1)), np.flatnonzero(alpha.any(axis=0))
        if not rows.size:
            return
        box = slice(int(rows[0]), int(rows[-1]) + 1), slice(int(columns[0]), int(columns[-1]) + 1)
        alpha = alpha[box][..., None] * np.float32(opacity)
        lit, colour = np.asarray(light, np.float32), np.asarray(paint, np.float32)
        colour = (colour[box] if colour.ndim == 3 else colour) * (lit[box][..., None] if lit.ndim else lit)
        target = self.rgba[box]
        target *= 1.0 - alpha
        target[..., :3] += clamp(colour, 0.0, 1.0) * alpha
        target[..., 3:] += alpha

    def solid(
        self, shape: Plane, paint: Colour | RGB, depth: float, gloss: float = 0.25, flatness: float = 0.0
    ) -> None:
        """Fill a shape as a bulging surface that rises over `depth` from the edge inwards; gloss adds a highlight."""
        light, shine = self.relief(shape, depth, flatness)
        self.fill(shape, paint, light)
        if gloss > 0.0:
            self.glow(shape, shine * gloss)

    def relief(self, shape: Plane, depth: float, flatness: float = 0.0) -> tuple[Plane, Plane]:
        """Diffuse and specular light on a surface inflated from its outline."""
        down, across = np.gradient(shape)
        length = np.maximum(np.hypot(down, across), 1e-6)
        rim = (1.0 - clamp(-shape / max(depth, 1e-4), 0.0, 1.0)) * (1.0 - flatness)
        nx, ny, nz = across / length * rim, down / length * rim, np.sqrt(np.maximum(1.0 - rim * rim, 0.0))
        toward = nx * _LIGHT[0] + ny * _LIGHT[1] + nz * _LIGHT[2]
        # half way between the light and the viewer
        half = (nx * _LIGHT[0] + ny * _LIGHT[1] + nz * (_LIGHT[2] + 1.0)) / 1.811
        diffuse = 0.50 + 0.68 * np.maximum(toward, 0.0) + 0.06 * toward
        return diffuse.astype(np.float32), (np.maximum(half, 0.0) ** 24).astype(np.float32)

    def glow(self, shape: Plane, strength: Plane | float) -> None:
        """Blend white over what is already painted inside a shape: highlights, glass."""
        alpha = np.clip(0.5 - shape * self.texels, 0.0, 1.0) * strength
        self.rgba[..., :3] += (self.rgba[..., 3:] - self.rgba[..., :3]) * alpha[..., None].astype(np.float32)

    def streak(self, shape: Plane, x: float, width: float, strength: float) -> None:
        """A vertical highlight, as on glaze or metal."""
        gap = np.abs(self.x - x) / width
        self.glow(shape, smoothstep(1.0 - gap) * np.float32(strength))

    def cylinder_light(self, half_width: float) -> Plane:
        """The light across an upright cylinder: bright on the left, dark on the right."""
        t = np.clip(self.x / half_width, -1.0, 1.0)
        facing = np.maximum(-0.55 * t + 0.83 * np.sqrt(1.0 - t * t), 0.0)
        return (0.46 + 0.62 * facing).astype(np.float32)

    def sprite(self, pivot: Point = (0.0, 0.0)) -> Sprite:
        """The image as a sprite; the pivot is a point of the canvas in scene units."""
        at = (self.w / 2 + pivot[0] * self.texels, self.h / 2 + pivot[1] * self.texels)
        return make_sprite(self.rgba, self.texels, pivot=at, body=self.body)

    def ellipse(self, cx: float, cy: float, rx: float, ry: float) -> Plane:
        """Distance to an ellipse, to first order (exact on its outline)."""
        px, py = (self.x - cx) / rx, (self.y - cy) / ry
        k0 = np.hypot(px, py)
        k1 = np.maximum(np.hypot(px / rx, py / ry), 1e-6)
        return np.where(k0 < 1e-3, -min(rx, ry), k0 * (k0 - 1.0) / k1).astype(np.float32)

    def ring(self, cx: float, cy: float, rx: float, ry: float, half_width: float) -> Plane:
        """Distance to the outline of an ellipse, drawn with a pen of twice the half width."""
        return np.abs(self.ellipse(cx, cy, rx, ry)) - np.float32(half_width)

    def box(self, cx: float, cy: float, width: float, height: float, corner: float = 0.0) -> Plane:
        """Distance to a rectangle with round corners."""
        qx, qy = np.abs(self.x - cx) - (width / 2 - corner), np.abs(self.y - cy) - (height / 2 - corner)
        outside = np.hypot(np.maximum(qx, 0.0), np.maximum(qy, 0.0))
        return (outside + np.minimum(np.maximum(qx, qy), 0.0) - corner).astype(np.float32)

    def capsule(self, a: Point, b: Point, ra: float, rb: float | None = None) -> Plane:
        """Distance to a line from a to b with round ends, its radius going from ra to rb."""
        bx, by = b[0] - a[0], b[1] - a[1]
        px, py = self.x - a[0], self.y - a[1]
        t = np.clip((px * bx + py * by) / max(bx * bx + by * by, 1e-9), 0.0, 1.0)
        radius = ra + (0.0 if rb is None else rb - ra) * t
        return (np.hypot(px - bx * t, py - by * t) - radius).astype(np.float32)

    def convex(self, *points: Point, corner: float = 0.0) -> Plane:
        """Distance to a convex polygon, its points in clockwise order on the screen, its corners slightly rounded."""
        sides = []
        for (ax, ay), (bx, by) in zip(points, points[1:] + points[:1], strict=True):
            length = math.hypot(bx - ax, by - ay)
            sides.append(((self.x - ax) * (by - ay) - (self.y - ay) * (bx - ax)) / length)
        stack = np.stack(sides)
        top = stack.max(axis=0)
        if corner > 0.0:  # a soft maximum rounds the corners
            top = top + corner * np.log(np.exp((stack - top) / corner).sum(axis=0))
        return top.astype(np.float32)

    def band(self, shape: Plane, y: float, half_height: float) -> Plane:
        """The part of a shape in a horizontal band."""
        return np.maximum(shape, np.abs(self.y - y) - half_height)
