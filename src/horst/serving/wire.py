"""A frame as it travels: its number, its time, and a picture. Clients need this and no torch."""

from __future__ import annotations

import math
import struct

from horst.errors import InputError

HEADER = struct.Struct("<Id")
"""Of a frame on the wire: its number, and its time in seconds."""


def split_frame(message: bytes, most: int) -> tuple[int, float, bytes]:
    """Number, time and picture of a frame as it is sent."""
    if len(message) <= HEADER.size:
        raise InputError(f"a frame has a header of {HEADER.size} bytes and a picture after it; this has {len(message)}")
    number, time = HEADER.unpack_from(message)
    if not math.isfinite(time):
        raise InputError(f"the frame's time is {time}; seconds are needed")
    if len(message) - HEADER.size > most:
        raise InputError(f"the picture has {len(message) - HEADER.size} bytes; at most {most} are taken")
    return number, time, message[HEADER.size :]


def join_frame(number: int, time: float, picture: bytes) -> bytes:
    return HEADER.pack(number, time) + picture
