"""Pictures that strangers send: their kind and size are looked up before anything is decoded."""

from __future__ import annotations

import io
import warnings

from PIL import Image as Pictures
from PIL import UnidentifiedImageError

from horst.errors import InputError
from horst.video.frame import Image
from horst.video.images import decode_picture
from horst.video.resizing import resize_image

KINDS = ("JPEG", "PNG", "WEBP")
"""What Pillow may try: none of its many other readers ever sees a stranger's bytes."""


def read_picture(data: bytes, pixels: int, size: tuple[int, int] | None = None) -> Image:
    """A picture of at most so many pixels, in the model's size."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Pictures.DecompressionBombWarning)  # our own limit is the stricter one
        try:
            with Pictures.open(io.BytesIO(data), formats=KINDS) as picture:
                width, height = picture.size
        except (UnidentifiedImageError, OSError, SyntaxError, ValueError, Pictures.DecompressionBombError) as error:
            raise InputError(f"this is no picture that is taken here: {', '.join(KINDS)}") from error
    if width * height > pixels:
        raise InputError(f"the picture is {width}x{height}; at most {pixels} pixels are taken")
    image = decode_picture(data, "the frame")
    return image if size is None else resize_image(image, size)
