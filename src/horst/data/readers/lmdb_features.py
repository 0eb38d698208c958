"""RULSTM's public features of EPIC-Kitchens: an LMDB of vectors, one a frame, as maps of 1 x 1.

Keys are <video>_frame_<10 digits>.jpg, frames numbered from 1 at 30 a second; values are float32.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from horst.data.clips import ClipConfig, frame_times, seen_frames
from horst.data.example import Annotations, Example
from horst.data.features import FeatureClip
from horst.data.readers.epic import read_epic
from horst.data.readers.epic_frames import Version
from horst.errors import (
    ConfigError,
    DamagedVideoError,
    DataError,
    HorstError,
    InputError,
    MissingVideoError,
)
from horst.extras import require
from horst.io import file_stamp
from horst.video.sampling import UNOBSERVED


class RulstmFeatures:
    """A data set whose vectors are in an LMDB: `annotations`, and `read` for the maps of an example.

    Args:
        annotations: The segments; each names its video.
        path: The LMDB: a folder with data.mdb in it, or such a file.
        channels: Numbers a vector has: 1024 for RGB and flow, 352 for RULSTM's objects.
    """

    def __init__(self, annotations: Annotations, path: str | Path, *, channels: int = 1024) -> None:
        if annotations.task != "anticipation":
            raise DataError(f"{path} has features for anticipation; {annotations.name} is for {annotations.task}")
        require("lmdb", "lmdb")  # now, and not in a worker
        self.path, self.channels = Path(path).resolve(), channels
        if not self.path.exists():
            raise DataError(f"{self.path}: there is no such LMDB")
        media = self.path / "data.mdb" if self.path.is_dir() else self.path
        self.annotations = replace(annotations, examples=tuple(replace(e, media=media) for e in annotations.examples))

    @property
    def map(self) -> tuple[int, int, int]:
        """Channels, height and width of a map."""
        return self.channels, 1, 1

    def check(self, config: ClipConfig) -> None:
        """Refuse clips of another size than that of vectors. Positions are looked up frame by frame, at 30 a second."""
        if config.size != (1, 1):
            raise ConfigError(f"{self.path} has maps of [1, 1] and clip.size is {list(config.size)}: set it to [1, 1]")

    def read(self, example: Example, config: ClipConfig) -> FeatureClip:
        """The vectors (T, channels, 1, 1) of the frames that are seen before an action; zeros where unobserved."""
        if not example.video:
            raise DataError(f"example {example.id} does not name its video, by which features are found")
        numbers = seen_frames(example, config)
        maps = np.zeros((len(numbers), self.channels, 1, 1), np.float32)
        with _environment(self.path).begin(buffers=True) as transaction:
            for i in np.flatnonzero(numbers != UNOBSERVED):
                maps[i, :, 0, 0] = self._vector(transaction, _key(example.video, numbers[i]))
        return FeatureClip(maps, frame_times(numbers))

    def problems(self, config: ClipConfig) -> list[tuple[str, str]]:
        """(video, why) of the videos of which a vector is missing, or is not what it should be, that clips need."""
        needed: dict[str, set[int]] = {}
        for example in self.annotations.examples:
            with suppress(InputError):  # so early an action that nothing comes before it
                needed.setdefault(example.video, set()).update(seen_frames(example, config).tolist())
        found = []
        with _environment(self.path).begin(buffers=True) as transaction:
            for video, numbers in needed.items():
                lost: list[HorstError] = []
                for number in sorted(numbers - {UNOBSERVED}):
                    try:
                        self._vector(transaction, _key(video, number))
                    except HorstError as error:
                        lost.append(error)
                if lost:
                    why = str(lost[0]).removeprefix(f"{self.path}: ")
                    found.append((video, f"{len(lost):,} of {len(numbers):,} vectors that clips need: {why}"))
        return found

    def _vector(self, transaction: Any, key: str) -> NDArray[np.float32]:
        value = transaction.get(key.encode())
        if value is None:
            raise MissingVideoError(self.path, f"there is no key {key}")
        if len(value) != 4 * self.channels:
            raise DataError(f"{self.path}: {key} has {len(value)} bytes, not {self.channels} numbers of float32")
        vector = np.frombuffer(value, "<f4")  # lives as long as the transaction: the caller copies it
        if not np.isfinite(vector).all():
            raise DamagedVideoError(self.path, f"{key} holds NaN or infinity")
        return vector


def _key(video: str, number: int) -> str:
    return f"{video}_frame_{number:010d}.jpg"


def read_rulstm(
    annotations: str | Path,
    path: str | Path,
    *,
    version: Version = "ek55",
    files: Literal["rulstm", "official"] = "rulstm",
    many_shot: Literal["rulstm", "official"] = "rulstm",
    channels: int = 1024,
) -> RulstmFeatures:
    """EPIC-Kitchens, see `read_epic`, by the LMDB `path` in place of videos."""
    found = read_epic(annotations, version=version, files=files, many_shot=many_shot)
    return RulstmFeatures(found, path, channels=channels)


_OPEN: dict[Path, tuple[tuple[int, str], Any]] = {}
"""(Process, stamp of the file) and environment by path: LMDB wants one a process, so readers of one file share it."""


def _environment(path: Path) -> Any:
    now = os.getpid(), file_stamp(path / "data.mdb" if path.is_dir() else path)
    before, environment = _OPEN.get(path, (None, None))
    if before == now:
        return environment
    if environment is not None:  # of a file that was replaced, or of the parent of this worker, which must not use it
        environment.close()
    lmdb = require("lmdb", "lmdb")
    try:
        environment = lmdb.open(str(path), readonly=True, lock=False, subdir=path.is_dir(), readahead=False)
    except lmdb.Error as error:
        raise DataError(f"{path} cannot be read as LMDB: {error}") from error
    _OPEN[path] = now, environment
    return environment
