"""Request bodies: bounded, and as temporary files; videos in them are untrusted."""

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

from fastapi import Request
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect

from horst.errors import BusyError, VideoError
from horst.serving.errors import ApiError
from horst.serving.limits import Limits
from horst.video.decode import VideoFile
from horst.video.frame import Size

MAX_SECONDS = 120.0  # computing time for one uploaded video
BINARY = {"schema": {"type": "string", "format": "binary"}}
BINARY_BODY = {"requestBody": {"required": True, "content": {"application/octet-stream": BINARY}}}  # for OpenAPI
# First bytes of containers that hold all of their data. Playlists, which may refer to other files, are never opened.
SIGNATURES = {
    "mp4": lambda b: b[4:8] in (b"ftyp", b"moov", b"mdat", b"free", b"wide", b"skip"),
    "webm": lambda b: b[:4] == b"\x1a\x45\xdf\xa3",
    "avi": lambda b: b[:4] == b"RIFF" and b[8:12] == b"AVI ",
    "ogg": lambda b: b[:4] == b"OggS",
    "mpeg": lambda b: b[:4] in (b"\x00\x00\x01\xba", b"\x00\x00\x01\xb3"),
    "ts": lambda b: len(b) > 188 and b[0] == 0x47 and b[188] == 0x47,
}


class Uploads:
    """Uploaded videos, read one at a time. A few more may wait; any others are rejected as busy."""

    def __init__(self, folder: Path, limits: Limits) -> None:
        """`folder` of the videos while they are read."""
        self.folder, self.limits = folder, limits
        self._places, self._turn = asyncio.Semaphore(limits.uploads), asyncio.Semaphore(1)

    @contextlib.asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """One of the places for uploads; BusyError if there is none."""
        if self._places.locked():
            raise BusyError("other videos are being read: try again later")
        async with self._places:
            yield

    @contextlib.asynccontextmanager
    async def video(self, request: Request) -> AsyncIterator[Path]:
        """The body as a checked temporary file, within a `place`. Errors do not name it."""
        async with uploaded_video(request, self.folder, self.limits.upload_bytes) as path, self._turn:
            try:
                await run_in_threadpool(check_container, path)
                yield path
            except VideoError as error:  # clients must not see paths of the server
                raise ApiError(422, str(error).replace(str(path), "the video"), "video") from error


@contextlib.contextmanager
def open_upload(path: Path, limits: Limits, size: Size | None = None) -> Iterator[VideoFile]:
    """A video whose container was checked; ApiError if its frames are too large."""
    with VideoFile(path, size=size, threads=1) as video:
        if video.info.width * video.info.height > limits.frame_pixels:
            raise ApiError(413, f"the frames have more than {limits.frame_pixels} pixels, which is the limit")
        yield video


def check_duration(video: VideoFile, limits: Limits) -> None:
    """ApiError if a video is known to be too long."""
    seconds = video.info.duration
    if seconds is not None and seconds > limits.video_seconds:
        raise ApiError(413, f"the video lasts {seconds:.0f} s; the limit is {limits.video_seconds:g} s")


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


@contextlib.asynccontextmanager
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
