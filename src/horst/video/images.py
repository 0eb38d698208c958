"""Videos that are stored as pictures: a folder of them, or a tar file, as EPIC-Kitchens is distributed.

Frames are numbered by the last number in their names, as in frame_0000000001.jpg and P01_01_frame_0000000001.jpg, and
frame n shows the time (n - first) / fps.
"""

from __future__ import annotations

import io
import re
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO

import numpy as np
from PIL import Image as Pictures
from PIL import UnidentifiedImageError

from horst.errors import DamagedVideoError, EmptyVideoError, InputError, MissingVideoError, NotAVideoError
from horst.video.frame import Frame, Image

Place = Path | tuple[int, int]
"""A file, or (offset, length) in a tar file."""
SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".bmp")


class ImageSequence:
    """Pictures by number, from a folder or a tar file.

    Args:
        path: The folder or the tar file.
        fps: Frames a second, which pictures do not tell.
        size: (height, width) that pictures are stretched to; their own by default.
        prefix: Only names that begin with it, for a folder that holds several videos.
    """

    def __init__(self, path: str | Path, *, fps: float, size: tuple[int, int] | None = None, prefix: str = "") -> None:
        self.path, self.size, self.fps = Path(path), size, fps
        if not fps > 0:
            raise InputError(f"fps is {fps}; it takes a number above 0")
        self._archive: IO[bytes] | None = None
        if self.path.is_dir():
            names: dict[str, Place] = {p.name: p for p in self.path.iterdir() if p.name.startswith(prefix)}
            self._files = _numbered(names)
        elif self.path.is_file():
            self._files = self._index_tar(prefix)
        else:
            raise MissingVideoError(path, "there is no such folder or tar file")
        if not self._files:
            raise EmptyVideoError(path, f"there is no numbered picture ({', '.join(SUFFIXES)}) in it")

    def __enter__(self) -> ImageSequence:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._archive is not None:
            self._archive.close()

    @property
    def numbers(self) -> list[int]:
        """The numbers of the pictures, in order."""
        return sorted(self._files)

    def read(self, number: int) -> Image:
        """The picture of a number, as RGB."""
        if number not in self._files:
            first, last = min(self._files), max(self._files)
            raise MissingVideoError(self.path, f"there is no frame {number}; there are {first} to {last}")
        return decode_picture(self._bytes(number), f"{self.path}, frame {number}", self.size)

    def frames(self) -> Iterator[Frame]:
        """All pictures, in order."""
        numbers = self.numbers
        for index, number in enumerate(numbers):
            yield Frame(self.read(number), (number - numbers[0]) / self.fps, index)

    def _bytes(self, number: int) -> bytes:
        file = self._files[number]
        if isinstance(file, Path):
            return file.read_bytes()
        if self._archive is None:  # opened late, and anew in every process that reads
            self._archive = self.path.open("rb")
        offset, length = file
        self._archive.seek(offset)
        return self._archive.read(length)

    def _index_tar(self, prefix: str) -> dict[int, Place]:
        try:
            with tarfile.open(self.path, "r:") as archive:
                members = [m for m in archive if m.isfile()]
        except tarfile.TarError as error:
            raise NotAVideoError(self.path, f"it is no uncompressed tar file: {error}") from error
        names: dict[str, Place] = {Path(m.name).name: (m.offset_data, m.size) for m in members}
        return _numbered({name: place for name, place in names.items() if name.startswith(prefix)})

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_archive": None}


def decode_picture(data: bytes, name: str, size: tuple[int, int] | None = None) -> Image:
    """An encoded picture as RGB, stretched to `size` (height, width), over black where it is transparent."""
    try:
        with Pictures.open(io.BytesIO(data)) as picture:
            picture.load()
            rgb = _over_black(picture) if picture.has_transparency_data else picture.convert("RGB")
    except (UnidentifiedImageError, OSError, SyntaxError, ValueError) as error:
        kind = str(error).split("<", 1)[0].strip() or type(error).__name__  # Pillow names our buffer by its address
        raise DamagedVideoError(name, f"the picture does not decode: {kind}") from error
    if size is not None and rgb.size != (size[1], size[0]):
        rgb = rgb.resize((size[1], size[0]), Pictures.Resampling.BILINEAR)
    return np.asarray(rgb)


def _over_black(picture: Pictures.Image) -> Pictures.Image:
    black = Pictures.new("RGBA", picture.size, (0, 0, 0, 255))
    black.alpha_composite(picture.convert("RGBA"))
    return black.convert("RGB")


def _numbered(names: Mapping[str, Place]) -> dict[int, Place]:
    found = {}
    for name, file in names.items():
        digits = re.findall(r"\d+", Path(name).stem)
        if digits and name.lower().endswith(SUFFIXES):
            found[int(digits[-1])] = file
    return found
