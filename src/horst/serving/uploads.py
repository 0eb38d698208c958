"""Request bodies: bounded, and as temporary files; videos in them are untrusted.

A body arrives on disk first, so that a slow client holds nothing but its file. Then it gets a place, or is rejected as
busy, and waits for its turn: bodies are read one at a time. What reads it calls `check` for every frame, which raises
an error when the client has left, when the server stops, and when it has taken too long.

No client address can keep the others out. When all places for arriving bodies are taken, a further body ends the
slowest one of an address that has more, or a slow one of its own address. A body that has arrived waits beyond the
places if its address has none of them.
"""

import asyncio
import contextlib
import math
import shutil
import tempfile
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import TypeVar

from fastapi import Request
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect

from horst.errors import BusyError, VideoError
from horst.serving.errors import ApiError
from horst.serving.limits import MIN_RATE, Limits
from horst.serving.rate_limiter import RateLimiter
from horst.video.decode import VideoFile
from horst.video.frame import Frame, Size

MAX_SECONDS = 120.0  # computing time for one body
BODY_RATE = 64 << 20  # bytes per second of all bodies: reading them takes time from the sessions
SLOW_RATE = 256 << 10  # bytes per second; a faster body does not end for another one of its address
NEW = 1.0  # seconds from which the rate of a body is known
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
        self._places, self._placed = places, list[str]()  # the addresses of bodies that have arrived
        self._bodies: set[Body] = set()  # that are arriving
        self._turn, self._stopped = asyncio.Semaphore(1), stopped
        self._arriving = RateLimiter(BODY_RATE, BODY_RATE / 16)
        for left in folder.glob("upload-*"):
            if time.time() - left.stat().st_mtime > OLD:
                shutil.rmtree(left, ignore_errors=True)

    async def run(self, request: Request, work: Callable[[Path, Check], T]) -> T:
        """The result of `work` on the file of the body, in a thread. Errors do not name the file."""
        address = request.client.host if request.client else ""
        self._check_place(address)  # before it is sent for nothing
        async with self._receive(request, address) as path, self._place(address), self._turn:
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

    def _check_place(self, address: str) -> None:
        more = self._places if address in self._placed else 2 * self._places
        if len(self._placed) >= more:
            raise BusyError("other uploads are being read: try again later")

    @contextlib.asynccontextmanager
    async def _place(self, address: str) -> AsyncIterator[None]:
        self._check_place(address)
        self._placed.append(address)
        try:
            yield
        finally:
            self._placed.remove(address)

    @contextlib.asynccontextmanager
    async def _receive(self, request: Request, address: str) -> AsyncIterator[Path]:
        """The body as a temporary file, under a name of our own. It needs a place while it arrives."""
        self._make_room(address)
        body = Body(request, address, self.limits)
        self._bodies.add(body)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix="upload-", dir=self.folder, ignore_cleanup_errors=True) as own:
                path = Path(own) / "body"
                with path.open("wb") as file:
                    async for piece in body.pieces():
                        await run_in_threadpool(file.write, piece)
                        await asyncio.sleep(self._arriving.spend(len(piece)))
                self._bodies.discard(body)
                yield path
        finally:
            self._bodies.discard(body)

    def _make_room(self, address: str) -> None:
        """A place for a body that arrives; BusyError if no other one must end for it."""
        if len(self._bodies) < self.limits.bodies:
            return
        counts = Counter(body.address for body in self._bodies)
        most = max(counts, key=lambda other: counts[other])
        unfair = counts[most] > counts[address] + 1
        candidates = [body for body in self._bodies if body.address == (most if unfair else address)]
        slowest = min(candidates, key=lambda body: body.rate, default=None)
        if slowest is None or not (unfair or slowest.is_slow):
            raise BusyError("other uploads are arriving: try again later")
        slowest.end()
        self._bodies.discard(slowest)


class Body:
    """The body of a request while it arrives."""

    def __init__(self, request: Request, address: str, limits: Limits) -> None:
        self.address, self._request, self._limits = address, request, limits
        self._size, self._started, self._ended = 0, time.monotonic(), False
        self._waiting: asyncio.Timeout | None = None  # for the next piece

    @property
    def rate(self) -> float:
        """Bytes per second, on average. Of a new body it is not known, so it counts as fast."""
        seconds = time.monotonic() - self._started
        return self._size / seconds if seconds > NEW else math.inf

    @property
    def is_slow(self) -> bool:
        return self.rate < SLOW_RATE

    def end(self) -> None:
        """The client gets an error instead of an answer."""
        self._ended = True
        if self._waiting is not None:
            self._waiting.reschedule(asyncio.get_running_loop().time())

    async def pieces(self) -> AsyncIterator[bytes]:
        """The body; raises an error as soon as it is too large or too slow."""
        too_large = ApiError(413, f"the body has more than {self._limits.upload_bytes} bytes, which is the limit")
        announced = self._request.headers.get("content-length", "")
        if announced.isdecimal() and int(announced) > self._limits.upload_bytes:
            raise too_large
        stream = self._request.stream()
        try:
            while True:
                if self._ended:  # while a piece was written
                    raise TimeoutError
                async with asyncio.timeout(self._limits.body) as self._waiting:
                    piece = await anext(stream, None)
                self._waiting = None
                if piece is None:
                    return
                self._size += len(piece)
                if self._size > self._limits.upload_bytes:
                    raise too_large
                seconds = time.monotonic() - self._started
                if seconds > self._limits.body + self._size / MIN_RATE:
                    raise TimeoutError
                yield piece
        except TimeoutError:
            message = "other bodies need its place: try again later" if self._ended else "the body arrived too slowly"
            raise ApiError(408, message) from None
        except ClientDisconnect:
            raise ApiError(400, "the body ended early") from None


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
