"""A frame arrives as it was sent, or is refused; containers and pictures are looked at before they are opened."""

from __future__ import annotations

import io
import math
import struct
from pathlib import Path

import pytest
import videos
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image as Pictures

from horst.errors import InputError
from horst.serving.errors import ApiError
from horst.serving.pictures import read_picture
from horst.serving.uploads import check_container
from horst.serving.wire import HEADER, join_frame, split_frame

numbers, moments = st.integers(0, 2**32 - 1), st.floats(allow_nan=False, allow_infinity=False)


@given(numbers, moments, st.binary(min_size=1, max_size=50))
def test_a_frame_arrives_as_it_was_sent(number: int, time: float, picture: bytes) -> None:
    message = join_frame(number, time, picture)
    assert split_frame(message, len(picture)) == (number, time, picture)
    assert message == struct.pack("<I", number) + struct.pack("<d", time) + picture  # what the page's script writes
    with pytest.raises(InputError, match=f"the picture has {len(picture)} bytes; at most {len(picture) - 1}"):
        split_frame(message, len(picture) - 1)


@pytest.mark.parametrize("size", range(HEADER.size + 1))
def test_a_frame_without_a_picture_is_refused(size: int) -> None:
    with pytest.raises(InputError, match=f"header of 12 bytes and a picture after it; this has {size}"):
        split_frame(bytes(size), 100)


@pytest.mark.parametrize("time", [math.nan, math.inf, -math.inf])
def test_a_frame_without_a_time_is_refused(time: float) -> None:
    with pytest.raises(InputError, match="seconds are needed"):
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
def test_containers_are_known_by_their_first_bytes(tmp_path: Path, start: bytes) -> None:
    """Each of them; with any one of its telling bytes changed it is refused, as is what ends before them."""
    path = tmp_path / "body"
    path.write_bytes(start + bytes(16))
    check_container(path)
    for i in [i for i, byte in enumerate(start) if byte and byte != 0x20]:
        path.write_bytes(start[:i] + bytes([start[i] ^ 0xFF]) + start[i + 1 :] + bytes(16))
        with pytest.raises(ApiError, match="no video of a kind that is taken") as told:
            check_container(path)
        assert (told.value.status, told.value.code) == (422, "video")
    path.write_bytes(start[:-1])
    with pytest.raises(ApiError):
        check_container(path)


def test_an_empty_body_is_named(tmp_path: Path) -> None:
    (tmp_path / "body").write_bytes(b"")
    with pytest.raises(ApiError, match="the body is empty") as told:
        check_container(tmp_path / "body")
    assert (told.value.status, told.value.code) == (422, "video")


def test_pictures_up_to_a_size() -> None:
    image = videos.picture(3, 20, 30)
    buffer = io.BytesIO()
    Pictures.fromarray(image).save(buffer, "PNG")
    assert (read_picture(buffer.getvalue(), 600) == image).all()
    assert read_picture(buffer.getvalue(), 600, (10, 12)).shape == (10, 12, 3)
    with pytest.raises(InputError, match="the picture is 30x20; at most 599 pixels"):
        read_picture(buffer.getvalue(), 599)
    other = io.BytesIO()
    Pictures.fromarray(image).save(other, "BMP")
    for data in (other.getvalue(), b"", b"garbage"):
        with pytest.raises(InputError, match="no picture that is taken here: JPEG, PNG, WEBP"):
            read_picture(data, 600)
