"""Request bodies from untrusted clients: read in pieces up to a limit, and stored in a temporary file."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from fastapi import Request
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect

from horst.serving.errors import ApiError

# Containers that hold all of their data. Playlists and scripts, which may refer to other files, are never opened.
SIGNATURES = {
    "mp4": lambda b: b[4:8] in (b"ftyp", b"moov", b"mdat", b"free", b"wide", b"skip"),
    "webm": lambda b: b[:4] == b"\x1a\x45\xdf\xa3",
    "avi": lambda b: b[:4] == b"RIFF" and b[8:12] == b"AVI ",
    "ogg": lambda b: b[:4] == b"OggS",
    "mpeg": lambda b: b[:4] in (b"\x00\x00\x01\xba", b"\x00\x00\x01\xb3"),
    "ts": lambda b: len(b) > 188 and b[0] == 0x47 and b[188] == 0x47,
}


async def read_body(request: Request, max_bytes: int) -> AsyncIterator[bytes]:
    """The body in pieces; raises an error as soon as it is too large."""
    too_large = ApiError(413, f"the body has more than {max_bytes} bytes, which is the limit")
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and int(announced) > max_bytes:
        raise too_large
    size = 0
    try:
        async for piece in request.stream():
            size += len(piece)
            if size > max_bytes:
                raise too_large
            yield piece
    except ClientDisconnect:
        raise ApiError(400, "the body ended early") from None


@asynccontextmanager
async def uploaded_video(request: Request, folder: Path, max_bytes: int) -> AsyncIterator[Path]:
    """The body as a temporary file within `folder`, under a name of our own."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="upload-", dir=folder, ignore_cleanup_errors=True) as own:
        path = Path(own) / "video"
        with path.open("wb") as file:
            async for piece in read_body(request, max_bytes):
                await run_in_threadpool(file.write, piece)
        yield path


def check_container(path: Path) -> None:
    """ApiError unless a file starts like a video of a supported container."""
    with path.open("rb") as file:
        start = file.read(512)
    if not start:
        raise ApiError(422, "the body is empty: send the bytes of a video file", "video")
    if not any(matches(start) for matches in SIGNATURES.values()):
        raise ApiError(422, f"this is not a video in a supported container ({', '.join(SIGNATURES)})", "video")
