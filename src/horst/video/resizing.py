"""Resizing single images, stretched to a size as the frames of a video are."""

import av
import numpy as np

from horst.errors import InputError
from horst.video.frame import Image, Size


def check_image(image: Image) -> None:
    if not isinstance(image, np.ndarray) or image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3:
        found = f"{image.dtype} {image.shape}" if isinstance(image, np.ndarray) else type(image).__name__
        raise InputError(f"the frame is {found}; it must be an image (H, W, 3) of uint8, RGB")


def resize_image(image: Image, size: Size) -> Image:
    """`image` (H, W, 3) uint8 RGB stretched to (height, width); the same object if it has that size already."""
    check_image(image)
    if image.shape[:2] == size:
        return image
    if 0 in image.shape:
        raise InputError(f"the frame has shape {image.shape}: it is empty")
    frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(image), format="rgb24")
    return np.asarray(frame.reformat(width=size[1], height=size[0], format="rgb24").to_ndarray(), np.uint8)
