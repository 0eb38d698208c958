"""RULSTM's public features of EPIC-Kitchens and EGTEA Gaze+: an LMDB with a vector for each frame, as maps of 1 x 1.

Keys are <video>_frame_<10 digits>.jpg, with frames numbered from 1 at 30 fps; values are float32.
"""

import os
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from horst.data.clips import Clip, ClipConfig, frame_times, seen_frames
from horst.data.example import Annotations, Example
from horst.data.readers.egtea import read_egtea
from horst.data.readers.epic import Origin, Version, read_epic
from horst.data.source import Depth, Source
from horst.errors import ConfigError, DamagedVideoError, DataError, HorstError, InputError, MissingVideoError
from horst.extras import require
from horst.io import file_stamp
from horst.video.sampling import UNOBSERVED


class RulstmFeatures(Source):
    """A data set whose feature vectors are in the LMDB `path`: a folder with a file data.mdb, or such a file.

    `channels` is the length of a vector: 1024 for RGB and flow, 352 for RULSTM's objects.
    """

    shared_media = True

    def __init__(self, annotations: Annotations, path: str | Path, *, channels: int = 1024) -> None:
        if annotations.task != "anticipation":
            raise DataError(f"{path} has features for anticipation; {annotations.name} is for {annotations.task}")
        require("lmdb", "lmdb")  # now, and not in a worker
        self.path, self.channels, self.map = Path(path).resolve(), channels, (channels, 1, 1)
        if not self.path.exists():
            raise DataError(f"{self.path}: there is no such LMDB")
        media = _data_file(self.path)
        super().__init__(replace(annotations, examples=tuple(replace(e, media=media) for e in annotations.examples)))

    def check(self, config: ClipConfig) -> None:
        """ConfigError unless the size is that of vectors. Positions are looked up frame by frame, at 30 fps."""
        if config.size != (1, 1):
            raise ConfigError(f"{self.path} has maps of [1, 1] and clip.size is {list(config.size)}: set it to [1, 1]")

    def read(self, example: Example, config: ClipConfig) -> Clip:
        """The vectors (T, channels, 1, 1) of the frames before an action; zeros where unobserved."""
        if not example.video:
            raise DataError(f"example {example.id} does not name its video, by which features are found")
        numbers = seen_frames(example, config)
        maps = np.zeros((len(numbers), self.channels, 1, 1), np.float32)
        with _environment(self.path).begin(buffers=True) as transaction:
            for i in np.flatnonzero(numbers != UNOBSERVED):
                maps[i, :, 0, 0] = self._vector(transaction, example.video, numbers[i])
        return Clip(maps, frame_times(numbers))

    def problems(self, config: ClipConfig, depth: Depth = "headers") -> list[tuple[str, str]]:
        """(video, reason) of videos with a missing or damaged vector that a clip needs."""
        needed: dict[str, set[int]] = {}
        for example in self.annotations.examples if depth != "files" else ():
            with suppress(InputError):  # nothing precedes the action
                needed.setdefault(example.video, set()).update(seen_frames(example, config).tolist())
        lost: dict[str, list[str]] = {}
        with _environment(self.path).begin(buffers=True) as transaction:
            for video, number in ((video, n) for video, of in needed.items() for n in sorted(of - {UNOBSERVED})):
                try:
                    self._vector(transaction, video, number)
                except HorstError as error:
                    lost.setdefault(video, []).append(str(error).removeprefix(f"{self.path}: "))
        return [(v, f"{len(of):,} of {len(needed[v]):,} vectors that clips need: {of[0]}") for v, of in lost.items()]

    def _vector(self, transaction: Any, video: str, number: int) -> NDArray[np.float32]:
        key = f"{video}_frame_{number:010d}.jpg"
        value = transaction.get(key.encode())
        if value is None:
            raise MissingVideoError(self.path, f"there is no key {key}")
        if len(value) != 4 * self.channels:
            raise DataError(f"{self.path}: {key} has {len(value)} bytes, not {self.channels} numbers of float32")
        vector = np.frombuffer(value, "<f4")  # valid only during the transaction: the caller copies it
        if not np.isfinite(vector).all():
            raise DamagedVideoError(self.path, f"{key} holds NaN or infinity")
        return vector


def read_rulstm(
    annotations: str | Path,
    path: str | Path,
    *,
    version: Version | Literal["egtea"] = "ek55",
    files: Origin = "rulstm",
    many_shot: Origin = "rulstm",
    split: int | None = None,
    channels: int = 1024,
) -> RulstmFeatures:
    """EPIC-Kitchens, see `read_epic`, or EGTEA Gaze+, see `read_egtea`, with the LMDB `path` in place of videos."""
    if version == "egtea":
        return RulstmFeatures(read_egtea(annotations, split=1 if split is None else split), path, channels=channels)
    if split is not None:
        raise ConfigError(f"split is {split}; only version: egtea has several: leave it out")
    found = read_epic(annotations, version=version, files=files, many_shot=many_shot)
    return RulstmFeatures(found, path, channels=channels)


_ENVIRONMENTS: dict[Path, tuple[tuple[int, str], Any]] = {}
"""((process, stamp of the file), environment) by path: LMDB allows one in a process, so readers share it."""


def _data_file(path: Path) -> Path:
    return path / "data.mdb" if path.is_dir() else path


def _environment(path: Path) -> Any:
    now = os.getpid(), file_stamp(_data_file(path))
    before, environment = _ENVIRONMENTS.get(path, (None, None))
    if before == now:
        return environment
    if environment is not None:  # of a file that was replaced, or of the parent of this worker, which must not use it
        environment.close()
    lmdb = require("lmdb", "lmdb")
    try:
        environment = lmdb.open(str(path), readonly=True, lock=False, subdir=path.is_dir(), readahead=False)
    except lmdb.Error as error:
        raise DataError(f"{path} cannot be read as LMDB: {error}") from error
    _ENVIRONMENTS[path] = now, environment
    return environment
