"""Packets of a video file, from its start or from a key frame before a time; the start and end of its clock.

Time 0 is the time of the first frame in the file, whatever its clock says. Demuxers are not trusted: many seek to a
position after the requested time, and some count the duration from before the first frame.
"""

import itertools
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
from av.stream import Disposition

from horst.errors import EmptyVideoError, InputError, MissingVideoError, NotAVideoError, NoVideoStreamError, VideoError
from horst.video.frame import MAX_PIXELS, VideoInfo
from horst.video.tables import check_tables

LOOKAHEAD = 1000  # packets to examine for the first timestamp; those hidden by an edit list come before it
LOOKAHEAD_BYTES = 64 << 20  # of all of them; a block of mkv may be compressed
GROWN_PIXELS = 2**22  # 2048 x 2048. Frames larger than this and than the header says are rejected.
BLOCK = 128  # pixels by which decoders enlarge frames at most
PICTURES = ("mjpeg", "png", "webp", "gif", "bmp", "tiff")  # codecs of covers, unless all streams have them
MAX_STREAMS = 128  # of a file: FFmpeg opens a decoder for each
NO_TIMESTAMPS = 0x80  # FFmpeg's AVFMT_NOTIMESTAMPS: an elementary stream such as .h264
# Titles that are not UTF-8: PyAV 19 reads them always, earlier versions need the option, which 19 does not have.
_ANY_METADATA: dict[str, Any] = {"metadata_errors": "replace"} if int(av.__version__.split(".")[0]) < 19 else {}


class Container:
    """An opened file and its first video stream. One pass at a time: a new pass ends the previous one."""

    def __init__(self, path: str | Path, threads: int, format: str | None = None) -> None:
        """`threads`: threads of the decoder; `format`: as in `VideoFile`."""
        self.path, self._threads, self._format = path, threads, format
        self._passes = 0
        self._open()
        try:
            self.origin = self._first_time()
            self._origin, self._base = float(self.origin), float(self.stream.time_base or 0)
            self.info = self._probe()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._passes, self._closed = self._passes + 1, True
        self._container.close()

    @property
    def reordered(self) -> bool:
        """Whether frames are stored in another order than they are shown, without timestamps.

        This is the case for AVI with B-frames: the timestamps that FFmpeg computes are wrong for some codecs.
        """
        return self._container.format.name == "avi" and bool(self.stream.codec_context.has_b_frames)

    def time(self, stamp: int) -> float:
        """Seconds since the first frame."""
        # Floats: fractions would cost a tenth of the decoding of a small clip.
        return stamp * self._base - self._origin

    def from_start(self) -> Iterator[Any]:
        """All packets. A file that was read before is opened again: seeking to 0 may miss the first packet."""
        self._check_open()
        if self._passes:
            self._container.close()
            self._open()
        yield from self._guarded(self._unread)

    def from_key(self, time: float) -> Iterator[Any]:
        """Packets from the last key frame before `time`, unless the demuxer seeks to a later one."""
        self._check_open()
        self._passes += 1
        base = self.stream.time_base
        try:
            self._container.seek(int((Fraction(time) + self.origin) / base) if base else 0, stream=self.stream)
        except (av.FFmpegError, OverflowError):  # after the end, or the file is not seekable
            return
        packets = self._guarded(self._container.demux(self.stream))
        yield from itertools.dropwhile(lambda packet: not packet.is_keyframe, packets)

    def _guarded(self, packets: Iterator[Any]) -> Iterator[Any]:
        self._passes += 1
        number = self._passes
        for packet in self._flushed(packets):
            yield packet
            if number != self._passes:  # PyAV would crash on a closed container, and mix the packets of two passes
                raise InputError(f"{self.path}: it was closed or read again in this pass; open it twice for two passes")

    def _flushed(self, packets: Iterator[Any]) -> Iterator[Any]:
        """`packets` to their end. If a stream has appeared after the header, PyAV fails instead of the last one."""
        ended = False
        try:
            for packet in packets:
                ended = not packet.size
                yield packet
        except IndexError:
            if not ended:
                last = av.Packet()
                last.stream = self.stream
                yield last

    def _check_open(self) -> None:
        if self._closed:
            raise InputError(f"{self.path}: it is closed; open it again")

    def _open(self) -> None:
        self._container, self._closed = _open(self.path, self._format), False
        streams = [s for s in self._container.streams.video if s.codec_context is not None]
        streams.sort(key=_is_cover)  # the first that is none
        if not streams:
            self._container.close()
            raise NoVideoStreamError(self.path, "the file has no video stream that this build of FFmpeg supports")
        self.stream: Any = streams[0]
        self.only_video = len(self._container.streams) == 1
        context = self.stream.codec_context
        self.max_pixels = most_pixels(context.width, context.height)
        context.options = {"max_pixels": str(self.max_pixels)}
        context.thread_type = "AUTO"
        context.thread_count = self._threads
        self._unread: Iterator[Any] = self._container.demux(self.stream)

    def _first_time(self) -> Fraction:
        """The clock at the first frame that is shown, in seconds."""
        if self._container.format.flags & NO_TIMESTAMPS:
            example = f"ffmpeg -framerate 30 -i {Path(self.path).name} -c copy video.mkv"
            remedy = f"put it into a container with its frame rate, for example with {example}"
            raise NotAVideoError(self.path, f"a stream without timestamps ({self._container.format.name}): {remedy}")
        base = self.stream.time_base or Fraction(0)
        read: list[Any] = []
        first: int | None = None
        size = 0
        with suppress(av.FFmpegError):  # the pass that decodes it reports damage
            for packet in self._flushed(self._unread):
                read.append(packet)
                size += packet.size
                stamp = packet.dts if self.reordered else packet.pts
                if stamp is not None and not packet.is_discard:
                    first = stamp if first is None else min(first, stamp)
                    if packet.dts is not None and packet.dts >= first:
                        break  # all following packets are shown later
                if len(read) == LOOKAHEAD or size > LOOKAHEAD_BYTES:
                    break
        self._unread = itertools.chain(read, self._unread)
        return Fraction((self.stream.start_time or 0) * base) if first is None else Fraction(first * base)

    def _probe(self) -> VideoInfo:
        stream = self.stream
        width, height = stream.codec_context.width, stream.codec_context.height
        if width * height > MAX_PIXELS:
            raise NotAVideoError(self.path, f"its header announces frames of {width}x{height} pixels")
        rate = stream.average_rate
        fps = float(rate) if rate else None
        return VideoInfo(width, height, fps, self._duration(1 / fps if fps else 0.1), stream.frames or None)

    def _duration(self, period: float) -> float | None:
        """Seconds from the first frame to the end that the file announces.

        Some files state the clock at the end, some a length, and some values are guesses of FFmpeg. In doubt the last
        packets decide.
        """
        stream = self.stream
        if stream.duration and stream.time_base:
            promised = float(stream.duration * stream.time_base)
        elif self._container.duration:
            promised = self._container.duration / av.time_base
        else:
            return None
        guessed = stream.duration and not stream.frames
        if guessed or abs(self._origin) > 0.5 * period:
            either = (promised - self._origin, promised)
            length = self._length(promised, period)
            if any(abs(end - length) <= max(0.1, 2.5 * period) for end in either):
                return length
            promised = min((end for end in either if end > length), default=length)
        return promised if promised > 0 else None

    def _length(self, promised: float, period: float) -> float:
        """Seconds from the first frame to the end of the last packet; 0 if no packet is found."""
        with _open(self.path, self._format) as container:  # a second container: this one is at the first packet
            stream = container.streams[self.stream.index]
            for back in (2.0**power for power in range(64)):
                target = max(0.0, promised - back)
                with suppress(av.FFmpegError, OverflowError):
                    container.seek(int((Fraction(target) + self.origin) / stream.time_base), stream=stream)
                    ends = [
                        self.time(packet.pts + (packet.duration or 0)) + (0 if packet.duration else period)
                        for packet in self._flushed(container.demux(stream))
                        if packet.pts is not None
                    ]
                    if ends:
                        return max(ends)
                if not target:
                    break
        return 0.0


def _open(path: str | Path, format: str | None) -> Any:
    local = Path(path) if "://" not in str(path) else None
    if local is not None:
        if local.is_dir():
            raise NotAVideoError(path, "it is a folder, not a video file")
        if not local.exists():
            raise MissingVideoError(path, "there is no such file")
        if not local.stat().st_size:
            raise EmptyVideoError(path, "the file is empty")
    options = {"max_streams": str(MAX_STREAMS)}
    with typed_errors(path):
        if local is not None:
            check_tables(local)
            if _is_flash(local):
                options["fflags"] = "+ignidx"  # FFmpeg allocates as many key frames as the file claims to have
        return av.open(str(path), format=format, options=options, **_ANY_METADATA)


def _is_cover(stream: Any) -> bool:
    """Whether a stream is a picture about the video, or may be one: some containers do not say."""
    return bool(stream.disposition & Disposition.attached_pic) or stream.codec_context.name in PICTURES


def _is_flash(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(3) in (b"FLV", b"KDK")


def most_pixels(width: int, height: int) -> int:
    """Pixels of the largest frame that is decoded of a stream whose header announces this size, 0 if it does not."""
    if not width or not height:
        return MAX_PIXELS
    return min(MAX_PIXELS, max(GROWN_PIXELS, (width + BLOCK) * (height + BLOCK)))


@contextmanager
def typed_errors(source: object) -> Iterator[None]:
    """Convert FFmpeg's errors to ours."""
    try:
        yield
    except FileNotFoundError as error:
        raise MissingVideoError(source, "there is no such file or device") from error
    except (av.InvalidDataError, av.EOFError) as error:
        message = f"FFmpeg finds no video in it ({error.strerror}): it is truncated, damaged, or not a video"
        raise NotAVideoError(source, message) from error
    except (av.FFmpegError, OSError) as error:
        raise VideoError(source, f"FFmpeg cannot open it: {error}") from error
