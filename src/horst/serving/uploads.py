"""Bodies that strangers send: read piece by piece up to a limit, into a file of ours that goes away again."""

from __future__ import annotations

import os
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from fastapi import Request
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect

from horst.serving.errors import ApiError

# Containers that hold their video themselves. Playlists and scripts, which may name other files, are never opened.
MAGIC = {
    "mp4": lambda b: b[4:8] in (b"ftyp", b"moov", b"mdat", b"free", b"wide", b"skip"),
    "webm": lambda b: b[:4] == b"\x1a\x45\xdf\xa3",
    "avi": lambda b: b[:4] == b"RIFF" and b[8:12] == b"AVI ",
    "ogg": lambda b: b[:4] == b"OggS",
    "mpeg": lambda b: b[:4] in (b"\x00\x00\x01\xba", b"\x00\x00\x01\xb3"),
    "ts": lambda b: len(b) > 188 and b[0] == 0x47 and b[188] == 0x47,
}


async def pieces(request: Request, most: int) -> AsyncIterator[bytes]:
    """The body as it arrives; refused as soon as it is known to be too large."""
    told = request.headers.get("content-length", "")
    if told.isdecimal() and int(told) > most:
        raise _too_large(most)
    size = 0
    try:
        async for piece in request.stream():
            size += len(piece)
            if size > most:
                raise _too_large(most)
            yield piece
    except ClientDisconnect:
        raise ApiError(400, "request", "the body ended early") from None


async def whole_body(request: Request, most: int) -> bytes:
    return b"".join([piece async for piece in pieces(request, most)])


@asynccontextmanager
async def uploaded(request: Request, folder: Path, most: int) -> AsyncIterator[Path]:
    """The body as a file with a name of our own, for as long as the block lasts."""
    await run_in_threadpool(folder.mkdir, parents=True, exist_ok=True)
    handle, name = await run_in_threadpool(tempfile.mkstemp, prefix="upload-", dir=folder)
    path = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            async for piece in pieces(request, most):
                await run_in_threadpool(file.write, piece)
        yield path
    finally:
        path.unlink(missing_ok=True)


def check_container(path: Path) -> None:
    """Whether a file begins as videos do that hold nothing but themselves."""
    with path.open("rb") as file:
        start = file.read(512)
    if not start:
        raise ApiError(422, "video", "the body is empty: send the bytes of a video file")
    if not any(fits(start) for fits in MAGIC.values()):
        raise ApiError(422, "video", f"this is no video of a kind that is taken: {', '.join(MAGIC)}")


def _too_large(most: int) -> ApiError:
    return ApiError(413, "large", f"the body has more than the {most} bytes that are taken")
