"""What every source can do, and sources that are registered outside of the package."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import small_sets

import horst
from horst.data import Annotations, DataConfig, Example, Source, open_source
from horst.data.batches import ClipDataset, Item
from horst.data.buckets import clip_lengths
from horst.data.check import check_data
from horst.data.clips import Clip, ClipConfig
from horst.data.identity import DataIdentity
from horst.data.source import SOURCES
from horst.errors import ConfigError

MODULE = """
import numpy as np

import horst
from horst.data import Annotations, Example, Source
from horst.data.clips import Clip


class Noise(Source):
    def read(self, example, config):
        return Clip(np.full((4, *config.size, 3), int(example.id), np.uint8), np.arange(4) / config.fps)

    def lengths(self, examples, config):
        return [4] * len(examples)

    def problems(self, config, depth="headers"):
        return []


@horst.register_source("noise")
def open_noise(folder: str, *, count: int = 3) -> Source:
    from pathlib import Path

    examples = tuple(
        Example(id=str(i), split="val" if i == 0 else "train", media=Path(folder), labels={"action": i % 2})
        for i in range(count)
    )
    return Noise(Annotations(name="noise", task="recognition", examples=examples, classes={"action": ("a", "b")}))
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_noise.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(SOURCES, "_entries", dict(SOURCES._entries))
    monkeypatch.delitem(sys.modules, "my_noise", raising=False)


def test_a_source_of_another_module(tmp_path: Path, module: None) -> None:
    """It is registered when its module is imported, and every part of the package uses it."""
    options = {"source": "my_noise:noise", "folder": ".", "count": 5, "clip": {"size": [8, 8]}}
    data = DataConfig.from_dict(options, base=tmp_path)
    source = open_source(data)
    assert source.annotations.counts() == {"train": 4, "val": 1}
    item = ClipDataset(source, "train", data.clip)[1]
    assert isinstance(item, Item)
    assert item.frames.shape == (4, 3, 8, 8)
    assert int(item.frames.max()) == 2
    assert clip_lengths(source, "train", data.clip).tolist() == [4] * 4
    assert check_data(source, clip=data.clip).ok
    assert DataIdentity.of(source) == DataIdentity.of(open_source(DataConfig.from_dict(data.to_dict())))
    with pytest.raises(ConfigError, match="data source 'noise' has no option 'counts', did you mean 'count'"):
        open_source(replace(data, options={**data.options, "counts": 3}))


def test_sources_that_do_not_exist(module: None) -> None:
    with pytest.raises(ConfigError, match=r"my_nose of source 'my_nose:noise' cannot be imported .*PYTHONPATH"):
        open_source(DataConfig(source="my_nose:noise"))
    with pytest.raises(ConfigError, match="there is no data source 'system'"):
        open_source(DataConfig(source="os:system", options={"command": "echo"}))
    with pytest.raises(ConfigError, match="there is no data source 'ssv', did you mean 'ssv2'"):
        open_source(DataConfig(source="ssv"))


def test_a_registered_function_may_return_annotations(clips: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SOURCES, "_entries", dict(SOURCES._entries))

    @horst.register_source("same")
    def open_same(root: str) -> Annotations:
        return open_source(DataConfig(source="folder", options={"root": root})).annotations

    source = open_source(DataConfig(source="same", options={"root": str(clips)}))
    assert type(source) is Source
    example = source.annotations.examples[0]
    assert source.read(example, ClipConfig(size=(8, 8))).frames.shape[1:] == (8, 8, 3)


def test_other_annotations_read_the_same_clips(clips: Path) -> None:
    source = open_source(small_sets.config(clips))
    first = source.annotations.examples[0]
    other = source.with_annotations(replace(source.annotations, examples=(replace(first, split="test"),)))
    assert source.annotations.counts() == {"train": 6, "val": 4}
    assert other.annotations.counts() == {"test": 1}
    config = ClipConfig(size=(8, 8))
    one, two = source.read(first, config), other.read(other.annotations.examples[0], config)
    np.testing.assert_array_equal(one.frames, two.frames)


def test_the_methods_that_a_source_may_override() -> None:
    """A source with its own `read` and nothing else."""
    example = Example(id="a", split="train", media=Path("gone.mp4"), labels={}, end=1.0)
    annotations = Annotations(name="n", task="recognition", examples=(example,), classes={"action": ()})
    clip = Clip(np.zeros((2, 4, 4, 3), np.uint8), np.arange(2.0))
    source = small_sets.FunctionSource(annotations, lambda example, config: clip)
    config = ClipConfig(size=(4, 4), fps=10)
    source.check(config)
    assert source.problems(config) is None
    assert (source.map, source.shared_media) == (None, False)
    assert source.lengths([example], config) == [10]
    assert source.media_stamps([example]) == {Path("gone.mp4"): ("gone.mp4", "missing")}
    assert source.media_stamps([]) == {}
