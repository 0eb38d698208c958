"""Request bodies: bounded, and as temporary files; videos in them are untrusted.

A body arrives on disk first, so that a slow client holds nothing but its file. Then it gets a place, or is rejected as
busy, and waits for its turn: bodies are read one at a time. What reads it calls `check` for every frame, which raises
an error when the client has left, when the server stops, and when it has taken too long.
"""

import asyncio
import contextlib
import shutil
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import TypeVar

from fastapi import Request
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect

from horst.errors import BusyError, VideoError
from horst.serving.errors import ApiError
from horst.serving.limits import Limits
from horst.serving.rate_limiter import RateLimiter
from horst.video.decode import VideoFile
from horst.video.frame import Frame, Size

MAX_SECONDS = 120.0  # computing time for one body
BODY_RATE = 64 << 20  # bytes per second of all bodies: reading them takes time from the sessions
MIN_RATE = 16 << 10  # bytes per second of a body, on average
POLL = 0.25  # seconds between two looks whether the client is still there
OLD = 3600.0  # seconds after which a file was left by a process that was killed
# FFmpeg's names and the first bytes of containers that hold all of their data. FFmpeg does not guess the format: it
# takes text within a video for a playlist, which may refer to other files and hosts.
SIGNATURES: dict[str, Callable[[bytes], bool]] = {
    "mp4": lambda b: b[4:8] in (b"ftyp", b"moov", b"mdat", b"free", b"wide", b"skip"),
    "webm": lambda b: b[:4] == b"\x1a\x45\xdf\xa3",
    "avi": lambda b: b[:4] == b"RIFF" and b[8:12] == b"AVI ",
    "ogg": lambda b: b[:4] == b"OggS",
    "mpeg": lambda b: b[:4] == b"\x00\x00\x01\xba",
    "mpegvideo": lambda b: b[:4] == b"\x00\x00\x01\xb3",
    "mpegts": lambda b: len(b) > 188 and b[0] == 0x47 and b[188] == 0x47,
}
Check = Callable[[], None]
T = TypeVar("T")


class Uploads:
    """Bodies of one kind."""

    def __init__(self, folder: Path, limits: Limits, places: int, stopped: threading.Event) -> None:
        """`folder` of the bodies while they are read; `places` for those that have arrived."""
        self.folder, self.limits = folder, limits
        self._bodies, self._places = asyncio.Semaphore(limits.bodies), asyncio.Semaphore(places)
        self._turn, self._stopped = asyncio.Semaphore(1), stopped
        self._arriving = RateLimiter(BODY_RATE, BODY_RATE / 16)
        for left in folder.glob("upload-*"):
            if time.time() - left.stat().st_mtime > OLD:
                shutil.rmtree(left, ignore_errors=True)

    async def run(self, request: Request, work: Callable[[Path, Check], T]) -> T:
        """The result of `work` on the file of the body, in a thread. Errors do not name the file."""
        if self._places.locked():  # before it is sent for nothing
            raise BusyError("other uploads are being read: try again later")
        async with self._receive(request) as path:
            if self._places.locked():
                raise BusyError("other uploads are being read: try again later")
            async with self._places, self._turn:
                left, started = threading.Event(), time.monotonic()

                def check() -> None:
                    if left.is_set() or self._stopped.is_set():
                        raise ApiError(503, "the client has left, or the server stops")
                    if time.monotonic() - started > MAX_SECONDS:
                        raise ApiError(503, f"it took more than {MAX_SECONDS:g} s: send less, or try again later")

                async def watch() -> None:
                    while not await request.is_disconnected():
                        await asyncio.sleep(POLL)
                    left.set()

                watching = asyncio.create_task(watch())
                try:
                    return await run_in_threadpool(work, path, check)
                except VideoError as error:  # clients must not see paths of the server
                    raise ApiError(422, str(error).replace(str(path), "the video"), "video") from error
                finally:
                    left.set()  # a cancelled request leaves its thread running
                    watching.cancel()

    @contextlib.asynccontextmanager
    async def _receive(self, request: Request) -> AsyncIterator[Path]:
        """The body as a temporary file, under a name of our own. It needs a place while it arrives."""
        if self._bodies.locked():
            raise BusyError("other uploads are arriving: try again later")
        self.folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="upload-", dir=self.folder, ignore_cleanup_errors=True) as own:
            path = Path(own) / "body"
            async with self._bodies:
                with path.open("wb") as file:
                    async for piece in read_body(request, self.limits):
                        await run_in_threadpool(file.write, piece)
                        await asyncio.sleep(self._arriving.spend(len(piece)))
            yield path


@contextlib.contextmanager
def open_upload(path: Path, limits: Limits, size: Size | None = None) -> Iterator[VideoFile]:
    """A video; ApiError unless its container is supported and its frames are not too large."""
    with VideoFile(path, size=size, threads=1, format=container_format(path)) as video:
        if video.info.width * video.info.height > limits.frame_pixels:
            raise ApiError(413, f"the frames have more than {limits.frame_pixels} pixels, which is the limit")
        yield video


def checked_frames(video: VideoFile, limits: Limits, check: Check) -> Iterator[Frame]:
    """The frames of a video, with `check` and the limits of duration and pixels before each of them."""
    _check_duration(video.info.duration, limits)
    pixels = 0
    for frame in video.frames():
        check()
        _check_duration(frame.time, limits)
        pixels += video.info.width * video.info.height
        if pixels > limits.video_pixels:
            raise ApiError(413, f"the video has more than {limits.video_pixels} pixels, which is the limit")
        yield frame


def _check_duration(seconds: float | None, limits: Limits) -> None:
    if seconds is not None and seconds > limits.video_seconds:
        raise ApiError(413, f"the video lasts {seconds:.4g} s; the limit is {limits.video_seconds:g} s")


async def read_body(request: Request, limits: Limits) -> AsyncIterator[bytes]:
    """The body in pieces; raises an error as soon as it is too large or too slow."""
    too_large = ApiError(413, f"the body has more than {limits.upload_bytes} bytes, which is the limit")
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and int(announced) > limits.upload_bytes:
        raise too_large
    size, started, stream = 0, time.monotonic(), request.stream()
    try:
        while True:
            async with asyncio.timeout(limits.body):
                piece = await anext(stream, None)
            if piece is None:
                return
            size += len(piece)
            if size > limits.upload_bytes:
                raise too_large
            if time.monotonic() - started > limits.body + size / MIN_RATE:
                raise TimeoutError
            yield piece
    except TimeoutError:
        raise ApiError(408, "the body arrived too slowly") from None
    except ClientDisconnect:
        raise ApiError(400, "the body ended early") from None


def container_format(path: Path) -> str:
    """FFmpeg's name of the container of a video; ApiError if it is not supported."""
    with path.open("rb") as file:
        start = file.read(512)
    if not start:
        raise ApiError(422, "the body is empty: send the bytes of a video file", "video")
    for name, matches in SIGNATURES.items():
        if matches(start):
            return name
    raise ApiError(422, f"this is not a video in a supported container ({', '.join(SIGNATURES)})", "video")
