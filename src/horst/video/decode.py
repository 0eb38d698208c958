"""Video files through PyAV (FFmpeg): frames with their times, exact seeks, and an account of what does not decode.

Bad video is normal. What cannot be opened is a typed error; what decodes in part is recovered, and `report` says how
much. A truncated webm ends without any error: only the duration that its header promises gives it away.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np

from horst.errors import (
    DamagedVideoError,
    EmptyVideoError,
    InputError,
    MissingVideoError,
    NotAVideoError,
    NoVideoStreamError,
    VideoError,
)
from horst.video.frame import Frame, Image, Report, VideoInfo
from horst.video.sampling import SLACK

MAX_PIXELS = 2**26
"""8192 x 8192: larger pictures are taken for damage, so that a broken header cannot ask for all memory."""
MAX_GAP = 3600.0
"""Seconds: a frame that claims to be further from the one before has a broken time stamp."""
MAX_CORRUPT = 1000
"""Packets in a row that do not decode, after which the rest is given up."""

Size = tuple[int, int]
"""Height, width."""


class VideoFile:
    """A video file, or anything else that FFmpeg opens by name. Use it as a context manager, or call `close`.

    with VideoFile("clip.webm", size=(224, 224)) as video:
        for frame in video.frames(): ...
        print(video.report)
    """

    def __init__(self, path: str | Path, *, size: Size | None = None, threads: int | None = None) -> None:
        """`size`: (height, width) that frames are stretched to; their own by default. `threads`: of the decoder."""
        self.path = path
        self.size = size
        if size is not None and (len(size) != 2 or min(size) < 1):
            raise InputError(f"size is {size}; it takes (height, width) in pixels")
        self._container = _open(path)
        try:
            self._stream = self._first_video()
            context = self._stream.codec_context
            context.options = {"max_pixels": str(MAX_PIXELS)}
            context.thread_type = "AUTO"
            if threads is not None:
                context.thread_count = threads
            self._origin = self._start_time()
            self.info = self._probe()
        except BaseException:
            self._container.close()
            raise
        self._report: Report | None = None

    def __enter__(self) -> VideoFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._container.close()

    @property
    def report(self) -> Report:
        """What the last complete pass over the file found."""
        if self._report is None:
            raise InputError(f"{self.path}: there is no report before all frames were read")
        return self._report

    def frames(self, start: float = 0.0, end: float | None = None) -> Iterator[Frame]:
        """The frames shown from `start` on and before `end` (seconds), the first being the one shown at `start`.

        A pass from 0 to the end of the file leaves a `report`; it raises DamagedVideoError where nothing decodes.
        """
        whole = start <= 0 and end is None
        self._seek(start)
        held: Frame | None = None  # the frame that may turn out to be shown at `start`
        account = _Account()
        for frame in self._decode(account):
            if end is not None and frame.time >= end - SLACK:
                break
            if frame.time <= start + SLACK:
                held = frame
                continue
            if held is not None:
                yield held
                held = None
            yield frame
        if held is not None:
            yield held
        if whole:
            self._report = account.report(self.info, self._slack())
            if not account.decoded:
                raise DamagedVideoError(
                    self.path, f"no frame decodes ({account.corrupt} packets or frames are corrupt)"
                )

    def at(self, times: Sequence[float]) -> list[Frame]:
        """The frame shown at each of `times` (seconds, in any order; the last frame is shown for ever)."""
        wanted = sorted(set(times))
        if not wanted:
            return []
        found: dict[float, Frame] = {}
        shown: Frame | None = None
        for frame in self.frames(start=wanted[0]):
            while shown is not None and len(found) < len(wanted) and frame.time > wanted[len(found)] + SLACK:
                found[wanted[len(found)]] = shown
            if len(found) == len(wanted):
                break
            shown = frame
        if shown is None:
            raise DamagedVideoError(self.path, f"no frame decodes at {wanted[0]:g} s")
        return [found.get(time, shown) for time in times]

    def _first_video(self) -> Any:
        streams = [s for s in self._container.streams.video if s.codec_context is not None]
        if not streams:
            raise NoVideoStreamError(self.path, "the file holds no video stream that this build of FFmpeg knows")
        return streams[0]

    def _start_time(self) -> Fraction:
        """Seconds at which the file's clock starts: time 0 for everybody else."""
        base = self._stream.time_base or Fraction(0)
        if self._stream.start_time is not None:
            return Fraction(self._stream.start_time * base)
        with suppress(av.FFmpegError, StopIteration):  # Matroska does not tell: the first packet does
            packet = next(self._container.demux(self._stream))
            self._container.seek(0)
            return Fraction((packet.pts or 0) * base)
        return Fraction(0)

    def _probe(self) -> VideoInfo:
        stream = self._stream
        width, height = stream.codec_context.width, stream.codec_context.height
        if width * height > MAX_PIXELS:
            raise NotAVideoError(self.path, f"its header asks for pictures of {width}x{height}")
        duration = None
        if stream.duration and stream.time_base:
            duration = float(stream.duration * stream.time_base)
        elif self._container.duration:  # of the whole file, from its clock's zero on
            duration = self._container.duration / av.time_base
        if duration and stream.start_time is None:
            duration -= float(self._origin)
        rate = stream.average_rate
        fps = float(rate) if rate else None
        return VideoInfo(width, height, fps, duration if duration and duration > 0 else None, stream.frames or None)

    def _slack(self) -> float:
        """Seconds by which a whole video may end before its file does: sound often goes on a little longer."""
        beat = 1 / self.info.fps if self.info.fps else 0.1
        return 0.75 * beat if self._stream.duration or len(self._container.streams) == 1 else max(0.3, 2 * beat)

    def _seek(self, start: float) -> None:
        """To the key frame at or before `start`. Always, so that a second pass begins where it should."""
        base = self._stream.time_base
        with suppress(av.FFmpegError, OverflowError):  # what cannot be rewound is read from where it stands
            self._container.seek(
                int((Fraction(max(start, 0.0)) + self._origin) / base) if base else 0, stream=self._stream
            )

    def _decode(self, account: _Account) -> Iterator[Frame]:
        """All frames from here on, in order of time, with whatever does not decode counted and left out."""
        origin = float(self._origin)
        for raw in self._raw(account):
            # In floats: fractions would cost as much as a tenth of the decoding of a small clip.
            time = None if raw.pts is None or raw.time_base is None else raw.pts * float(raw.time_base) - origin
            if raw.is_corrupt or time is None or not account.plausible(time):
                account.corrupt += 1
                if time is None or not account.plausible(time):
                    continue
            try:
                image = to_rgb(raw, self.size)
            except (av.FFmpegError, ValueError, MemoryError):
                account.corrupt += 1
                continue
            yield account.frame(image, time)

    def _raw(self, account: _Account) -> Iterator[Any]:
        packets = self._container.demux(self._stream)
        in_a_row = 0
        while in_a_row < MAX_CORRUPT:
            try:
                packet = next(packets)
            except StopIteration:
                return
            except av.FFmpegError:
                account.corrupt += 1
                return
            try:
                frames = packet.decode()
            except av.FFmpegError:
                account.corrupt += 1
                in_a_row += 1
                continue
            in_a_row = 0
            yield from frames


class _Account:
    """Counts what a pass over a file gives, and judges time stamps."""

    def __init__(self) -> None:
        self.decoded = 0
        self.corrupt = 0
        self.last: float | None = None
        self.gaps: list[float] = []

    def plausible(self, time: float) -> bool:
        if not math.isfinite(time):
            return False
        return self.last is None or 0 < time - self.last < MAX_GAP

    def frame(self, image: Image, time: float) -> Frame:
        if self.last is not None:
            self.gaps.append(time - self.last)
        self.last = time
        self.decoded += 1
        return Frame(image, time, self.decoded - 1)

    def report(self, info: VideoInfo, slack: float) -> Report:
        beat = 1 / info.fps if info.fps else 0.0
        seconds = 0.0 if self.last is None else self.last + beat
        missing = max(0.0, (info.duration or 0.0) - seconds)
        if missing <= slack or (info.frames and info.frames <= self.decoded):
            missing = 0.0  # a last frame may stay for long: where all frames came, nothing is missing
        lost = (info.frames or 0) - self.decoded - self.corrupt - round(missing / beat if beat else 0)
        return Report(self.decoded, self.corrupt, max(self.skipped(), lost, 0), missing, info.duration)

    def skipped(self) -> int:
        """Frames that are missing in the middle: gaps in a video that is otherwise as regular as a clock."""
        if len(self.gaps) < 4:
            return 0
        gaps = np.asarray(self.gaps)
        beat = float(np.median(gaps))
        off = np.abs(gaps - beat) > 0.1 * beat + 2 * SLACK
        return int(np.sum(np.round(gaps[off] / beat) - 1)) if off.mean() <= 0.1 else 0


def to_rgb(frame: Any, size: Size | None = None) -> Image:
    """A decoded frame as RGB, stretched to `size`, upright, and over black where it is transparent."""
    turns = round((frame.rotation or 0) / 90) % 4
    height, width = size or (frame.height, frame.width)
    if turns % 2 and size is not None:
        height, width = width, height
    transparent = any(component.is_alpha for component in frame.format.components)
    image = frame.reformat(width, height, "rgba" if transparent else "rgb24").to_ndarray()
    if transparent:
        image = (image[..., :3].astype(np.uint16) * image[..., 3:] // 255).astype(np.uint8)
    return np.ascontiguousarray(np.rot90(image, turns)) if turns else image


def _open(path: str | Path) -> Any:
    local = Path(path) if "://" not in str(path) else None
    if local is not None:
        if local.is_dir():
            raise NotAVideoError(path, "this is a folder; a video file is needed")
        if not local.exists():
            raise MissingVideoError(path, "there is no such file")
        if not local.stat().st_size:
            raise EmptyVideoError(path, "the file is empty")
    with typed_errors(path):
        return av.open(str(path), metadata_errors="replace")


@contextmanager
def typed_errors(source: object) -> Iterator[None]:
    """FFmpeg's errors as ours."""
    try:
        yield
    except FileNotFoundError as error:
        raise MissingVideoError(source, "there is no such file or device") from error
    except (av.InvalidDataError, av.EOFError) as error:
        message = f"FFmpeg finds no video in it ({error.strerror}): it is cut off, damaged, or something else"
        raise NotAVideoError(source, message) from error
    except (av.FFmpegError, OSError) as error:
        raise VideoError(source, f"FFmpeg cannot open it: {error}") from error
