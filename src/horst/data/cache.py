"""A cache of decoded clips on a fast disk: the first epoch decodes, later ones read bytes.

A cached clip names the file that it was decoded from. If the file has changed, the clip is decoded again and replaced.
It pays if a GPU waits for decoding and the decoded data set fits: 9,000 clips of 31 frames of 112 x 112 are 10 GB,
which the system then keeps in memory. Preloaded clips (`horst.data.preload`) are stored once more for each split.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np

from horst.data.clips import Clip, ClipConfig
from horst.data.example import Example
from horst.data.identity import clip_key
from horst.errors import HorstError
from horst.io import atomic_write, digest, file_stamp
from horst.video.sampling import observed_frames


class DiskCache:
    """Decodes a complete clip once and stores it in `folder`. Clips with missing frames and features are not stored.

    Files are written atomically, so any number of processes can share the folder. `data` distinguishes data sets in it.
    """

    def __init__(self, read: Callable[[Example, ClipConfig], Clip], folder: str | Path, *, data: str) -> None:
        self._read, self.folder, self.data = read, Path(folder), data
        self._folder_stamps: dict[Path, str] = {}  # they are slow, so each is computed once

    def read(self, example: Example, config: ClipConfig) -> Clip:
        """The clip of an example, from the cache if it is there."""
        complete = replace(config, observe=1.0)
        path, stamp = self._path(example, complete), self._stamp(example.media)
        clip = self._load(path, stamp) or self._store(path, example, complete, stamp)
        if clip is None:
            return self._read(example, config)
        count = observed_frames(len(clip.frames), config.observe)
        return Clip(clip.frames[:count], clip.times[:count])

    def file_for(self, examples: Sequence[Example], config: ClipConfig) -> tuple[Path, str]:
        """A file for all these clips together, and a digest of their media; see `horst.data.preload`."""
        complete = replace(config, observe=1.0)
        name = digest([self._path(example, complete).stem for example in examples])
        stamp = digest([self._stamp(example.media) for example in examples])
        return self.folder / "together" / f"{name}.safetensors", stamp

    def _stamp(self, media: Path) -> str:
        if not media.is_dir():
            return file_stamp(media)
        if media not in self._folder_stamps:
            self._folder_stamps[media] = file_stamp(media)
        return self._folder_stamps[media]

    def _path(self, example: Example, config: ClipConfig) -> Path:
        name = digest(clip_key(example, config, self.data))
        return self.folder / name[:2] / f"{name}.npy"

    def _load(self, path: Path, stamp: str) -> Clip | None:
        try:
            with path.open("rb") as file:
                if np.lib.format.read_array(file).tobytes() != stamp.encode():
                    return None
                times = np.lib.format.read_array(file)
                return Clip(np.lib.format.read_array(file), times)
        except (OSError, ValueError, EOFError):
            return None

    def _store(self, path: Path, example: Example, config: ClipConfig, stamp: str) -> Clip | None:
        try:
            clip = self._read(example, config)
        except HorstError:
            return None  # a part of it may be readable: the caller tries
        if clip.frames.dtype != np.uint8 or clip.note:
            return None
        # A full disk is no reason to stop.
        with suppress(OSError), atomic_write(path) as partial, partial.open("wb") as file:
            np.lib.format.write_array(file, np.frombuffer(stamp.encode(), np.uint8))
            np.lib.format.write_array(file, clip.times)
            np.lib.format.write_array(file, np.ascontiguousarray(clip.frames))
        return clip
