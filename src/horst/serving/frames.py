"""Frames on the wire: a number, a time and an encoded image. Needs no torch, as clients import it too."""

import io
import math
import struct
import warnings
from collections.abc import Iterable, Iterator
from typing import Literal

from PIL import Image as Pictures

from horst.errors import InputError
from horst.serving.limits import Limits
from horst.video.decode import resize_image
from horst.video.frame import Image, Size, check_image
from horst.video.images import decode_picture, encode_picture

HEADER = struct.Struct("<Id")  # number, and time in seconds
LENGTH = struct.Struct("<I")  # length of a frame in a recording
FORMATS = ("JPEG", "PNG", "WEBP")  # the only decoders that may see untrusted data
ImageFormat = Literal["jpeg", "png", "webp"]


def join_frame(number: int, time: float, image: bytes) -> bytes:
    """A frame on the wire; `image` is encoded."""
    return HEADER.pack(number, time) + image


def split_frame(message: bytes, max_bytes: int) -> tuple[int, float, bytes]:
    """Number, time and encoded image of a frame."""
    if len(message) <= HEADER.size:
        raise InputError(f"a frame is a header of {HEADER.size} bytes and an image; this has {len(message)} bytes")
    number, time = HEADER.unpack_from(message)
    if not math.isfinite(time):
        raise InputError(f"the frame's time is {time}; it must be a finite number of seconds")
    if len(message) - HEADER.size > max_bytes:
        raise InputError(f"the image has {len(message) - HEADER.size} bytes; the limit is {max_bytes}")
    return number, time, message[HEADER.size :]


def join_recording(times: Iterable[float], images: Iterable[bytes]) -> bytes:
    """A recorded clip, as `split_recording` reads it; `images` are encoded."""
    frames = [join_frame(i, time, image) for i, (time, image) in enumerate(zip(times, images, strict=True))]
    return b"".join(LENGTH.pack(len(frame)) + frame for frame in frames)


def split_recording(body: bytes, limits: Limits) -> Iterator[tuple[float, Image]]:
    """Times and images of a recorded clip: frames, each after its length. Decoded one by one to bound the memory."""
    position = count = 0
    while position < len(body):
        if len(body) - position < LENGTH.size:
            raise InputError(f"the body ends within the length of frame {count}")
        (length,) = LENGTH.unpack_from(body, position)
        position += LENGTH.size
        if length > len(body) - position:
            raise InputError(f"frame {count} has a length of {length} bytes; the body has {len(body) - position} left")
        count += 1
        if count > limits.recording_frames:
            raise InputError(f"the clip has more than {limits.recording_frames} frames, which is the limit")
        _, time, image = split_frame(body[position : position + length], limits.frame_bytes)
        position += length
        yield time, decode_image(image, limits.recording_pixels)
    if not count:
        raise InputError("the body has no frames")


def encode_image(image: Image, format: ImageFormat = "jpeg") -> bytes:
    check_image(image)
    return encode_picture(image, format, **({"quality": 90} if format != "png" else {"compress_level": 1}))


def count_pixels(data: bytes, most: int) -> int:
    """Height times width of an untrusted image, from its header. InputError for other formats, and above `most`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Pictures.DecompressionBombWarning)  # our own limit is stricter
        try:
            with Pictures.open(io.BytesIO(data), formats=FORMATS) as picture:
                width, height = picture.size
        except Exception as error:  # parsers fail in many ways on invalid data
            raise InputError(f"the frame is not an image in a supported format ({', '.join(FORMATS)})") from error
    if width * height > most:
        raise InputError(f"the image has {width}x{height} pixels; the limit is {most}")
    return int(width * height)


def decode_image(data: bytes, max_pixels: int, size: Size | None = None) -> Image:
    """An untrusted image as RGB, resized to `size`. Format and size are checked before anything is decoded."""
    count_pixels(data, max_pixels)
    image = decode_picture(data, "the frame")
    return image if size is None else resize_image(image, size)
