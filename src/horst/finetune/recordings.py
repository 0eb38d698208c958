"""Recorded clips on disk, a few of each label.

    <folder>/<digest of the label>/<id>.safetensors

A file has the JPEG frames of one clip, their times, and its label; it is written atomically. There is no other state.
Labels are user input: a label may be any line of text and never becomes a path.
"""

import hashlib
import re
import secrets
import threading
import time
import unicodedata
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from horst.data.clips import Clip
from horst.errors import BusyError, DataError, HorstError, InputError
from horst.io import atomic_write
from horst.video.decode import resize_image
from horst.video.frame import Image, fit_within
from horst.video.images import decode_picture, encode_picture
from horst.video.sampling import SLACK

FORMAT = "1"
QUALITY = 90
ID = re.compile(r"[0-9a-f]{20}")
LONGEST_LABEL = 80  # characters
UNPRINTABLE = ("Cc", "Cs", "Cn", "Zl", "Zp")  # Unicode: control characters, surrogates, unassigned, line breaks


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordingLimits:
    """Limits of what is stored."""

    labels: int = 12
    clips: int = 30  # of one label
    bytes: int = 512 * 2**20  # of all clips on disk
    shortest: float = 0.3  # seconds
    longest: float = 10.0  # seconds
    fps: float = 15.0  # frames per second that are stored; frames between them are dropped
    side: int = 384  # pixels of the longer side; larger frames are made smaller

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if not getattr(self, name) > 0:
                raise InputError(f"{name} is {getattr(self, name)}; it takes a number above 0")


@dataclass(frozen=True, slots=True)
class Recording:
    """One clip of a label."""

    id: str
    label: str
    frames: int
    seconds: float  # from the first frame to the last
    bytes: int  # on disk


class Recordings:
    """The clips of a folder. It is thread-safe."""

    def __init__(self, folder: str | Path, limits: RecordingLimits | None = None) -> None:
        self.folder, self.limits = Path(folder), limits or RecordingLimits()
        self.damaged: list[Path] = []  # files that could not be read when the folder was opened; they are not changed
        self._lock = threading.Lock()
        self._known: dict[str, dict[str, Recording]] = {}
        found = []
        for file in self.folder.glob("*/*.safetensors"):
            try:
                found.append(_read_header(file))
            except (SafetensorError, OSError, ValueError):
                self.damaged.append(file)
        for recording in sorted(found, key=lambda r: r.id):  # an id begins with the time
            self._known.setdefault(recording.label, {})[recording.id] = recording

    def add(self, label: str, frames: Iterable[tuple[float, Image]]) -> Recording:
        """Store a clip: increasing times in seconds, and images (H, W, 3) of uint8, RGB, all of one size.

        BusyError if a limit is reached. The clip is on disk when this returns.
        """
        label = check_label(label)
        with self._lock:
            self._check_room(label, 0)
        times, images = self._encode(frames)
        lengths = [len(image) for image in images]
        tensors: dict[str, NDArray[Any]] = {
            "pictures": np.frombuffer(b"".join(images), np.uint8),
            "offsets": np.cumsum([0, *lengths], dtype=np.int64),
            "times": np.asarray(times, np.float64),
        }
        ident = f"{time.time_ns():016x}{secrets.token_hex(2)}"
        file = self.folder / label_folder(label) / f"{ident}.safetensors"
        with self._lock:
            self._check_room(label, sum(lengths))
            try:
                with atomic_write(file) as unfinished:
                    save_file(tensors, unfinished, metadata={"format": FORMAT, "label": label})
            except (OSError, SafetensorError) as error:
                raise DataError(f"{file} cannot be written: {error}") from error
            recording = Recording(ident, label, len(times), round(times[-1], 3), file.stat().st_size)
            self._known.setdefault(label, {})[ident] = recording
        return recording

    def labels(self) -> dict[str, list[Recording]]:
        """The clips by label, in the order in which they were recorded."""
        with self._lock:
            return {label: list(clips.values()) for label, clips in self._known.items()}

    def clips(self) -> dict[str, list[Callable[[], Clip]]]:
        """All clips by label, as functions that read them, for `finetune`."""
        return {label: [partial(_read_clip, self._file(r)) for r in known] for label, known in self.labels().items()}

    def pictures(self, label: str, id: str) -> tuple[list[float], list[bytes]]:
        """The times of a clip's frames in seconds, and the frames as JPEG. InputError if there is no such clip."""
        with self._lock:
            recording = self._known.get(check_label(label), {}).get(id)
        if recording is None:
            raise InputError(f"there is no recording {id!r} of {label!r}")
        return _read_pictures(self._file(recording))

    def remove(self, label: str, id: str | None = None) -> int:
        """Delete one clip of a label, or all of them, and return how many. InputError if there is no such clip."""
        label = check_label(label)
        with self._lock:
            known = self._known.get(label, {})
            chosen = list(known) if id is None else [id]
            if not known or chosen[0] not in known:
                raise InputError(f"there is no recording {f'{id!r} ' if id else ''}of {label!r}")
            for one in chosen:
                self._file(known[one]).unlink(missing_ok=True)
                del known[one]
            if not known:
                del self._known[label]
                with suppress(OSError):  # other files are in it
                    (self.folder / label_folder(label)).rmdir()
        return len(chosen)

    def _file(self, recording: Recording) -> Path:
        return self.folder / label_folder(recording.label) / f"{recording.id}.safetensors"

    def _check_room(self, label: str, more: int) -> None:
        limits, stored = self.limits, sum(r.bytes for clips in self._known.values() for r in clips.values())
        if label not in self._known and len(self._known) >= limits.labels:
            raise BusyError(f"there are {len(self._known)} labels, which is the limit: remove one first")
        if len(self._known.get(label, ())) >= limits.clips:
            raise BusyError(f"there are {limits.clips} clips of {label!r}, which is the limit: remove one first")
        if stored + more > limits.bytes:
            raise BusyError(f"the recordings fill their {limits.bytes / 2**20:.0f} MiB: remove some first")

    def _encode(self, frames: Iterable[tuple[float, Image]]) -> tuple[list[float], list[bytes]]:
        """Times and JPEG data of the stored frames. Frames are read one by one, to save memory."""
        limits, times, images = self.limits, list[float](), list[bytes]()
        first = last = -np.inf
        size: tuple[int, ...] | None = None
        for at, image in frames:
            if not isinstance(at, int | float) or not np.isfinite(at) or at <= last:
                raise InputError(f"a frame at {at} s follows one at {last} s; times must increase")
            first = at if size is None else first
            if at - first > limits.longest:
                raise InputError(f"the clip is longer than {limits.longest:g} s: record a shorter one")
            shape: tuple[int, ...] = getattr(image, "shape", ())
            if size is not None and shape != size:
                raise InputError(f"a frame of shape {shape} follows one of {size}: all frames must have one size")
            last, size = at, shape
            if not times or at - first - times[-1] >= 1 / limits.fps - SLACK:
                height, width = shape[:2] if len(shape) == 3 else (1, 1)  # `resize_image` rejects anything else
                small = fit_within((height, width), limits.side)
                images.append(encode_picture(resize_image(image, small), quality=QUALITY))
                times.append(at - first)
        if len(times) < 2 or times[-1] < limits.shortest:
            there = f"{len(times)} frames in {times[-1] if times else 0:.2f} s"
            raise InputError(f"the clip has {there}; it must have at least {limits.shortest:g} s")
        return times, images


def check_label(label: str) -> str:
    """The label, stripped and in Unicode's form NFC; InputError unless it is one line of printable text."""
    if not isinstance(label, str):
        raise InputError(f"the label is a {type(label).__name__}; it must be text")
    kept = unicodedata.normalize("NFC", label).strip()
    if not kept or len(kept) > LONGEST_LABEL:
        raise InputError(f"the label has {len(kept)} characters; it must have 1 to {LONGEST_LABEL}")
    strange = [c for c in kept if unicodedata.category(c) in UNPRINTABLE]
    if strange:
        raise InputError(f"the label holds the character U+{ord(strange[0]):04X}; it must be one printable line")
    if not any(unicodedata.category(c)[0] in "LNSP" for c in kept):
        raise InputError("the label has no visible character")
    return kept


def label_folder(label: str) -> str:
    """The folder of a label: a digest, so that no label leads to another folder, on any file system."""
    return hashlib.sha256(label.encode()).hexdigest()[:16]


def _read_header(file: Path) -> Recording:
    """The description of a clip, without its frames; SafetensorError, OSError or ValueError if it is damaged."""
    with safe_open(file, "np") as stored:
        metadata, times = stored.metadata() or {}, stored.get_tensor("times")
    label = check_label(metadata.get("label", ""))
    valid = metadata.get("format") == FORMAT and label_folder(label) == file.parent.name and ID.fullmatch(file.stem)
    if not valid or times.ndim != 1 or times.dtype != np.float64 or len(times) < 2:
        raise DataError(f"{file} is no recording of format {FORMAT}")
    return Recording(file.stem, label, len(times), round(float(times[-1]), 3), file.stat().st_size)


def _read_pictures(file: Path) -> tuple[list[float], list[bytes]]:
    try:
        with safe_open(file, "np") as stored:
            data, offsets, times = (stored.get_tensor(name) for name in ("pictures", "offsets", "times"))
        raw = data.tobytes()
        return times.tolist(), [raw[a:b] for a, b in pairwise(offsets.tolist())]
    except (SafetensorError, OSError, ValueError) as error:
        raise DataError(f"{file} cannot be read; remove the recording: {error}") from error


def _read_clip(file: Path) -> Clip:
    times, pictures = _read_pictures(file)
    try:
        frames = [decode_picture(picture, f"{file}, frame {i}") for i, picture in enumerate(pictures)]
        return Clip(np.stack(frames), np.asarray(times))
    except (ValueError, HorstError) as error:
        raise DataError(f"{file} cannot be read; remove the recording: {error}") from error
