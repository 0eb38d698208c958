"""Decoded clips kept on a fast disk: the first epoch decodes, the later ones read bytes.

Worth its space where decoding is what a GPU waits for and the decoded data set fits: 9,000 clips of 31 frames of
112 x 112 are 10 GB, which the system then holds in memory. Of resident clips a split, or a fold, is kept once more.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from horst.data.clips import Clip, ClipConfig
from horst.data.example import Example
from horst.errors import HorstError
from horst.files import whole
from horst.video.sampling import observed_frames

Read = Callable[[Example, ClipConfig], Any]


class Cached:
    """`read`, which decodes a whole clip once and keeps it in `folder`. Clips that are not whole are not kept.

    Files are written whole and then renamed, so any number of processes can share a folder.
    """

    def __init__(self, read: Read, folder: str | Path, *, data: str) -> None:
        """`data` tells data sets apart that share a folder."""
        self.read, self.folder, self.data = read, Path(folder), data

    def __call__(self, example: Example, config: ClipConfig) -> Any:
        whole = replace(config, observe=1.0)
        path = self._path(example, whole)
        clip = self._kept(path) or self._keep(path, example, whole)
        if clip is None:
            return self.read(example, config)
        count = observed_frames(len(clip.frames), config.observe)
        return Clip(clip.frames[:count], clip.times[:count])

    def together(self, examples: Sequence[Example], config: ClipConfig) -> Path:
        """A file for all these clips, whole; see `horst.data.resident`."""
        whole = replace(config, observe=1.0)
        names = "".join(self._path(example, whole).stem for example in examples)
        return self.folder / "together" / f"{hashlib.sha256(names.encode()).hexdigest()[:24]}.safetensors"

    def _path(self, example: Example, config: ClipConfig) -> Path:
        # All that makes the clip and nothing else: the split, which differs by fold, does not.
        clip = [example.id, str(example.media), example.video, example.start, example.end, example.start_frame]
        about = json.dumps([self.data, asdict(config), *clip])
        name = hashlib.sha256(about.encode()).hexdigest()[:24]
        return self.folder / name[:2] / f"{name}.npy"

    def _kept(self, path: Path) -> Clip | None:
        try:
            with path.open("rb") as file:
                times = np.lib.format.read_array(file)
                return Clip(np.lib.format.read_array(file), times)
        except (OSError, ValueError, EOFError):
            return None

    def _keep(self, path: Path, example: Example, config: ClipConfig) -> Clip | None:
        try:
            clip = self.read(example, config)
        except HorstError:
            return None  # a part of it may be there all the same: that is for the caller to try
        if not isinstance(clip, Clip) or clip.note:
            return None
        with suppress(OSError), whole(path) as partial, partial.open("wb") as file:  # a full disk is no reason to stop
            np.lib.format.write_array(file, clip.times)
            np.lib.format.write_array(file, np.ascontiguousarray(clip.frames))
        return clip
