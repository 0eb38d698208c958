"""Files that are unusual rather than damaged: streams that appear late, covers, and pictures of odd shapes."""

from __future__ import annotations

import io
import struct
from pathlib import Path

import av
import numpy as np
import pytest
import videos
from PIL import Image as Pictures

from benchmarks.bombs import encoded
from horst.errors import InputError
from horst.video.decode import VideoFile, resize_image
from horst.video.images import decode_picture


def with_late_sound(data: bytes) -> bytes:
    """An flv in which a stream of sound begins in the middle."""
    at, tags = 13, []
    while at < len(data):
        size = 15 + int.from_bytes(data[at + 1 : at + 4], "big")
        tags.append(data[at : at + size])
        at += size
    body = b"\x2f\xff" + bytes(100)  # mp3
    sound = b"\x08" + len(body).to_bytes(3, "big") + tags[-3][4:8] + bytes(3) + body
    return data[:13] + b"".join([*tags[:-3], sound + struct.pack(">I", len(sound)), *tags[-3:]])


def test_stream_that_appears_late(tmp_path: Path) -> None:
    path = tmp_path / "late.flv"
    path.write_bytes(with_late_sound(encoded("flv", codec="flv", frames=200)))
    with av.open(str(path)) as container, pytest.raises(IndexError):  # what PyAV does
        for _ in container.demux(container.streams.video[0]):
            pass
    with VideoFile(path, threads=1) as video:
        times = [frame.time for frame in video.frames()]
        assert len(times) == 200
        assert video.report.complete
        assert [frame.time for frame in video.frames(7.0)] == times[175:]
        assert video.at([99.0])[0].time == times[-1]


def test_cover_is_no_video(tmp_path: Path) -> None:
    """The cover is the first stream of the file, and is a stream like others."""
    path, clip = tmp_path / "cover.mkv", videos.clip(tmp_path / "clip.mp4", frames=24)
    with av.open(str(clip)) as source, av.open(str(path), "w") as container:
        cover = container.add_stream("mjpeg", rate=1)
        cover.width, cover.height, cover.pix_fmt = 32, 32, "yuvj420p"
        stream = container.add_stream_from_template(source.streams.video[0])
        picture = av.VideoFrame.from_ndarray(np.zeros((32, 32, 3), np.uint8), format="rgb24")
        container.mux(cover.encode(picture))
        for packet in source.demux(video=0):
            if packet.size:
                packet.stream = stream
                container.mux(packet)
    with av.open(str(path)) as container:
        assert container.streams.video[0].codec_context.name == "mjpeg"
    with VideoFile(path) as video:
        assert [videos.number_of(frame.image) for frame in video.frames()] == list(range(24))
        assert video.report.complete
        assert (video.info.width, video.info.height) == (64, 48)


@pytest.mark.filterwarnings("ignore::UserWarning:PIL")
@pytest.mark.parametrize("kind", ["WEBP", "JPEG", "PNG"])
def test_odd_exif(kind: str) -> None:
    """The picture is turned, whatever type of value another entry has."""
    for tag in (0x0100, 0x010F, 0x011A, 0x0131, 0x8769, 0x927C):
        for form in range(14):
            entries = sorted([(0x0112, 3, 1, 6), (tag, form, 1, 6)])
            exif = b"".join([struct.pack("<2sHIH", b"II", 42, 8, 2), *(struct.pack("<HHII", *e) for e in entries)])
            buffer = io.BytesIO()
            Pictures.new("RGB", (6, 4)).save(buffer, kind, exif=b"Exif\0\0" + exif + bytes(40))
            assert decode_picture(buffer.getvalue(), "picture").shape == (6, 4, 3)


@pytest.mark.parametrize("shape", [(20_000, 1, 3), (1, 20_000, 3), (65_000, 1, 3), (2, 40_000, 3)])
def test_long_and_narrow_frames(shape: tuple[int, int, int]) -> None:
    """FFmpeg resizes some of them."""
    errors = []
    for size in ((1, 1), (32, 32), (96, 96), (112, 112), (192, 256), (224, 224)):
        try:
            assert resize_image(np.zeros(shape, np.uint8), size).shape == (*size, 3)
        except InputError as error:
            errors.append(str(error))
    assert errors
    assert all(f"a frame of {shape[1]}x{shape[0]} pixels cannot be resized to " in error for error in errors)
