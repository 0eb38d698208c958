"""Frames and recordings on the wire; containers and images are checked before they are decoded."""

from __future__ import annotations

import io
import math
import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import videos
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image as Pictures
from servers import SIZE, frame, picture, recording

from horst.errors import InputError
from horst.serving import Limits
from horst.serving.errors import ApiError
from horst.serving.frames import HEADER, decode_image, join_frame, split_frame, split_recording
from horst.serving.uploads import container_format

numbers, moments = st.integers(0, 2**32 - 1), st.floats(allow_nan=False, allow_infinity=False)


@given(numbers, moments, st.binary(min_size=1, max_size=50))
def test_frame_round_trip(number: int, time: float, picture: bytes) -> None:
    message = join_frame(number, time, picture)
    assert split_frame(message, len(picture)) == (number, time, picture)
    assert message == struct.pack("<I", number) + struct.pack("<d", time) + picture  # as the page writes it
    with pytest.raises(InputError, match=f"the image has {len(picture)} bytes; the limit is {len(picture) - 1}"):
        split_frame(message, len(picture) - 1)


@pytest.mark.parametrize("size", range(HEADER.size + 1))
def test_frame_without_image(size: int) -> None:
    with pytest.raises(InputError, match=f"header of 12 bytes and an image; this has {size}"):
        split_frame(bytes(size), 100)


@pytest.mark.parametrize("time", [math.nan, math.inf, -math.inf])
def test_frame_without_time(time: float) -> None:
    with pytest.raises(InputError, match="finite number of seconds"):
        split_frame(join_frame(1, time, b"x"), 100)


STARTS = [
    *(b"\0\0\0\x20" + kind for kind in (b"ftyp", b"moov", b"mdat", b"free", b"wide", b"skip")),
    b"\x1a\x45\xdf\xa3",
    b"RIFF\0\0\0\0AVI ",
    b"OggS",
    b"\0\0\1\xba",
    b"\0\0\1\xb3",
    b"\x47" + bytes(187) + b"\x47",
]


@pytest.mark.parametrize("start", STARTS)
def test_containers_by_signature(tmp_path: Path, start: bytes) -> None:
    """A file with any byte of its signature changed, or one that ends within it, is refused."""
    path = tmp_path / "body"
    path.write_bytes(start + bytes(16))
    container_format(path)
    for i in [i for i, byte in enumerate(start) if byte and byte != 0x20]:
        path.write_bytes(start[:i] + bytes([start[i] ^ 0xFF]) + start[i + 1 :] + bytes(16))
        with pytest.raises(ApiError, match="not a video in a supported container") as error:
            container_format(path)
        assert (error.value.status, error.value.code) == (422, "video")
    path.write_bytes(start[:-1])
    with pytest.raises(ApiError):
        container_format(path)


def test_empty_body(tmp_path: Path) -> None:
    (tmp_path / "body").write_bytes(b"")
    with pytest.raises(ApiError, match="the body is empty") as error:
        container_format(tmp_path / "body")
    assert (error.value.status, error.value.code) == (422, "video")


def test_decode_image() -> None:
    image = videos.picture(3, 20, 30)
    buffer = io.BytesIO()
    Pictures.fromarray(image).save(buffer, "PNG")
    assert (decode_image(buffer.getvalue(), 600) == image).all()
    assert decode_image(buffer.getvalue(), 600, (10, 12)).shape == (10, 12, 3)
    with pytest.raises(InputError, match="the image has 30x20 pixels; the limit is 599"):
        decode_image(buffer.getvalue(), 599)
    other = io.BytesIO()
    Pictures.fromarray(image).save(other, "BMP")
    for data in (other.getvalue(), b"", b"garbage"):
        with pytest.raises(InputError, match="not an image in a supported format"):
            decode_image(data, 600)


LIMITS = Limits()


def test_recording_round_trip() -> None:
    found = list(split_recording(recording(5, fps=10.0, kind="png"), LIMITS))
    assert [time for time, _ in found] == pytest.approx([i / 10 for i in range(5)])
    for i, (_, image) in enumerate(found):
        assert np.array_equal(image, videos.picture(i, *SIZE))


def test_limits_of_recordings() -> None:
    body = recording(4)
    assert len(list(split_recording(body, replace(LIMITS, recording_frames=4)))) == 4
    with pytest.raises(InputError, match="more than 3 frames"):
        list(split_recording(body, replace(LIMITS, recording_frames=3)))
    assert len(list(split_recording(body, replace(LIMITS, recording_pixels=SIZE[0] * SIZE[1])))) == 4
    with pytest.raises(InputError, match="pixels; the limit"):
        list(split_recording(body, replace(LIMITS, recording_pixels=SIZE[0] * SIZE[1] - 1)))
    largest = max(len(picture(i, "jpeg")) for i in range(4))
    assert len(list(split_recording(body, replace(LIMITS, frame_bytes=largest)))) == 4
    with pytest.raises(InputError, match="bytes; the limit"):
        list(split_recording(body, replace(LIMITS, frame_bytes=largest - 1)))


def test_truncated_recordings() -> None:
    """An error wherever the body ends, except between two frames."""
    one = frame(0, 0.0)
    body = 2 * (len(one).to_bytes(4, "little") + one)
    whole = len(body) // 2
    assert len(list(split_recording(body[:whole], LIMITS))) == 1
    for end in (1, 2, 3, 4, 5, whole - 1, whole + 1, whole + 3, whole + 4, len(body) - 1):
        which = (
            "the body ends within the length" if end % whole < 4 else f"has a length of {len(one)} bytes; the body has"
        )
        with pytest.raises(InputError, match=f"{which}.*" + str(end // whole if end % whole < 4 else "")):
            list(split_recording(body[:end], LIMITS))
    with pytest.raises(InputError, match="no frames"):
        list(split_recording(b"", LIMITS))
