"""Videos stored as pictures: folders in EPIC's official and flat naming, tar files, transparency, damage."""

from __future__ import annotations

import pickle
import tarfile
from pathlib import Path

import numpy as np
import pytest
import videos
from PIL import Image

from horst.errors import DamagedVideoError, EmptyVideoError, InputError, MissingVideoError, NotAVideoError
from horst.video.images import ImageSequence


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
    with pytest.raises(EmptyVideoError, match="no numbered picture"):
        ImageSequence(tmp_path / "empty", fps=30)
    (tmp_path / "no.tar").write_text("no tar file")
    with pytest.raises(NotAVideoError, match="no uncompressed tar"):
        ImageSequence(tmp_path / "no.tar", fps=30)
    with pytest.raises(InputError, match="fps is 0"):
        ImageSequence(folder, fps=0)
