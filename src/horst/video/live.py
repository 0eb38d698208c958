"""Live video: cameras, RTSP and HTTP addresses. The timestamp of a frame is its time of arrival.

A live source has no start and no duration, and its connection may break. It is then opened again, with growing pauses,
for as long as the caller is willing to wait for the next frame.
"""

import math
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import av
from av.video.reformatter import VideoReformatter

from horst.errors import InputError, VideoError
from horst.video.container import most_pixels, typed_errors
from horst.video.decode import to_rgb
from horst.video.frame import Frame, Size, check_number, check_size

CAMERA = "camera:"
# FFmpeg's names of cameras by operating system.
CAMERAS = {"linux": ("v4l2", "/dev/video{}"), "darwin": ("avfoundation", "{}"), "win32": ("dshow", "video={}")}


def is_live(source: str) -> bool:
    """Whether a source is a camera or a network address, not a file."""
    return source.startswith(CAMERA) or "://" in source


@dataclass(frozen=True, kw_only=True, slots=True)
class LiveSource:
    """A camera ("camera:0") or an address ("rtsp://...", "http://...")."""

    source: str
    size: Size | None = None  # (height, width) of the frames, by default their own
    timeout: float = 5.0  # seconds without an answer after which a connection counts as broken
    patience: float = 0.0
    """A source that ended or failed is reopened until no frame came for so many seconds. 0: never reopen."""
    options: Mapping[str, str] = field(default_factory=dict)
    """FFmpeg options: {"rtsp_flags": "listen"} waits for a camera that sends to this machine, {"framerate": "30"}
    requests a frame rate."""

    def __post_init__(self) -> None:
        check_size(self.size)
        check_number("timeout", self.timeout)
        check_number("patience", self.patience, zero=True)

    def frames(self) -> Iterator[Frame]:
        """Frames as they arrive. With `patience`, a source that ends or fails is reopened."""
        start = last = time.monotonic()
        index = 0
        pause = 0.1
        while True:
            waited = f" for {self.patience:g} s" if self.patience else ""
            broken = VideoError(self.source, f"it opens but sends no frame{waited}: check that the source is sending")
            try:
                for image in self._connection():
                    yield Frame(image, time.monotonic() - start, index)
                    index, last, pause = index + 1, time.monotonic(), 0.1
                if index and not self.patience:
                    return
            except VideoError as error:
                broken = error
            if time.monotonic() + pause - last > self.patience:
                raise broken
            time.sleep(pause)
            pause = min(2 * pause, 2.0)

    def _connection(self) -> Iterator[Any]:
        with self._open() as container, typed_errors(self.source):
            if not container.streams.video:
                raise VideoError(self.source, "it sends no video")
            stream, reformatter = container.streams.video[0], VideoReformatter()
            context = stream.codec_context
            context.options = {"max_pixels": str(most_pixels(context.width, context.height))}
            for packet in container.demux(stream):
                try:
                    frames = packet.decode()
                except av.InvalidDataError:  # lost packets are common: the next key frame repairs it
                    continue
                for frame in frames:
                    yield to_rgb(frame, self.size, reformatter)

    def _open(self) -> Any:
        options, name, form = dict(self.options), self.source, None
        if self.source.startswith(CAMERA):
            form, name = self._camera()
        elif self.source.startswith("rtsp"):
            options.setdefault("rtsp_transport", "tcp")  # packets lost over UDP show as smears
            if "listen" in options.get("rtsp_flags", ""):
                options.setdefault("listen_timeout", str(math.ceil(self.timeout)))  # FFmpeg rejects its own default
        with typed_errors(self.source if name == self.source else f"{self.source} ({name})"):
            return av.open(name, format=form, options=options, timeout=self.timeout)

    def _camera(self) -> tuple[str, str]:
        """FFmpeg's format and name of the camera."""
        number = self.source.removeprefix(CAMERA)
        if sys.platform not in CAMERAS or not number or (sys.platform != "win32" and not number.isdecimal()):
            raise InputError(f"{self.source}: cameras are named camera:0, camera:1, ...")
        form, pattern = CAMERAS[sys.platform]
        if form not in {known for names in av.formats_available for known in names.split(",")}:
            build = f"this build of FFmpeg (PyAV {av.__version__})"
            raise VideoError(self.source, f"{build} does not support cameras: {form}")
        return form, pattern.format(number)
