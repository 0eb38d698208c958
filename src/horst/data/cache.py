"""Decoded clips kept on a fast disk: the first epoch decodes, the later ones read bytes.

A kept clip says of which file it was made, and how: where that has changed it is decoded again and replaced. See
`horst.data.identity`.

Worth its space where decoding is what a GPU waits for and the decoded data set fits: 9,000 clips of 31 frames of
112 x 112 are 10 GB, which the system then holds in memory. Of resident clips a split, or a fold, is kept once more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from horst.data.clips import Clip, ClipConfig
from horst.data.example import Example
from horst.data.identity import clip_key
from horst.errors import HorstError
from horst.io import atomic_write, digest, file_stamp
from horst.video.sampling import observed_frames

Read = Callable[[Example, ClipConfig], Any]


class Cached:
    """`read`, which decodes a whole clip once and keeps it in `folder`. Clips that are not whole are not kept.

    Files are written whole and then renamed, so any number of processes can share a folder.
    """

    def __init__(self, read: Read, folder: str | Path, *, data: str) -> None:
        """`data` tells data sets apart that share a folder."""
        self.read, self.folder, self.data = read, Path(folder), data
        self._folders: dict[Path, str] = {}
        """Stamps of folders, which take long: they are looked at once for each object."""

    def __call__(self, example: Example, config: ClipConfig) -> Any:
        whole = replace(config, observe=1.0)
        path, made_of = self._path(example, whole), self._stamp(example.media)
        clip = self._kept(path, made_of) or self._keep(path, example, whole, made_of)
        if clip is None:
            return self.read(example, config)
        count = observed_frames(len(clip.frames), config.observe)
        return Clip(clip.frames[:count], clip.times[:count])

    def together(self, examples: Sequence[Example], config: ClipConfig) -> tuple[Path, str]:
        """A file for all these clips, whole, and what they are made of; see `horst.data.resident`."""
        whole = replace(config, observe=1.0)
        name = digest([self._path(example, whole).stem for example in examples])
        made_of = digest([self._stamp(example.media) for example in examples])
        return self.folder / "together" / f"{name}.safetensors", made_of

    def _stamp(self, media: Path) -> str:
        if not media.is_dir():
            return file_stamp(media)
        if media not in self._folders:
            self._folders[media] = file_stamp(media)
        return self._folders[media]

    def _path(self, example: Example, config: ClipConfig) -> Path:
        name = digest(clip_key(example, config, self.data))
        return self.folder / name[:2] / f"{name}.npy"

    def _kept(self, path: Path, made_of: str) -> Clip | None:
        try:
            with path.open("rb") as file:
                if np.lib.format.read_array(file).tobytes() != made_of.encode():
                    return None
                times = np.lib.format.read_array(file)
                return Clip(np.lib.format.read_array(file), times)
        except (OSError, ValueError, EOFError):
            return None

    def _keep(self, path: Path, example: Example, config: ClipConfig, made_of: str) -> Clip | None:
        try:
            clip = self.read(example, config)
        except HorstError:
            return None  # a part of it may be there all the same: that is for the caller to try
        if not isinstance(clip, Clip) or clip.note:
            return None
        # A full disk is no reason to stop.
        with suppress(OSError), atomic_write(path) as partial, partial.open("wb") as file:
            np.lib.format.write_array(file, np.frombuffer(made_of.encode(), np.uint8))
            np.lib.format.write_array(file, clip.times)
            np.lib.format.write_array(file, np.ascontiguousarray(clip.frames))
        return clip
