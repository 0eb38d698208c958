"""Named colours, procedural textures and random choices."""

import math
from collections.abc import Sequence
from functools import partial
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from horst.synth.render.raster import RGB, Array, Colour, Plane, Rng, blur, smoothstep

T = TypeVar("T")

COLOURS: dict[str, Colour] = {
    "red": (0.83, 0.18, 0.17), "orange": (0.93, 0.51, 0.14), "yellow": (0.95, 0.79, 0.22), "green": (0.27, 0.62, 0.29),
    "teal": (0.13, 0.58, 0.58), "blue": (0.17, 0.39, 0.76), "purple": (0.49, 0.28, 0.66), "pink": (0.93, 0.53, 0.66),
    "brown": (0.49, 0.32, 0.20), "white": (0.92, 0.91, 0.88), "grey": (0.55, 0.56, 0.58), "black": (0.16, 0.16, 0.18),
}  # fmt: skip
WOODS: tuple[Colour, ...] = ((0.72, 0.52, 0.33), (0.55, 0.36, 0.21), (0.83, 0.68, 0.48), (0.42, 0.27, 0.17))
WALLS: tuple[Colour, ...] = (
    (0.80, 0.76, 0.68), (0.62, 0.70, 0.72), (0.73, 0.79, 0.70), (0.84, 0.72, 0.66), (0.50, 0.56, 0.66),
    (0.70, 0.67, 0.76), (0.42, 0.47, 0.46),
)  # fmt: skip
# the textures of each kind of surface; one that is listed twice is more frequent
TABLES = ("wood", "wood", "checks", "speckles", "tiles", "stripes", "plain")
WALLPAPERS = ("plaster", "plaster", "stripes", "tiles", "dots", "gradient", "speckles")
FABRICS = ("plain", "checks", "stripes", "dots", "speckles", "gradient")


def choose(rng: Rng, options: Sequence[T]) -> T:
    return options[int(rng.integers(len(options)))]


def choose_colour(rng: Rng) -> Colour:
    return choose(rng, list(COLOURS.values()))


def choose_texture(rng: Rng, height: int, width: int, colour: Colour) -> RGB:
    return texture(choose(rng, FABRICS), rng, height, width, colour)


def shade(colour: Colour, factor: float) -> Colour:
    """The colour, darker (factor < 1) or lighter (towards white, factor > 1)."""
    t = min(factor - 1.0, 1.0)
    r, g, b = (c * factor if factor <= 1.0 else c + (1 - c) * t for c in colour)
    return r, g, b


def vary(rng: Rng, colour: Colour, amount: float = 0.05) -> Colour:
    """The colour with a small random change, so that no two red cups are alike."""
    r, g, b = (float(np.clip(c + rng.uniform(-amount, amount), 0.02, 0.98)) for c in colour)
    return r, g, b


def contrast(colour: Colour) -> Colour:
    """A colour that stands out against this one."""
    return (0.95, 0.93, 0.88) if sum(colour) < 2.1 else (0.25, 0.33, 0.52)


def value_noise(rng: Rng, height: int, width: int, cells: float, octaves: int = 3) -> Plane:
    """Smooth noise in [0, 1]: `cells` bumps along the longer side, and finer octaves of half the weight each."""
    total, longest = np.zeros((height, width), np.float32), max(height, width)
    for octave in range(octaves):
        size = longest / (cells * 2**octave)
        if size < 1.0 and octave > 0:
            break
        total += np.float32(0.5**octave) * _lattice(rng, height, width, max(size, 1.0))
    low, high = float(total.min()), float(total.max())
    return ((total - low) / max(high - low, 1e-6)).astype(np.float32)


def _lattice(rng: Rng, height: int, width: int, size: float) -> Plane:
    """Random values on a lattice of `size` pixels, smoothly interpolated: rows first, then columns."""
    rows, columns = math.ceil(height / size) + 2, math.ceil(width / size) + 2
    knots = rng.random((rows, columns), dtype=np.float32)
    y, x = np.arange(height, dtype=np.float32) / size, np.arange(width, dtype=np.float32) / size
    iy, ix = y.astype(np.intp), x.astype(np.intp)
    fy, fx = smoothstep(y - iy)[:, None], smoothstep(x - ix)[None, :]
    lines = knots[iy] * (1 - fy) + knots[iy + 1] * fy
    return (lines[:, ix] * (1 - fx) + lines[:, ix + 1] * fx).astype(np.float32)


def tinted(colour: Colour, light: Array) -> RGB:
    """A colour times a plane of light, clipped to [0, 1]."""
    return np.clip(light[..., None] * np.asarray(colour, np.float32), 0.0, 1.0).astype(np.float32)


def mix(a: Colour | RGB, b: Colour | RGB, t: Plane) -> RGB:
    """a where t is 0, b where t is 1."""
    start, end = np.asarray(a, np.float32), np.asarray(b, np.float32)
    return (start + (end - start) * t[..., None]).astype(np.float32)


def texture(name: str, rng: Rng, height: int, width: int, colour: Colour) -> RGB:
    """An image (H, W, 3) of a material."""
    longest, noise = max(height, width), partial(value_noise, rng, height, width)
    match name:
        case "plain":  # nearly one colour, with faint clouds: paint, plastic
            return tinted(colour, 0.94 + 0.12 * noise(4.0, 2))
        case "plaster":  # a painted wall: broad clouds and fine grain
            return tinted(colour, 0.86 + 0.16 * noise(3.0, 3) + 0.06 * noise(60.0, 1))
        case "wood":  # planks along x with wavy grain
            y = np.linspace(0.0, 1.0, height, dtype=np.float32)[:, None]
            warp = noise(2.5, 2)
            # noise that is much finer across the grain than along it
            fibre = _lattice(rng, height, max(width // 12, 2), 1.6)
            fibre = fibre[:, np.minimum(np.arange(width) // 12, fibre.shape[1] - 1)]
            rings = 0.5 + 0.5 * np.sin((y * rng.uniform(9.0, 16.0) + warp * 1.6) * 2 * math.pi)
            light = 0.80 + 0.16 * rings * (0.5 + 0.5 * warp) + 0.14 * blur(fibre.astype(np.float32), 1)
            planks = int(rng.integers(2, 5))
            row = y * planks + rng.random()
            seam = np.abs(row - np.round(row)) * height / planks
            tone = 0.94 + 0.12 * rng.random(planks + 2, dtype=np.float32)
            light = light * tone[np.floor(row).astype(np.intp)] * (1.0 - 0.35 * smoothstep(1.6 - seam))
            return tinted(colour, light.astype(np.float32))
        case "granite":  # a stone worktop: fine dark and light grains over faint clouds
            grain = blur(rng.random((height, width), dtype=np.float32), 1)
            clouds = noise(7.0, 3)
            spots = (grain > np.quantile(grain, 0.93)) * np.float32(0.28)
            spots -= (grain < np.quantile(grain, 0.08)) * np.float32(0.34)
            return tinted(colour, 0.90 + 0.16 * clouds + blur(spots, 1) * 1.6)
        case "checks":  # a gingham cloth: two sets of bands, woven
            period = longest / rng.uniform(5.0, 11.0)
            bands = _bands(width, period, rng.random())[None, :] + _bands(height, period, rng.random())[:, None]
            weave = 0.96 + 0.06 * noise(longest / 2.0, 1)
            return mix(shade(colour, 1.75), colour, (bands * 0.5).astype(np.float32)) * weave[..., None]
        case "stripes":  # slanted bands of the colour and a light one
            turn = rng.uniform(0.0, math.pi)
            y, x = np.mgrid[0:height, 0:width].astype(np.float32)
            along = (x * math.cos(turn) + y * math.sin(turn)) / longest * rng.uniform(4.0, 9.0)
            band = smoothstep((np.sin(along * 2 * math.pi) * 3.0 + 0.5).astype(np.float32))
            return mix(colour, shade(colour, 1.7 if sum(colour) < 2.2 else 0.6), band)
        case "speckles":  # terrazzo: a light ground with blobs of the colour and a darker one
            blobs = [noise(longest / 6.0 * size, 1) - level for size, level in ((1.0, 0.72), (0.7, 0.78))]
            first, second = (smoothstep((plane * 12.0 + 0.5).astype(np.float32)) for plane in blobs)
            ground = texture("plain", rng, height, width, shade(colour, 1.45))
            return mix(mix(ground, colour, first), shade(colour, 0.55), second)
        case "dots":  # polka dots on a staggered lattice
            pitch = longest / rng.uniform(4.0, 8.0)
            y, x = np.mgrid[0:height, 0:width].astype(np.float32) / np.float32(pitch)
            row = np.floor(y)
            gap = np.hypot((x + 0.5 * (row % 2)) % 1.0 - 0.5, y - row - 0.5) * pitch
            spots = smoothstep((pitch * 0.27 - gap + 0.5).astype(np.float32))
            ground = texture("plain", rng, height, width, colour)
            return mix(ground, shade(colour, 1.8 if sum(colour) < 2.2 else 0.5), spots)
        case "tiles":  # square, with light joints, each a little different
            pitch = longest / rng.uniform(4.0, 8.0)
            y, x = np.mgrid[0:height, 0:width].astype(np.float32) / np.float32(pitch)
            iy, ix = y.astype(np.intp), x.astype(np.intp)
            tone = 0.88 + 0.2 * rng.random((int(iy.max()) + 1, int(ix.max()) + 1), dtype=np.float32)
            joint = np.minimum(np.abs(x - np.round(x)), np.abs(y - np.round(y))) * pitch
            return mix(shade(colour, 1.55), tinted(colour, tone[iy, ix]), smoothstep((joint - 0.3).astype(np.float32)))
        case "gradient":  # from a lighter to a darker tone, in a random direction
            turn = rng.uniform(0.0, 2 * math.pi)
            y, x = np.mgrid[-1 : 1 : height * 1j, -1 : 1 : width * 1j].astype(np.float32)
            t = 0.5 + 0.35 * (x * math.cos(turn) + y * math.sin(turn))
            return tinted(colour, np.clip(0.75 + 0.45 * t, 0.0, 1.4).astype(np.float32))
    raise ValueError(f"there is no texture {name!r}")


def _bands(size: int, period: float, phase: float) -> NDArray[np.float32]:
    t = (np.arange(size, dtype=np.float32) / np.float32(period) + np.float32(phase)) % 1.0
    edge = np.float32(1.0 / period)
    return smoothstep((0.25 - np.abs(t - 0.5)) / edge + 0.5)
