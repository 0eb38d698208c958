"""A cache does not change the clips."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from small_sets import FunctionSource

from horst.data.batches import ClipDataset, collate
from horst.data.cache import DiskCache
from horst.data.clips import ClipConfig
from horst.data.config import DataConfig
from horst.data.preload import PreloadedClips
from horst.data.source import Source, open_source
from horst.errors import MissingVideoError


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Source:
    folder = str(tmp_path_factory.mktemp("made"))
    return open_source(DataConfig.from_dict({"source": "somethings", "folder": folder, "clips": 3, "size": 32}))


@pytest.mark.parametrize("observe", [1.0, 0.25, 0.01])
def test_cached_clips_match_the_source(source: Source, tmp_path: Path, observe: float) -> None:
    config = ClipConfig(size=(24, 40), fps=12, observe=observe)
    cached = DiskCache(source.read, tmp_path, data="x")
    for example in source.annotations.examples:
        wanted = source.read(example, config)
        for found in (cached.read(example, config), cached.read(example, config)):
            np.testing.assert_array_equal(found.frames, wanted.frames)
            np.testing.assert_array_equal(found.times, wanted.times)
    assert len(list(tmp_path.glob("*/*.npy"))) == 3


def test_each_config_is_read_once(source: Source, tmp_path: Path) -> None:
    asked = []

    def read(example, config):
        asked.append(config.size)
        return source.read(example, config)

    cached, example = DiskCache(read, tmp_path, data="x"), source.annotations.examples[0]
    config = ClipConfig(size=(24, 40), fps=12)
    for _ in range(3):
        cached.read(example, config)
        assert cached.read(example, replace(config, size=(16, 16))).frames.shape[1:3] == (16, 16)
    assert asked == [(24, 40), (16, 16)]


def test_a_damaged_entry_is_read_again(source: Source, tmp_path: Path) -> None:
    cached, example, config = DiskCache(source.read, tmp_path, data="x"), source.annotations.examples[0], ClipConfig()
    wanted = cached.read(example, config).frames
    (entry,) = tmp_path.glob("*/*.npy")
    entry.write_bytes(entry.read_bytes()[:1000])
    np.testing.assert_array_equal(cached.read(example, config).frames, wanted)


def test_errors_of_the_source_are_raised(source: Source, tmp_path: Path) -> None:
    def read(example, config):
        raise MissingVideoError("there", "no such file")

    with pytest.raises(MissingVideoError):
        DiskCache(read, tmp_path, data="x").read(source.annotations.examples[0], ClipConfig())
    assert not list(tmp_path.glob("*/*"))


def test_clips_with_notes_are_not_cached(source: Source, tmp_path: Path) -> None:
    """Clips with a note are not kept, neither alone nor together: a cache would lose the note."""

    def read(example, config):
        return replace(source.read(example, config), note=f"{example.id} ends early")

    noted = FunctionSource(source.annotations, read)
    split = next(iter(source.annotations.counts()))
    for _ in range(2):
        clips = ClipDataset(noted, split, ClipConfig(size=(8, 8)), tmp_path)
        kept = PreloadedClips(clips, torch.device("cpu"))
        for index, example in enumerate(clips.examples):
            assert collate([clips[index]]).notes == (f"{example.id} ends early",)
            assert kept.batch([index]).notes == (f"{example.id} ends early",)
    assert not [f for f in tmp_path.rglob("*") if f.is_file()]
