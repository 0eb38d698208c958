"""Videos stored as images: in a folder or a tar file, as EPIC-Kitchens is distributed.

Frames are numbered by the last number in their names, as in frame_0000000001.jpg and P01_01_frame_0000000001.jpg, and
frame n is shown from the time (n - first) / fps on. If numbers are missing, the previous frame is shown for longer.
Hidden files (.name) are ignored. Two images with the same number are an error.
"""

import io
import math
import re
import tarfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image as Pictures
from PIL import ImageOps, UnidentifiedImageError

from horst.errors import DamagedVideoError, EmptyVideoError, MissingVideoError, NotAVideoError
from horst.video.frame import IMAGE_SUFFIXES, MAX_PIXELS, Closing, Frame, Image, Size, check_number, check_size

Place = Path | tuple[int, int]  # A file, or (offset, length) in a tar file
ROUNDING = 1e-6  # frames: a time just below that of an image counts as the time of that image


class ImageSequence(Closing):
    """Images by number, from a folder or a tar file.

    Args:
        path: The folder or the tar file.
        fps: Frame rate, which images do not state.
        first: The number of the image at time 0; None: the lowest number.
        size: (height, width) of the frames, by default their own.
        prefix: Read only names that begin with it, for a folder of several videos.
    """

    def __init__(
        self, path: str | Path, *, fps: float, first: int | None = None, size: Size | None = None, prefix: str = ""
    ) -> None:
        self.path, self.size, self.fps = Path(path), size, check_number("fps", fps)
        check_size(size)
        files: Iterable[tuple[str, Place]]
        if self.path.is_dir():
            files = ((p.name, p) for p in self.path.iterdir())
        elif self.path.is_file():
            files = self._index_tar()
        else:
            raise MissingVideoError(path, "there is no such folder or tar file")
        self._files = self._numbered(files, prefix)
        if not self._files:
            raise EmptyVideoError(path, f"there is no numbered image ({', '.join(IMAGE_SUFFIXES)}) in it")
        self.numbers = sorted(self._files)
        self.first = self.numbers[0] if first is None else first

    @property
    def times(self) -> NDArray[np.float64]:
        """The seconds at which each of `numbers` begins."""
        return (np.asarray(self.numbers) - self.first) / self.fps

    @property
    def duration(self) -> float:
        """The seconds at which the last image ends."""
        return (self.numbers[-1] + 1 - self.first) / self.fps

    def time_of(self, number: int) -> float:
        return (number - self.first) / self.fps

    def number_at(self, time: float) -> int:
        """The number of the last image at or before `time`, even if that image is missing."""
        return self.first + math.floor(time * self.fps + ROUNDING)

    def read(self, number: int) -> Image:
        """The image of a number, as RGB."""
        if number not in self._files:
            first, last = self.numbers[0], self.numbers[-1]
            raise MissingVideoError(self.path, f"there is no frame {number}; there are {first} to {last}")
        file = self._files[number]
        if isinstance(file, Path):
            data = file.read_bytes()
        else:
            with self.path.open("rb") as archive:  # each time: threads and processes could not share an open file
                archive.seek(file[0])
                data = archive.read(file[1])
        return decode_picture(data, f"{self.path}, frame {number}", self.size)

    def frames(self) -> Iterator[Frame]:
        """All images, in order."""
        for index, number in enumerate(self.numbers):
            yield Frame(self.read(number), self.time_of(number), index)

    def _index_tar(self) -> list[tuple[str, Place]]:
        try:
            with tarfile.open(self.path, "r:") as archive:
                return [(m.name, (m.offset_data, m.size)) for m in archive if m.isfile()]
        except tarfile.TarError as error:
            raise NotAVideoError(self.path, f"it is not an uncompressed tar file: {error}") from error

    def _numbered(self, files: Iterable[tuple[str, Place]], prefix: str) -> dict[int, Place]:
        found: dict[int, tuple[str, Place]] = {}
        for path, place in files:
            name = path.rsplit("/", 1)[-1]
            digits = re.findall(r"\d+", name.rsplit(".", 1)[0])
            hidden = name.startswith(".") or not name.startswith(prefix)
            if not digits or hidden or not name.lower().endswith(IMAGE_SUFFIXES):
                continue
            number = int(digits[-1])
            if number in found:
                both = " and ".join(sorted([found[number][0], path]))
                remedy = "remove one, or use a folder for each video"
                raise NotAVideoError(self.path, f"{both} are both frame {number}: {remedy}")
            found[number] = path, place
        return {number: place for number, (_, place) in found.items()}


def decode_picture(data: bytes, name: str, size: Size | None = None) -> Image:
    """An encoded image as RGB, upright, stretched to `size` (height, width), on black where it is transparent."""
    try:
        with Pictures.open(io.BytesIO(data)) as picture:
            _check(picture, name)
            picture.load()
            with suppress(Exception):  # unreadable EXIF data, for which Pillow has errors of many types
                ImageOps.exif_transpose(picture, in_place=True)
            rgb = _to_rgb(picture)
    except Pictures.DecompressionBombError as error:
        raise DamagedVideoError(name, f"the image is too large: {error}") from error
    except (UnidentifiedImageError, OSError, SyntaxError, ValueError) as error:
        kind = str(error).split("<", 1)[0].strip() or type(error).__name__  # Pillow adds the address of our buffer
        raise DamagedVideoError(name, f"the image does not decode: {kind}") from error
    if size is not None and rgb.size != (size[1], size[0]):
        rgb = rgb.resize((size[1], size[0]), Pictures.Resampling.BILINEAR)
    return np.asarray(rgb)


def encode_picture(image: Image, format: str = "JPEG", **options: int) -> bytes:
    """`options` of Pillow, such as quality."""
    buffer = io.BytesIO()
    Pictures.fromarray(image).save(buffer, format, **options)
    return buffer.getvalue()


def _check(picture: Pictures.Image, name: str) -> None:
    """Reject unsupported images before they are decoded."""
    width, height = picture.size
    if width * height > MAX_PIXELS:
        raise DamagedVideoError(name, f"the image is too large: {width}x{height}; at most {MAX_PIXELS} pixels are read")
    if picture.mode in ("I", "F"):
        raise DamagedVideoError(name, f"its pixels have 32 bits (mode {picture.mode}): save it with 8 or 16 bits")
    # A photograph of a phone may contain a preview (MPO); its first image is the photograph.
    if getattr(picture, "is_animated", False) and picture.format != "MPO":
        count = getattr(picture, "n_frames", "several")
        raise DamagedVideoError(name, f"it is animated and has {count} images: save each to its own file")


def _to_rgb(picture: Pictures.Image) -> Pictures.Image:
    if picture.mode.startswith("I;16"):  # Pillow would clip values above 255
        picture = Pictures.fromarray((np.asarray(picture) >> 8).astype(np.uint8))
    if not picture.has_transparency_data:
        return picture.convert("RGB")
    black = Pictures.new("RGBA", picture.size, (0, 0, 0, 255))
    black.alpha_composite(picture.convert("RGBA"))
    return black.convert("RGB")
