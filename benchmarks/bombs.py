"""Video files of a few kilobytes that make a reader allocate gigabytes, unless it checks what they claim.

`bombs` returns those of all containers. Each claims a table with many more entries than the file has room for, a large
unit in a small one, or frames that are much larger than its header says.
"""

import io
import re
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from functools import partial
from typing import Any

import av
import numpy as np

MANY = 50_000_000
FORMATS = {"mkv": "matroska", "ts": "mpegts", "mpg": "mpeg", "wmv": "asf", "ogv": "ogg"}  # FFmpeg's, by suffix
PARENTS = (b"moov", b"trak", b"mdia", b"minf", b"stbl", b"edts", b"moof", b"traf", b"mvex")


def bombs() -> dict[str, bytes]:
    """By names that end with a suffix of the container."""
    found: dict[str, bytes] = {}
    plain, split = encoded("mp4"), encoded("mp4", {"movflags": "frag_keyframe+empty_moov+default_base_moof"})
    for suffix, data in (("mp4", plain), ("mov", encoded("mov")), ("3gp", encoded("3gp", codec="mpeg4"))):
        found[f"constant_size.{suffix}"] = with_samples(data, MANY)
    large = found["constant_size.mp4"]
    found["four_tracks.mp4"] = with_tracks(large, 4)
    found["many_tracks.mp4"] = with_tracks(plain, 900)
    found["sound.mp4"] = replaced(large, b"hdlr", lambda b: b.replace(b"vide", b"soun"))
    found["half_bytes.mp4"] = replaced(large, b"stsz", lambda _: box(b"stz2", struct.pack(">7xBI", 4, MANY)))
    edits = box(b"elst", struct.pack(">4xI", 3000) + 3000 * struct.pack(">Iii", 1000, 0, 1 << 16))
    found["edits.mp4"] = replaced(with_samples(plain, 200_000), b"elst", lambda _: edits)
    found["fragment.mp4"] = replaced(split, b"trun", lambda _: box(b"trun", struct.pack(">II", 0, MANY)))
    found["fragments.mp4"] = with_tracks(split, 100) + 200_000 * box(b"moof", box(b"mfhd", bytes(8)))
    moov = next(data for tag, data in boxes(found["constant_size.mp4"]) if tag == b"moov")
    found["compressed.mp4"] = compressed(plain, moov)
    found["compressed_zeros.mp4"] = compressed(plain, bytes(600_000_000))
    found["keyframes.flv"] = keyframes(encoded("flv"))
    duration, claimed = b"\x3f\x0d\x00\x08", struct.pack(">Q", MANY)
    mxf = encoded("mxf", codec="mpeg2video")
    found["duration.mxf"] = re.sub(re.escape(duration) + b".{8}", lambda _: duration + claimed, mxf, flags=re.S)
    found["zeros.mkv"] = packed_blocks()
    for suffix, codec in (("ts", "libx264"), ("avi", "mjpeg")):
        found[f"growing.{suffix}"] = growing(suffix, codec)
    return found


def encoded(suffix: str, options: Mapping[str, str] | None = None, codec: str = "libx264", frames: int = 12) -> bytes:
    """A small video."""
    file = io.BytesIO()
    with av.open(file, "w", format=FORMATS.get(suffix, suffix), options=dict(options or {})) as container:
        stream: Any = container.add_stream(codec, rate=25)
        stream.width, stream.height = 64, 48
        stream.pix_fmt = "yuvj420p" if codec == "mjpeg" else "yuv420p"
        stream.codec_context.thread_count = 1
        for number in range(frames):
            image = np.full((48, 64, 3), number % 256, np.uint8)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(image, format="rgb24")))
        container.mux(stream.encode())
    return file.getvalue()


def box(tag: bytes, payload: bytes) -> bytes:
    return struct.pack(">I", 8 + len(payload)) + tag + payload


def boxes(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """(tag, payload) of each box of an mp4."""
    at = 0
    while at + 8 <= len(data):
        size, tag = struct.unpack_from(">I4s", data, at)
        yield tag, data[at + 8 : at + size]
        at += size


def replaced(data: bytes, tag: bytes, change: Callable[[bytes], bytes]) -> bytes:
    """The boxes, with `change` of each whole box of this kind."""
    found = b""
    for kind, payload in boxes(data):
        inside = replaced(payload, tag, change) if kind in PARENTS else payload
        found += change(box(kind, inside)) if kind == tag else box(kind, inside)
    return found


def with_samples(data: bytes, count: int) -> bytes:
    """Of one chunk, all of one size and duration."""
    tables = {b"stsz": (8, count), b"stts": (1, count, 1), b"stsc": (1, 1, count, 1)}
    for tag, numbers in tables.items():
        table = box(tag, struct.pack(f">4x{len(numbers)}I", *numbers))
        data = replaced(data, tag, partial(_instead, table))
    return data


def _instead(table: bytes, _: bytes) -> bytes:
    return table


def with_tracks(data: bytes, count: int) -> bytes:
    return replaced(data, b"trak", lambda track: count * track)


def compressed(data: bytes, moov: bytes) -> bytes:
    """An mp4 with another header, compressed."""
    packed = struct.pack(">I", len(moov)) + zlib.compress(moov, 9)
    header = box(b"cmov", box(b"dcom", b"zlib") + box(b"cmvd", packed))
    return b"".join(box(kind, header if kind == b"moov" else inside) for kind, inside in boxes(data))


def keyframes(data: bytes) -> bytes:
    """An flv whose first tag announces many key frames."""
    body = b"\x02\x00\x0aonMetaData\x08\x00\x00\x00\x01\x00\x09keyframes\x03"
    for name in (b"times", b"filepositions"):
        many = struct.pack(">I", 120_000_000)
        body += struct.pack(">H", len(name)) + name + b"\x0a" + many + bytes(18)
    body += b"\x00\x00\x09\x00\x00\x09" + bytes(64)
    tag = b"\x12" + len(body).to_bytes(3, "big") + bytes(7) + body
    at, parts = 13, []
    while at < len(data):
        size = 15 + int.from_bytes(data[at + 1 : at + 4], "big")
        parts.append(data[at : at + size])
        at += size
    return data[:13] + b"".join([*parts[1:4], tag + struct.pack(">I", len(tag)), *parts[4:]])


def element(ident: str, payload: bytes) -> bytes:
    return bytes.fromhex(ident) + (len(payload) | 1 << 56).to_bytes(8, "big") + payload


def packed_blocks() -> bytes:
    """An mkv of blocks that are compressed by a factor of 1000."""
    packing = element("5031", b"\0") + element("5032", b"\1") + element("5033", b"\0")
    encoding = element("6d80", element("6240", packing + element("5034", element("4254", b"\0"))))
    video = element("e0", element("b0", b"\x40") + element("ba", b"\x30"))
    numbers = element("d7", b"\1") + element("73c5", b"\1") + element("83", b"\1")
    track = element("ae", numbers + element("86", b"V_MJPEG") + video + encoding)
    block = b"\x81\0\0\x80" + zlib.compress(bytes(9_000_000), 9)
    cluster = element("1f43b675", element("e7", b"\0") + 30 * element("a3", block))
    info = element("1549a966", element("2ad7b1", b"\x0f\x42\x40"))
    header = element("1a45dfa3", element("4282", b"matroska") + element("4287", b"\4") + element("4285", b"\2"))
    return header + element("18538067", info + element("1654ae6b", track) + cluster)


def growing(suffix: str, codec: str) -> bytes:
    """The header and a few frames are of 64 x 48, those that follow of 8192 x 8000."""
    file = io.BytesIO()
    small, large = (_packets(codec, *size) for size in ((64, 48, 30), (8192, 8000, 3)))
    with av.open(file, "w", format=FORMATS.get(suffix, suffix)) as container:
        stream: Any = container.add_stream(codec, rate=25)
        stream.width, stream.height = 64, 48
        stream.pix_fmt = "yuvj420p" if codec == "mjpeg" else "yuv420p"
        for number, packet in enumerate(small + large):
            packet.pts = packet.dts = number
            packet.time_base, packet.stream = Fraction(1, 25), stream
            container.mux(packet)
    return file.getvalue()


def _packets(codec: str, width: int, height: int, frames: int) -> list[Any]:
    context: Any = av.CodecContext.create(codec, "w")
    context.width, context.height, context.time_base = width, height, Fraction(1, 25)
    context.pix_fmt = "yuvj420p" if codec == "mjpeg" else "yuv420p"
    context.options = {"preset": "ultrafast", "bf": "0", "g": "5"} if codec == "libx264" else {}
    found, frame = [], av.VideoFrame(width, height, context.pix_fmt)
    for plane in frame.planes:
        plane.update(bytes(plane.buffer_size))
    for number in range(frames):
        frame.pts = number
        found += [packet for packet in context.encode(frame) if packet.size]
    return found + [packet for packet in context.encode(None) if packet.size]
