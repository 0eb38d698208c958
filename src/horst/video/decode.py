"""Video files through PyAV (FFmpeg): frames with timestamps, exact seeks, and a report of what does not decode.

Damaged video is common. A file that cannot be opened raises a typed error; a file that decodes in part is recovered,
and `report` says how much. A truncated webm ends without an error: only the duration in its header reveals it.
"""

import itertools
import math
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import av
import numpy as np
from av.video.reformatter import VideoReformatter

from horst.errors import DamagedVideoError, InputError
from horst.threads import available_cores
from horst.video.container import Container
from horst.video.frame import (
    Closing,
    DecodeReport,
    Frame,
    Image,
    Size,
    VideoInfo,
    check_image,
    check_number,
    check_size,
)
from horst.video.sampling import SLACK

MAX_GAP = 3600.0  # Seconds. A frame further from the previous one has an invalid timestamp.
MOST_THREADS = 16  # of a decoder, above which FFmpeg warns
MAX_CORRUPT = 1000  # consecutive packets that do not decode, after which decoding stops


class _PassCounts:
    """Counts the frames of a pass over a file, and checks timestamps."""

    def __init__(self) -> None:
        self.times: list[float] = []  # of the decoded frames
        self.corrupt = 0

    def plausible(self, time: float) -> bool:
        return math.isfinite(time) and (not self.times or 0 < time - self.times[-1] < MAX_GAP)

    def frame(self, image: Image, time: float) -> Frame:
        self.times.append(time)
        return Frame(image, time, len(self.times) - 1)

    def report(self, info: VideoInfo, slack: float) -> DecodeReport:
        period, decoded, promised = 1 / info.fps if info.fps else 0.0, len(self.times), info.frames or 0
        missing = max(0.0, (info.duration or 0.0) - (self.times[-1] + period if self.times else 0.0))
        if missing <= slack or 0 < promised <= decoded:
            missing = 0.0  # the last frame may be long: if all frames were decoded, nothing is missing
        if info.duration and info.fps:  # the frame count includes what an edit list removes, the duration does not
            promised = min(promised, math.floor(info.duration * info.fps + 0.01))
        lost = promised - decoded - self.corrupt - round(missing / period if period else 0)
        skipped = max(self._skipped_at_start(period) + self._skipped_between(), lost, 0)
        return DecodeReport(decoded, self.corrupt, skipped, missing, info.duration)

    def _skipped_at_start(self, period: float) -> int:
        """Frames before the first one that decodes: a cut recording begins between key frames."""
        if not self.times or self.times[0] <= SLACK:
            return 0
        return max(1, round(self.times[0] / period)) if period else 1

    def _skipped_between(self) -> int:
        """Gaps in a video of otherwise constant rate."""
        gaps = np.diff(self.times)
        if len(gaps) < 4:
            return 0
        period = float(np.median(gaps))
        off = np.abs(gaps - period) > 0.1 * period + 2 * SLACK
        return int(np.sum(np.round(gaps[off] / period) - 1)) if off.mean() <= 0.1 else 0


class VideoFile(Closing):
    """A video file, or anything else that FFmpeg opens by name. Use it as a context manager or call `close`.

    with VideoFile("clip.webm", size=(224, 224)) as video:
        for frame in video.frames(): ...
        print(video.report)

    Time 0 is the time of the first frame, whatever the file's clock says. Every read gives the same frames as decoding
    the whole file. AVI with B-frames stores no timestamps: its n-th frame is shown at the time of the n-th packet, and
    reads start at the first packet. A file without any timestamps (.h264, .m2v) is rejected.
    """

    def __init__(
        self, path: str | Path, *, size: Size | None = None, threads: int | None = None, format: str | None = None
    ) -> None:
        """
        Args:
            path: The file.
            size: (height, width) of the frames, by default their own.
            threads: Of the decoder and the conversion; by default one for each core, 16 at most.
            format: FFmpeg's name of the container. By default FFmpeg guesses it, and may take a text for a playlist.
        """
        check_size(size)
        self.path, self.size = path, size
        # FFmpeg counts the cores of the host, also in a container with a CPU limit.
        self._threads = threads or min(available_cores(), MOST_THREADS)
        self._container = Container(path, self._threads, format)
        self.info = self._container.info
        self._reformatter = VideoReformatter()  # creating it costs as much as converting a small frame
        self._report: DecodeReport | None = None

    def close(self) -> None:
        self._container.close()

    @property
    def report(self) -> DecodeReport:
        """The report of the last complete pass over the file."""
        if self._report is None:
            raise InputError(f"{self.path}: read all frames before asking for the report")
        return self._report

    def frames(self, start: float = 0.0, end: float | None = None) -> Iterator[Frame]:
        """The frames shown from `start` to before `end` (seconds), beginning with the one shown at `start`.

        If no frame is shown at `start` yet, the first frame of the file comes first. A pass from 0 to the end of the
        file leaves a `report`; it raises DamagedVideoError if nothing decodes. A new pass ends the previous one.
        """
        start = check_number("start", start, zero=True)
        if end is not None and check_number("end", end, zero=True) < start:
            raise InputError(f"start is {start:g} s and end is {end:g} s; the end must not be before the start")
        counts, decoded = self._shown_from(start)
        first: Frame | None = None  # the last frame so far that may be the one shown at `start`
        for frame in decoded:
            if end is not None and frame.time >= end - SLACK:
                break
            if frame.time <= start + SLACK:
                first = frame
                continue
            if first is not None:
                yield first
                first = None
            yield frame
        if first is not None:
            yield first
        if start == 0 and end is None:
            self._report = counts.report(self.info, self._slack())
            if not counts.times:
                raise DamagedVideoError(self.path, f"no frame decodes ({counts.corrupt} packets or frames are corrupt)")

    def at(self, times: Sequence[float]) -> list[Frame]:
        """The frame shown at each of `times`: seconds, in any order.

        Before its time the first frame is returned, after the end the last one.
        """
        wanted = sorted({check_number("a time", time, zero=True) for time in times})
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

    def _slack(self) -> float:
        """Seconds by which a complete video may end before its file: the sound is often slightly longer."""
        period, container = 1 / self.info.fps if self.info.fps else 0.1, self._container
        return 0.75 * period if container.stream.duration or container.only_video else max(0.3, 2 * period)

    def _shown_from(self, start: float) -> tuple[_PassCounts, Iterator[Frame]]:
        """Frames that begin with one shown at `start` or before, or with the first one of the file.

        A seek succeeds if a key frame at or before `start` decodes. Otherwise one further back is tried, at last the
        whole file. So the result does not depend on how demuxers seek or how many frames decoders need to recover.
        """
        latest = min(start, self.info.duration or start)
        backs = itertools.chain([0.0], (2.0**power for power in itertools.count()))
        for target in itertools.takewhile(lambda time: time > 0, (latest - back for back in backs)):
            if self._container.reordered:
                break
            packets, counts = self._container.from_key(target), _PassCounts()
            with suppress(av.FFmpegError):  # a pass from further back counts this damage
                key = next(packets, None)
                if key is None or self._after(key, start):
                    continue
                raws = self._raw(itertools.chain([key], packets), counts)
                first = next((raw for raw in raws if raw.key_frame or self._after(raw, start)), None)
                if first is not None and not self._after(first, start):
                    return counts, self._decode(itertools.chain([first], raws), counts)
        counts = _PassCounts()
        return counts, self._decode(self._raw(self._container.from_start(), counts), counts)

    def _after(self, stamped: Any, start: float) -> bool:
        """Whether a packet or a frame is shown after `start`; True without a timestamp."""
        return stamped.pts is None or self._container.time(stamped.pts) > start + SLACK

    def _decode(self, raws: Iterator[Any], counts: _PassCounts) -> Iterator[Frame]:
        """Frames in order of time; what does not decode is counted and skipped."""
        for raw in raws:
            time = math.nan if raw.pts is None else self._container.time(raw.pts)
            usable = counts.plausible(time) and raw.width * raw.height <= self._container.max_pixels
            counts.corrupt += raw.is_corrupt or not usable
            if usable:
                try:
                    image = to_rgb(raw, self.size, self._reformatter, self._threads)
                except (av.FFmpegError, ValueError, MemoryError):
                    counts.corrupt += 1
                else:
                    yield counts.frame(image, time)

    def _raw(self, packets: Iterator[Any], counts: _PassCounts) -> Iterator[Any]:
        stamps: deque[int | None] | None = deque() if self._container.reordered else None
        in_a_row = 0
        while in_a_row < MAX_CORRUPT:
            try:
                packet = next(packets)
            except StopIteration:
                return
            except av.FFmpegError:
                counts.corrupt += 1
                return
            try:
                frames = packet.decode()
            except av.FFmpegError:
                counts.corrupt += 1
                in_a_row += 1
                continue
            in_a_row = 0
            if stamps is not None:
                if packet.size:
                    stamps.append(packet.dts)
                for frame in frames:
                    frame.pts = stamps.popleft() if stamps else None
            yield from frames


def to_rgb(frame: Any, size: Size | None, reformatter: VideoReformatter, threads: int = 0) -> Image:
    """A decoded frame as RGB, stretched to `size`, upright, on black where it is transparent.

    `threads`: 0 is FFmpeg's choice. Its threads take ten times as long for a small frame as a single one.
    """
    turns = round((frame.rotation or 0) / 90) % 4
    height, width = size or (frame.height, frame.width)
    if turns % 2 and size is not None:
        height, width = width, height
    transparent = any(component.is_alpha for component in frame.format.components)
    layout = "rgba" if transparent else "rgb24"
    image: Any = reformatter.reformat(frame, width, height, layout, threads=threads).to_ndarray()
    if transparent:
        image = (image[..., :3].astype(np.uint16) * image[..., 3:] // 255).astype(np.uint8)
    return np.ascontiguousarray(np.rot90(image, turns)) if turns else image


def resize_image(image: Image, size: Size) -> Image:
    """`image` (H, W, 3) uint8 RGB stretched to (height, width); the same object if it has that size already."""
    check_image(image)
    if image.shape[:2] == size:
        return image
    if 0 in image.shape:
        raise InputError(f"the frame has shape {image.shape}: it is empty")
    frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(image), format="rgb24")
    try:
        return np.asarray(frame.reformat(width=size[1], height=size[0], format="rgb24").to_ndarray(), np.uint8)
    except av.FFmpegError as error:
        (height, width), (new_height, new_width) = image.shape[:2], size
        sizes = f"{width}x{height} pixels cannot be resized to {new_width}x{new_height}"
        raise InputError(f"a frame of {sizes}: it is too long and narrow; crop it") from error
