"""Frames as small JPEG pictures in the text of a page, as they are, dimmed, or under a map of heat."""

from __future__ import annotations

import base64
import io

import numpy as np
from numpy.typing import NDArray
from PIL import Image as Pictures

QUALITY = 82
PLASMA = "0d0887 5402a3 8b0aa5 b93289 db5c68 f48849 febc2b f0f921"
"""From cold to hot: colours that get lighter throughout, so that they survive a grey print."""
HEAT = np.array([list(bytes.fromhex(colour)) for colour in PLASMA.split()], np.float64)
"""(colours, 3)"""

Image = NDArray[np.uint8]


def picture(image: Image, width: int | None = None) -> str:
    """A frame (H, W, 3) as a data address; scaled down where it is wider than `width`."""
    buffer = io.BytesIO()
    Pictures.fromarray(_scaled(image, width)).save(buffer, "JPEG", quality=QUALITY, optimize=True)
    return "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode()


def dimmed(image: Image, light: float) -> Image:
    """As bright as `light`, in 0..1."""
    return (image * float(np.clip(light, 0, 1))).round().astype(np.uint8)


def heated(image: Image, heat: NDArray[np.floating], width: int | None = None) -> Image:
    """A map (h, w) in 0..1 over a frame: smooth, hot where it is high; the frame is grey beneath."""
    image = _scaled(image, width)
    small = Pictures.fromarray(np.asarray(heat, np.float32))
    smooth = np.asarray(small.resize((image.shape[1], image.shape[0]), Pictures.Resampling.BICUBIC))
    grey = np.asarray(Pictures.fromarray(image).convert("L"), np.float64)[..., None]
    mixed = 0.48 * grey + 0.52 * heat_colour(np.clip(smooth, 0, 1))
    return mixed.round().astype(np.uint8)


def heat_colour(values: NDArray[np.floating]) -> NDArray[np.float64]:
    """(..., 3) in 0..255 for values in 0..1."""
    places = np.linspace(0, 1, len(HEAT))
    return np.stack([np.interp(values, places, HEAT[:, channel]) for channel in range(3)], -1)


def _scaled(image: Image, width: int | None) -> Image:
    if width is None or image.shape[1] <= width:
        return image
    height = max(1, round(image.shape[0] * width / image.shape[1]))
    return np.asarray(Pictures.fromarray(image).resize((width, height), Pictures.Resampling.BOX))
