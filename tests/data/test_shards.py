"""Packed sets as tar files and at an address: the same clips, and every file copied once for a machine."""

from __future__ import annotations

import json
import multiprocessing
import tarfile
from functools import partial
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest
import videos
from fsspec.implementations.local import LocalFileSystem

from horst.data.clips import ClipConfig
from horst.data.config import DataConfig
from horst.data.loader import ClipBatches
from horst.data.packed import Packed, is_complete, read_each, write_packed
from horst.data.source import open_source
from horst.errors import ConfigError, DamagedVideoError, DataError

CLIP = ClipConfig(size=(24, 32), fps=6)
BEFORE = ClipConfig(size=(24, 32), steps=6, mode="strict")


class CountedFiles(LocalFileSystem):
    """Local files under another protocol; every copy is written down, from whatever process."""

    protocol = "counted"
    log = Path()

    def get_file(self, rpath: str, lpath: str, **options: Any) -> None:
        with self.log.open("a") as file:
            file.write(f"{Path(rpath).name}\n")
        super().get_file(self._strip_protocol(rpath), lpath, **options)


@pytest.fixture(scope="module")
def sets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders with the same clips in both forms, for both tasks; a shard for each video."""
    root = tmp_path_factory.mktemp("shards")
    rows = []
    for number in range(4):
        videos.clip(root / f"{number}.mp4", frames=24 + 6 * number, fps=30)
        rows += [
            f"{number}.mp4,{'val' if number == 3 else 'train'},{'xy'[number % 2]},{start},0.9" for start in (0.3, 0.5)
        ]
    (root / "clips.csv").write_text("path,split,label,start,end\n" + "\n".join(rows) + "\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("horst.data.packed.CLIPS_PER_SHARD", 2)
        for task, clip in (("recognition", CLIP), ("anticipation", BEFORE)):
            options = {"path": str(root / "clips.csv"), "task": task}
            source = open_source(DataConfig(source="csv", options=options, clip=clip))
            for tar in (False, True):
                read = partial(read_each, source.read, clip)
                folder = root / task / ("tar" if tar else "jpgs")
                write_packed(folder, source.annotations, read, fps=clip.fps, clip=clip, tar=tar, processes=1)
    return root


@pytest.mark.parametrize(("task", "clip"), [("recognition", CLIP), ("anticipation", BEFORE)])
def test_tar_files_hold_the_same_clips(sets: Path, task: str, clip: ClipConfig) -> None:
    one, other = Packed(sets / task / "jpgs"), Packed(sets / task / "tar")
    assert is_complete(sets / task / "tar")
    for a, b in zip(one.annotations.examples, other.annotations.examples, strict=True):
        left, right = one.read(a, clip), other.read(b, clip)
        assert np.array_equal(left.frames, right.frames)
        assert np.array_equal(left.times, right.times, equal_nan=True)


def test_a_set_of_another_quality_is_not_continued(sets: Path, tmp_path: Path) -> None:
    source = open_source(DataConfig(source="csv", options={"path": str(sets / "clips.csv")}, clip=CLIP))
    read = partial(read_each, source.read, CLIP)
    for quality in (60, 60):
        write_packed(tmp_path / "packed", source.annotations, read, fps=CLIP.fps, quality=quality, processes=1)
    with pytest.raises(DataError, match="quality differs"):
        write_packed(tmp_path / "packed", source.annotations, read, fps=CLIP.fps, processes=1)
    with pytest.raises(ConfigError, match="quality is 96; it takes 1 to 95"):
        write_packed(tmp_path / "other", source.annotations, read, fps=CLIP.fps, quality=96)


def test_a_tar_file_is_one_of_webdataset(sets: Path) -> None:
    """Files of a sample follow each other and share the part of their names before the first dot."""
    folder, seen = sets / "recognition/tar", []
    for shard in sorted(folder.glob("*.tar")):
        with tarfile.open(shard) as tar:
            members = tar.getmembers()
            keys = [member.name.partition(".")[0] for member in members]
            samples = list(dict.fromkeys(keys))
            assert keys == [key for key in samples for _ in range(keys.count(key))]
            stored = json.loads(shard.with_suffix(".json").read_text())["clips"]
            for key, clip in zip(samples, stored, strict=True):
                of = {m.name.partition(".")[2]: tar.extractfile(m).read() for m in members if m.name.startswith(key)}
                about = json.loads(of.pop("json"))
                assert about == {name: clip[name] for name in ("id", "split", "labels", "times")}
                assert list(of) == [f"{i:04d}.jpg" for i in range(len(clip["times"]))]
                raw = shard.read_bytes()
                places = zip(clip["offsets"], clip["sizes"], of.values(), strict=False)
                assert all(raw[at : at + size] == data for at, size, data in places)
                seen.append(about["id"])
    assert len(seen) == len(set(seen)) == 8


def test_a_damaged_frame_in_a_tar_file_is_found(sets: Path, tmp_path: Path) -> None:
    for file in (sets / "recognition/tar").glob("[!.]*"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    clip = json.loads((tmp_path / "shard-00000.json").read_text())["clips"][0]
    raw = bytearray((tmp_path / "shard-00000.tar").read_bytes())
    raw[clip["offsets"][0] + clip["sizes"][0] - 1] ^= 1
    (tmp_path / "shard-00000.tar").write_bytes(raw)
    opened = Packed(tmp_path)
    with pytest.raises(DamagedVideoError, match=r"checksum does not match: shard-00000\.tar is damaged"):
        opened.read(opened.annotations.examples[0], CLIP)


def epochs(config: DataConfig, log: Path) -> None:
    """Two epochs of a process with two workers."""
    CountedFiles.log = log
    fsspec.register_implementation("counted", CountedFiles, clobber=True)
    for workers in (2, 0):
        clips = ClipBatches(config, batch_size=2, workers=workers)
        assert sum(len(batch) for batch in clips.evaluation_loader("train")) == 6


def test_every_file_is_copied_once_for_a_machine(sets: Path, tmp_path: Path) -> None:
    """By two processes with two workers each, in two epochs; only the shards that are read."""
    folder, log = sets / "recognition/tar", tmp_path / "log"
    options = {"folder": f"counted://{folder}", "cache": str(tmp_path / "cache")}
    config = DataConfig(source="packed", options=options, clip=CLIP)
    context = multiprocessing.get_context("fork")
    started = [context.Process(target=epochs, args=(config, log)) for _ in range(2)]
    for process in started:
        process.start()
    for process in started:
        process.join(100)
        assert process.exitcode == 0
    copied = log.read_text().split()
    names = {file.name for file in folder.iterdir() if not file.name.startswith(".")}
    assert sorted(copied) == sorted(names - {"shard-00003.tar"})  # whose clips are for validation
    (cached,) = (tmp_path / "cache").iterdir()
    assert not list(cached.glob(".*partial"))
    assert all((cached / name).read_bytes() == (folder / name).read_bytes() for name in copied)


def test_a_set_in_memory_is_that_of_the_folder(sets: Path, tmp_path: Path) -> None:
    folder, store = sets / "anticipation/jpgs", fsspec.filesystem("memory")
    for file in folder.glob("[!.]*"):
        store.pipe_file(f"/packed/{file.name}", file.read_bytes())
    address = "memory://packed"
    here = Packed(folder)
    there = open_source(DataConfig.from_dict({"source": "packed", "folder": address, "cache": str(tmp_path)}))
    assert there.annotations.counts() == here.annotations.counts()
    for a, b in zip(here.annotations.examples, there.annotations.examples, strict=True):
        assert np.array_equal(here.read(a, BEFORE).frames, there.read(b, BEFORE).frames)
    assert there.digest == here.digest
    with pytest.raises(DataError, match=r"memory://nothing cannot be read: .*check the address"):
        Packed("memory://nothing")
    with pytest.raises(ConfigError, match="cache"):
        open_source(DataConfig(source="ssv2", options={"cache": "x"}))
