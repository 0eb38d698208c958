"""A small software rasterizer: it paints sprites from shapes and warps them onto a frame buffer.

Scene units: the square [0, 1] x [0, 1] fills the shorter side of the image, y points down. Images are float32 in
[0, 1]; sprites are premultiplied RGBA, so that bilinear samples have no halo at the edges. Nothing here calls BLAS, so
the pixels do not depend on the number of threads.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from horst.video.frame import Image

# H, W: height, width of an image; h, w: of a sprite, in texels
Array = NDArray[np.floating[Any]]  # of any shape
Plane = NDArray[np.float32]  # (H, W)
RGB = NDArray[np.float32]  # (H, W, 3)
RGBA = NDArray[np.float32]  # (h, w, 4), premultiplied
Point = tuple[float, float]
Colour = tuple[float, float, float]
Paint = Colour | RGB
Rng = np.random.Generator
Planes = NDArray[np.float32]  # (C, H, W): numpy is about six times as fast on planes as on interleaved channels


class Camera(NamedTuple):
    """A camera: the scene point in the centre of the image, and zoom. It is always upright."""

    x: float = 0.5
    y: float = 0.5
    zoom: float = 1.0


class Sprite(NamedTuple):
    """An image with alpha and its mipmap levels. Create it with `make_sprite`."""

    levels: tuple[Planes, ...]  # (4, h, w); level i has 1 / 2^i of the size, and a transparent border of one texel
    texels: float  # texels of level 0 for one scene unit at scale 1
    pivot: Point  # the (x, y) in texels of level 0 that `FrameBuffer.draw` puts at the requested point
    width: float  # width of the body in scene units at scale 1, for geometry (contact, stacking), not for drawing
    height: float


def make_sprite(image: RGB | RGBA, texels: float, *, pivot: Point | None = None, body: Point | None = None) -> Sprite:
    """A sprite of an opaque or a premultiplied image. By default the pivot is its centre and the body all of it."""
    if image.shape[2] == 3:
        image = np.dstack([image, np.ones(image.shape[:2], np.float32)]).astype(np.float32)
    h, w = image.shape[:2]
    levels = [image.transpose(2, 0, 1)]
    while min(levels[-1].shape[1:]) >= 6 and len(levels) < 4:
        even = np.pad(levels[-1], [(0, size % 2) for size in (2, *levels[-1].shape[1:])])
        upper, lower = even[:, ::2], even[:, 1::2]
        total = upper[..., ::2] + upper[..., 1::2] + lower[..., ::2] + lower[..., 1::2]
        levels.append(total * np.float32(0.25))
    bordered = tuple(np.pad(level, ((0, 0), (1, 1), (1, 1))) for level in levels)
    return Sprite(bordered, texels, pivot or (w / 2, h / 2), *(body or (w / texels, h / texels)))


class FrameBuffer:
    """The image being rendered: `pixels` (H, W, 3) float32. One serves all frames of a clip.

    With `alpha` it starts transparent and has (H, W, 4): a layer that becomes a sprite, see `FrameBuffer.sprite`.
    """

    def __init__(self, height: int, width: int, *, alpha: bool = False) -> None:
        self.height, self.width = height, width
        self.unit = float(min(height, width))
        self._planes: Planes = np.zeros((4 if alpha else 3, height, width), np.float32)
        self.camera = Camera()

    @property
    def pixels(self) -> RGB:
        """The image (H, W, 3 or 4): a view, to read and to write."""
        return self._planes.transpose(1, 2, 0)

    def to_pixels(self, x: float, y: float) -> Point:
        """The (column, row) at which the camera shows a scene point."""
        scale = self.unit * self.camera.zoom
        return self.width / 2 + scale * (x - self.camera.x), self.height / 2 + scale * (y - self.camera.y)

    def draw(
        self,
        sprite: Sprite,
        x: float,
        y: float,
        *,
        scale: float = 1.0,
        angle: float = 0.0,
        stretch: Point = (1.0, 1.0),
        opacity: float = 1.0,
        light: float = 1.0,
    ) -> None:
        """Composite a sprite with its pivot at (x, y), stretched and then rotated clockwise by `angle` radians."""
        sx, sy = (scale * s * self.unit * self.camera.zoom / sprite.texels for s in stretch)
        if min(sx, sy) < 1e-3 or opacity <= 0.0:
            return
        coarse = min(max(round(-math.log2(max(sx, sy))), 0), len(sprite.levels) - 1)
        level, shrink = sprite.levels[coarse], 2.0**coarse
        column, row = self.to_pixels(x, y)
        cos, sin = math.cos(angle), math.sin(angle)
        (u0, v0), (_, h, w) = sprite.pivot, sprite.levels[0].shape
        # two texels more on each side, for the border of coarse levels
        corners = [(a * sx, b * sy) for a in (-2 - u0, w - u0) for b in (-2 - v0, h - v0)]
        xs, ys = [column + cos * a - sin * b for a, b in corners], [row + sin * a + cos * b for a, b in corners]
        target, columns, rows = self._window((column, row), xs, ys)
        if not target.size:
            return
        # + 1: every level has a border of one texel
        u0, v0, sx, sy = u0 / shrink + 1.0, v0 / shrink + 1.0, sx * shrink, sy * shrink
        if angle == 0.0:
            u, v = columns / np.float32(sx) + np.float32(u0), rows / np.float32(sy) + np.float32(v0)
            sample = _resample_upright(level, u, v)
        else:
            u = columns[None, :] * np.float32(cos / sx) + (rows * (sin / sx) + u0).astype(np.float32)[:, None]
            v = columns[None, :] * np.float32(-sin / sy) + (rows * (cos / sy) + v0).astype(np.float32)[:, None]
            sample = resample(level, u, v)
        if opacity != 1.0:
            sample *= np.float32(opacity)
        target *= 1.0 - sample[3]
        if light != 1.0:
            sample[:3] *= np.float32(light)
        target += sample[: len(target)]

    def _window(self, centre: Point, xs: Sequence[float], ys: Sequence[float]) -> tuple[Planes, Plane, Plane]:
        """The pixels that points span, and how far their columns and rows are from a (column, row)."""
        left, right = (min(max(edge, 0), self.width) for edge in (math.floor(min(xs)), math.ceil(max(xs))))
        top, bottom = (min(max(edge, 0), self.height) for edge in (math.floor(min(ys)), math.ceil(max(ys))))
        columns = np.arange(left, right, dtype=np.float32) + np.float32(0.5 - centre[0])
        rows = np.arange(top, bottom, dtype=np.float32) + np.float32(0.5 - centre[1])
        return self._planes[:, top:bottom, left:right], columns, rows

    def shadow(self, x: float, y: float, width: float, height: float, strength: float, softness: float = 0.6) -> None:
        """Darken an ellipse with soft edges, for example where an object meets the table."""
        column, row = self.to_pixels(x, y)
        rx, ry = (max(side * 0.5 * self.unit * self.camera.zoom, 0.5) for side in (width, height))
        reach = 1.0 + softness
        xs, ys = (column - rx * reach, column + rx * reach), (row - ry * reach, row + ry * reach)
        target, columns, rows = self._window((column, row), xs, ys)
        radius = np.sqrt((columns / np.float32(rx))[None, :] ** 2 + (rows / np.float32(ry))[:, None] ** 2)
        fall = smoothstep(((reach - radius) / (2.0 * softness)).astype(np.float32)) * np.float32(strength)
        target[:3] *= 1.0 - fall

    def sprite(self) -> Sprite:
        """The image as a sprite. Drawn at the camera's (x, y), it appears in the same place."""
        return make_sprite(self.pixels, self.unit * self.camera.zoom)


def resample(planes: Planes, u: Array, v: Array) -> Planes:
    """Bilinear samples of (C, h, w) at columns u and rows v; texel centres are at half integers, the border extends."""
    channels, h, w = planes.shape
    iu, fu = _split(u, w)
    iv, fv = _split(v, h)
    flat = planes.reshape(channels, h * w)
    index = iv * w + iu
    upper = flat.take(index, axis=1)
    upper += (flat.take(index + 1, axis=1) - upper) * fu
    index += w
    lower = flat.take(index, axis=1)
    lower += (flat.take(index + 1, axis=1) - lower) * fu
    lower -= upper
    lower *= fv
    upper += lower
    return upper


def _resample_upright(planes: Planes, u: Plane, v: Plane) -> Planes:
    """`resample` where u is the same in every row and v in every column: two 1-D passes."""
    iu, fu = _split(u, planes.shape[2])
    iv, fv = _split(v, planes.shape[1])
    planes = planes[:, :, iu[0] : iu[-1] + 2]
    iu -= iu[0]
    rows = planes.take(iv, axis=1)
    rows += (planes.take(iv + 1, axis=1) - rows) * fv[:, None]
    sample: Planes = rows[..., iu]
    sample += (rows[..., iu + 1] - sample) * fu
    return sample


def _split(t: Array, size: int) -> tuple[NDArray[np.intp], Plane]:
    """The texel before each position, and the fraction of the way to the next."""
    t = clamp(t - np.float32(0.5), 0.0, size - 1.001)
    index = t.astype(np.intp)
    t -= index
    return index, t


def smoothstep(t: Array) -> Plane:
    """0 below 0, 1 above 1, smooth in between."""
    t = clamp(t, 0.0, 1.0)
    return t * t * (np.float32(3.0) - np.float32(2.0) * t)


def ease(t: float) -> float:
    """`smoothstep` of a number in [0, 1], in double precision."""
    return t * t * (3.0 - 2.0 * t)


def clamp(t: Array, low: float, high: float) -> NDArray[np.float32]:
    """`np.clip` without its overhead, which dominates for planes as small as these."""
    return np.minimum(np.maximum(t, np.float32(low)), np.float32(high))


def blur(image: Array, radius: int) -> NDArray[np.float32]:
    """Two box blurs of an (H, W) or (H, W, C) image: close to a Gaussian, at the same cost for any radius."""
    window = 2 * radius + 1
    for axis in (0, 1, 0, 1) if radius else ():
        pad = [(0, 0)] * image.ndim
        pad[axis] = (radius + 1, radius)
        sums = np.moveaxis(np.cumsum(np.pad(image, pad, mode="edge"), axis=axis, dtype=np.float64), axis, 0)
        image = np.moveaxis((sums[window:] - sums[:-window]) / window, 0, axis).astype(np.float32)
    return image


class Sensor:
    """The image sensor: vignette, gain, noise, slight blur, quantization to uint8."""

    def __init__(
        self, rng: Rng, height: int, width: int, *, noise: float, vignette: float, tint: Colour = (1.0, 1.0, 1.0)
    ) -> None:
        y = np.linspace(-1.0, 1.0, height, dtype=np.float32)[:, None]
        x = np.linspace(-1.0, 1.0, width, dtype=np.float32)[None, :]
        fade = (1.0 - vignette * (x * x + y * y) / 2) * 255.0
        self._gain: Planes = (fade * np.asarray(tint)[:, None, None]).astype(np.float32)
        # one tile of noise, read at a random offset in every frame: new noise would cost more than the sprites
        self._tile = (rng.standard_normal((3, height + 32, width + 32)) * (noise * 255.0)).astype(np.float32)
        self._tile += 0.5

    def expose(self, rng: Rng, image: RGB, *, gain: float = 1.0, soften: float = 0.0) -> Image:
        """The uint8 image; `gain` is the brightness of this frame, `soften` in [0, 1] blends neighbouring pixels."""
        planes = image.transpose(2, 0, 1)
        _, height, width = planes.shape
        if soften > 0.0:
            planes = planes.copy()
            side = np.float32(soften / 4)
            planes[..., 1:-1] += (planes[..., 2:] + planes[..., :-2] - 2 * planes[..., 1:-1]) * side
            planes[:, 1:-1] += (planes[:, 2:] + planes[:, :-2] - 2 * planes[:, 1:-1]) * side
        top, left = (int(k) for k in rng.integers(0, 33, size=2))
        exposed = planes * (self._gain * np.float32(gain))
        exposed += self._tile[:, top : top + height, left : left + width]
        return clamp(exposed, 0.0, 255.0).astype(np.uint8).transpose(1, 2, 0)


# the light comes from the upper left, slightly from the front
_LIGHT = (-0.45, -0.62, 0.64)


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

    def fill(self, shape: Array, paint: Paint, light: Array | float = 1.0, opacity: float = 1.0) -> None:
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

    def solid(self, shape: Plane, paint: Paint, depth: float, gloss: float = 0.25, flatness: float = 0.0) -> None:
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

    def taper(self, x: float, top: float, y_top: float, bottom: float, y_bottom: float, corner: float = 0.0) -> Plane:
        """Distance to an upright trapezoid around x, of half widths `top` and `bottom`."""
        upper, lower = ((x - top, y_top), (x + top, y_top)), ((x + bottom, y_bottom), (x - bottom, y_bottom))
        return self.convex(*upper, *lower, corner=corner)

    def band(self, shape: Plane, y: float, half_height: float) -> Plane:
        """The part of a shape in a horizontal band."""
        return np.maximum(shape, np.abs(self.y - y) - half_height)
