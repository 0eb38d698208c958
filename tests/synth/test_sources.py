"""Sources that render themselves: missing data is rendered once, by one process, and existing data is only opened."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from horst.backbones import create_backbone
from horst.data.config import DataConfig
from horst.data.extract import extract
from horst.data.features import open_features
from horst.data.packed import Packed
from horst.data.readers.ssv2 import without_brackets
from horst.data.source import Source, open_source
from horst.errors import ConfigError, DataError
from horst.synth import somethings
from horst.synth.make import CONFIG, LOCK, MADE, DatasetSpec, claim, make_somethings


def opened(folder: Path, source: str = "somethings", **options: Any) -> Source:
    return open_source(DataConfig.from_dict({"source": source, "folder": folder.name, **options}, base=folder.parent))


def state(folder: Path) -> dict[str, int]:
    return {str(path): path.stat().st_mtime_ns for path in folder.rglob("*")}


@pytest.fixture(scope="module", autouse=True)
def one_process() -> Any:
    """Starting other processes takes longer than rendering so few clips."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("horst.data.jobs.available_cores", lambda: 1)
        yield


@pytest.mark.parametrize("packed", [True, False])
def test_somethings(tmp_path: Path, packed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same as `make_somethings`; the second time nothing is planned, rendered or written."""
    options = {"clips": 4, "seed": 3, "size": 32, "packed": packed}
    source = opened(tmp_path / "a", **options)
    config = make_somethings(tmp_path / "b", 4, seed=3, size=32, packed=packed, processes=1)
    data = DataConfig.from_file(config)
    other = open_source(data)
    assert source.annotations.name == other.annotations.name == "somethings"
    assert [e.to_dict() for e in source.annotations.examples] == [e.to_dict() for e in other.annotations.examples]
    for one, two in zip(source.annotations.examples, other.annotations.examples, strict=True):
        np.testing.assert_array_equal(source.read(one, data.clip).frames, other.read(two, data.clip).frames)
    before = state(tmp_path / "a")
    monkeypatch.setattr("horst.synth.somethings.plan", None)
    again = opened(tmp_path / "a", **options)
    assert again.annotations == source.annotations
    assert state(tmp_path / "a") == before


def test_kitchen(tmp_path: Path) -> None:
    source = opened(tmp_path / "k", "kitchen", videos=1, size=[32, 56])
    assert source.annotations.name == "kitchen"
    example = source.annotations.examples[-1]
    assert source.read(example, DataConfig.from_file(tmp_path / "k" / CONFIG).clip).frames.shape == (14, 32, 56, 3)
    before = state(tmp_path / "k")
    opened(tmp_path / "k", "kitchen", videos=1, size=[32, 56])
    assert state(tmp_path / "k") == before


def test_lost_files_are_rendered_again(tmp_path: Path) -> None:
    for packed, lost in ((True, "packed/shard-00000.jpgs"), (True, "packed/shard-00000.json"), (False, "videos")):
        folder = tmp_path / str(packed)
        opened(folder, clips=2, size=32, packed=packed)
        path = folder / lost if packed else next((folder / lost).iterdir())
        data = path.read_bytes()
        path.unlink()
        opened(folder, clips=2, size=32, packed=packed)
        if packed:  # a webm has a random id
            assert path.read_bytes() == data
        assert path.stat().st_size == len(data)


def test_extract(tmp_path: Path) -> None:
    """Packed clips are read as packed clips, whatever the name of the source."""
    data = {"source": "somethings", "folder": str(tmp_path / "s"), "clips": 2, "size": 32, "clip": {"size": [32, 32]}}
    extract(DataConfig.from_dict(data), create_backbone("stem", widths=[4, 6]), tmp_path / "maps")
    packed = Packed(tmp_path / "s" / "packed")
    features = open_features(tmp_path / "maps")
    assert [e.id for e in features.annotations.examples] == [e.id for e in packed.annotations.examples]
    assert list(features.videos) == [e.id for e in packed.annotations.examples]


def test_another_data_set_in_the_folder_is_rejected(tmp_path: Path) -> None:
    opened(tmp_path / "s", clips=2, size=32)
    before = state(tmp_path / "s")
    for options, why in (
        ({"clips": 3, "size": 32}, "count 2 instead of 3"),
        ({"clips": 2, "size": 32, "seed": 1}, "seed 0 instead of 1"),
        ({"clips": 2, "size": 40}, "size .* instead of "),
    ):
        with pytest.raises(DataError, match=rf"s was made with {why}.*: choose another folder"):
            opened(tmp_path / "s", **options)
    with pytest.raises(DataError, match="generator somethings instead of kitchen"):
        opened(tmp_path / "s", "kitchen", videos=2)
    assert state(tmp_path / "s") == before
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "thesis.tex").touch()
    with pytest.raises(DataError, match="own is not empty: choose another folder"):
        opened(tmp_path / "own", clips=2)
    assert [path.name for path in (tmp_path / "own").iterdir()] == ["thesis.tex"]
    with pytest.raises(DataError, match=r"thesis.tex is a file: choose another folder"):
        opened(tmp_path / "own" / "thesis.tex", clips=2)


def test_wrong_options(tmp_path: Path) -> None:
    bad: list[tuple[str, dict[str, Any], str]] = [
        ("somethings", {"clips": 0}, "count is 0"),
        ("somethings", {"clips": "10"}, "'clips' .* takes a whole number"),
        ("somethings", {"seed": -1}, "seed is -1"),
        ("somethings", {"size": 8}, r"size is \(8, 8\); .* from 16 on"),
        ("somethings", {"clip": {}, "videos": 3}, "no option 'videos'"),
        ("kitchen", {"size": 112}, "size is 112; height and width must be integers from 32 on"),
        ("kitchen", {"size": [112]}, r"size is \[112\]"),
    ]
    for source, options, says in bad:
        with pytest.raises(ConfigError, match=says):
            opened(tmp_path / "x", source, **options)
    with pytest.raises(ConfigError, match="needs the option 'folder'"):
        open_source(DataConfig(source="somethings"))
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("packed", [True, False])
def test_a_large_complete_folder_is_recognised_quickly(tmp_path: Path, packed: bool) -> None:
    spec = DatasetSpec(generator="somethings", count=3_000, seed=0, size=(112, 112), packed=packed)
    (tmp_path / MADE).write_text(json.dumps(asdict(spec)))
    (tmp_path / CONFIG).touch()
    names = [f"videos/{number}.webm" for number in range(3_000)]
    if packed:
        names = [f"packed/shard-{n:05d}.{suffix}" for n in range(47) for suffix in ("jpgs", "json")]
    for folder in ("videos", "packed"):
        (tmp_path / folder).mkdir()
    for name in names:
        (tmp_path / name).touch()
    (tmp_path / "packed" / "index.json").write_text('{"format": 1, "fps": 12, "shards": 47}')
    start = time.perf_counter()
    with claim(tmp_path, spec) as unfinished:
        assert not unfinished
    assert time.perf_counter() - start < 0.5
    assert not (tmp_path / LOCK).exists()
    (tmp_path / names[77]).unlink()
    with claim(tmp_path, spec) as unfinished:
        assert unfinished


def test_other_processes_wait(tmp_path: Path) -> None:
    """One renders; the others wait and find everything."""
    spec = DatasetSpec(generator="somethings", count=1, seed=0, size=(32, 32), packed=False)
    folder, found, order = tmp_path / "made", [], []

    def make() -> None:
        with claim(folder, spec) as unfinished:
            found.append(unfinished)
            order.append("in")
            if unfinished:
                time.sleep(0.2)
                (folder / "videos").mkdir()
                (folder / "videos" / "1.webm").touch()
                (folder / CONFIG).touch()
            order.append("out")

    threads = [threading.Thread(target=make) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True, False, False, False]
    assert order[:2] == ["in", "out"]


@pytest.mark.parametrize("packed", [True, False])
def test_somethings_of_the_first_templates(tmp_path: Path, packed: bool) -> None:
    data = {"source": "somethings", "folder": str(tmp_path), "clips": 4, "templates": 3, "size": 32, "packed": packed}
    annotations = open_source(DataConfig.from_dict(data)).annotations
    assert annotations.classes["action"] == tuple(without_brackets(t) for t in somethings.TEMPLATES[:3])
    assert {e.labels["action"] for e in annotations.examples} == {0, 1, 2}
    assert annotations.mirror == (0, 1, -1)  # the third one's mirror is not among them
    with pytest.raises(ConfigError, match="templates is 1"):
        open_source(DataConfig.from_dict({**data, "folder": str(tmp_path / "other"), "templates": 1}))
