"""Videos stored as images: folders in EPIC's official and flat naming, tar files, transparency, damage."""

from __future__ import annotations

import io
import pickle
import struct
import tarfile
import warnings
import zlib
from pathlib import Path

import numpy as np
import pytest
import videos
from PIL import Image

from horst.errors import DamagedVideoError, EmptyVideoError, InputError, MissingVideoError, NotAVideoError
from horst.video.images import ImageSequence, decode_picture


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "P01_01"
    path.mkdir()
    for n in range(1, 13):
        Image.fromarray(videos.picture(n)).save(path / f"frame_{n:010d}.jpg", quality=95)
    (path / "notes.txt").write_text("no picture 7")
    return path


def test_official_naming(folder: Path) -> None:
    with ImageSequence(folder, fps=30) as sequence:
        assert sequence.numbers == list(range(1, 13))
        assert videos.number_of(sequence.read(7)) == 7
        frames = list(sequence.frames())
        assert [f.time for f in frames] == [n / 30 for n in range(12)]
        assert [videos.number_of(f.image) for f in frames] == list(range(1, 13))
        with pytest.raises(MissingVideoError, match="no frame 13; there are 1 to 12"):
            sequence.read(13)


def test_flat_naming(folder: Path) -> None:
    for file in list(folder.glob("*.jpg")):
        file.rename(folder / f"P01_01_{file.name}")
    Image.fromarray(videos.picture(50)).save(folder / "P02_01_frame_0000000001.jpg")
    with ImageSequence(folder, fps=30, prefix="P01_01_frame_", size=(24, 32)) as sequence:
        assert sequence.numbers == list(range(1, 13))
        assert sequence.read(1).shape == (24, 32, 3)


def test_tar(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "P01_01.tar"
    with tarfile.open(path, "w") as archive:
        archive.add(folder, "P01_01")
    with ImageSequence(folder, fps=30) as loose, ImageSequence(path, fps=30) as packed:
        assert packed.numbers == loose.numbers
        assert np.array_equal(packed.read(9), loose.read(9))
        assert np.array_equal(pickle.loads(pickle.dumps(packed)).read(3), loose.read(3))  # as workers get it


def test_transparency_is_black(tmp_path: Path) -> None:
    image = np.full((8, 8, 4), 255, np.uint8)
    image[:, 4:, 3] = 0
    Image.fromarray(image).save(tmp_path / "frame_1.png")
    found = ImageSequence(tmp_path, fps=1).read(1)
    assert found[:, :4].min() == 255
    assert found[:, 4:].max() == 0


def test_damage(folder: Path, tmp_path: Path) -> None:
    file = folder / "frame_0000000003.jpg"
    file.write_bytes(file.read_bytes()[:200])
    with pytest.raises(DamagedVideoError, match="frame 3"):
        ImageSequence(folder, fps=30).read(3)
    with pytest.raises(MissingVideoError):
        ImageSequence(tmp_path / "nowhere", fps=30)
    (tmp_path / "empty").mkdir()
    with pytest.raises(EmptyVideoError, match="no numbered image"):
        ImageSequence(tmp_path / "empty", fps=30)
    (tmp_path / "no.tar").write_text("no tar file")
    with pytest.raises(NotAVideoError, match="not an uncompressed tar"):
        ImageSequence(tmp_path / "no.tar", fps=30)
    for fps in (0, -1.0, float("nan"), float("inf"), True, "30", None):
        with pytest.raises(InputError, match=f"fps is {fps!r}; it takes a number above 0"):
            ImageSequence(folder, fps=fps)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="size is"):
        ImageSequence(folder, fps=30, size=(0, 3))
    with pytest.raises(TypeError, match="fps"):
        ImageSequence(folder)  # type: ignore[call-arg]


def test_numbers_from_100_with_a_gap(tmp_path: Path) -> None:
    """The first number is time 0; missing numbers change neither the times of other frames nor the end."""
    for n in (100, 101, 104, 110):
        Image.fromarray(videos.picture(n - 100)).save(tmp_path / f"frame_{n}.png")
    with ImageSequence(tmp_path, fps=10) as sequence:
        frames = list(sequence.frames())
        assert [videos.number_of(f.image) for f in frames] == [0, 1, 4, 10]
        assert [f.time for f in frames] == pytest.approx([0.0, 0.1, 0.4, 1.0])
        assert [f.index for f in frames] == [0, 1, 2, 3]
        assert videos.number_of(sequence.read(104)) == 4
        assert sequence.duration == pytest.approx(1.1)
        with pytest.raises(MissingVideoError, match="no frame 0; there are 100 to 110"):
            sequence.read(0)


@pytest.mark.parametrize("other", ["frame_0000000003.png", "b_3.jpg", "frame_3.jpg"])
@pytest.mark.parametrize("packed", [False, True])
def test_two_images_of_one_number(folder: Path, tmp_path: Path, other: str, packed: bool) -> None:
    Image.fromarray(videos.picture(40)).save(folder / other)
    path = folder
    if packed:
        path = tmp_path / "frames.tar"
        with tarfile.open(path, "w") as archive:
            archive.add(folder, "frames")
    with pytest.raises(NotAVideoError) as error:
        ImageSequence(path, fps=30)
    assert "are both frame 3" in str(error.value)
    assert other in str(error.value)
    assert "frame_0000000003.jpg" in str(error.value)


def test_a_tar_of_two_folders(folder: Path, tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "two.tar", "w") as archive:
        archive.add(folder, "P01_01")
        archive.add(folder, "P01_02")
    with pytest.raises(NotAVideoError, match=r"P01_01/frame_0000000001.jpg and P01_02/frame_0000000001.jpg are both"):
        ImageSequence(tmp_path / "two.tar", fps=30)


def test_hidden_files_are_ignored(folder: Path) -> None:
    """macOS adds files like ._frame_1.jpg."""
    (folder / "._frame_0000000001.jpg").write_bytes(b"no picture")
    assert ImageSequence(folder, fps=30).numbers == list(range(1, 13))


def encoded(image: Image.Image, form: str, **options: object) -> bytes:
    stream = io.BytesIO()
    image.save(stream, form, **options)
    return stream.getvalue()


CORNERS = np.kron(np.array([[40, 100, 70], [160, 220, 10]], np.uint8), np.ones((8, 8), np.uint8))


@pytest.mark.parametrize("form", ["JPEG", "PNG", "WEBP"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_photographs_are_upright(form: str, orientation: int) -> None:
    """EXIF states the orientation of the camera: 1 to 8, some mirrored."""
    turned = {
        1: CORNERS,
        2: CORNERS[:, ::-1],
        3: CORNERS[::-1, ::-1],
        4: CORNERS[::-1],
        5: CORNERS.T,
        6: np.rot90(CORNERS),
        7: CORNERS[::-1, ::-1].T,
        8: np.rot90(CORNERS, -1),
    }[orientation]
    exif = Image.Exif()
    exif[0x0112] = orientation
    quality = {"lossless": True} if form == "WEBP" else {"quality": 100}
    found = decode_picture(encoded(Image.fromarray(turned.copy()).convert("RGB"), form, exif=exif, **quality), "photo")
    assert found.shape == (16, 24, 3)
    assert np.abs(found.astype(int) - CORNERS[..., None]).max() < 8
    small = decode_picture(encoded(Image.fromarray(turned.copy()), "PNG", exif=exif), "photo", (8, 12))
    assert small.shape == (8, 12, 3)


def test_pixel_formats() -> None:
    """All formats give the same image: 16 bits, CMYK, palette, grey. 32 bits have no known range."""
    colours = np.full((16, 24, 3), (200, 90, 30), np.uint8)
    whole = Image.fromarray(colours)
    assert np.array_equal(decode_picture(encoded(whole.quantize(4), "PNG"), "palette"), colours)
    for mode, form in (("CMYK", "JPEG"), ("CMYK", "TIFF"), ("RGBA", "PNG"), ("YCbCr", "JPEG")):
        found = decode_picture(encoded(whole.convert(mode), form), mode)
        assert np.abs(found.astype(int) - colours).max() < 8, mode
    deep = CORNERS.astype(np.uint16) * 257
    for image in (Image.fromarray(CORNERS), Image.fromarray(deep)):
        assert np.array_equal(decode_picture(encoded(image, "PNG"), "grey"), np.repeat(CORNERS[..., None], 3, -1))
    for kind in (np.int32, np.float32):
        with pytest.raises(DamagedVideoError, match=r"photo: its pixels have 32 bits .*: save it"):
            decode_picture(encoded(Image.fromarray(deep.astype(kind)), "TIFF"), "photo")


@pytest.mark.parametrize("form", ["PNG", "WEBP", "GIF"])
def test_animated_images_are_rejected(form: str) -> None:
    pictures = [Image.fromarray(np.full((8, 8, 3), grey, np.uint8)) for grey in (10, 100, 200)]
    data = encoded(pictures[0], form, save_all=True, append_images=pictures[1:])
    with pytest.raises(DamagedVideoError, match="photo: it is animated and has 3 images"):
        decode_picture(data, "photo")


def test_photograph_with_a_preview() -> None:
    pictures = [Image.fromarray(np.full((8, 8, 3), grey, np.uint8)) for grey in (10, 200)]
    data = encoded(pictures[0], "MPO", save_all=True, append_images=pictures[1:])
    assert abs(int(decode_picture(data, "photo").mean()) - 10) < 3


@pytest.mark.parametrize("side", [9_000, 12_000, 30_000])
def test_header_with_a_huge_size(side: int) -> None:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0))
    bomb = b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(bytes(1000))) + chunk(b"IEND", b"")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Image.DecompressionBombWarning)
        with pytest.raises(DamagedVideoError, match="photo: the image is too large"):
            decode_picture(bomb, "photo")
