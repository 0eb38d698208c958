"""The index of packed clips: limits of its values, groups and shards."""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from horst.data import packed
from horst.data.example import Example
from horst.data.packed import CLIPS_PER_SHARD, _read_index, _read_shard, _separate, _split_shards, group_by_media
from horst.errors import DataError
from horst.io import encode_checked, write_text

CLIP: dict[str, Any] = {
    "id": "a",
    "split": "train",
    "labels": {"action": 0},
    "start": 0.0,
    "end": None,
    "start_frame": None,
    "video": "",
    "group": "",
    "offsets": [0, 5, 5, 9],
    "times": [0.0, 0.1, 0.1],
    "crc32": [1, 2, 3],
}
INDEX: dict[str, Any] = {"format": 1, "task": "recognition", "fps": 10, "shards": 1, "clip": {"fps": 10.0}}
BEFORE: dict[str, Any] = {**INDEX, "task": "anticipation", "clip": {"steps": 3}}


def read(path: Path, index: dict[str, Any], **changes: Any) -> Any:
    clip = {key: value for key, value in {**CLIP, **changes}.items() if value != "none"}
    write_text(path / "shard.json", encode_checked({"clips": [clip]}))
    return _read_shard(path / "shard.json", index)


@pytest.mark.parametrize(
    ("name", "taken", "refused"),
    [
        ("id", ["", "b"], [None, 3]),
        ("split", ["val"], [None, 1]),
        ("video", ["v"], [None]),
        ("group", ["g"], [0]),
        ("labels", [{}, {"action": 3}], [[], None, {"action": 1.0}, {"action": "1"}, {"action": True}]),
        ("start", [0, 0.2, -1.5], [None, "0", True, math.inf, math.nan, -1e6 - 1, 1e6 + 1]),
        ("end", [None, 0.0, 0.3, 60.6], [-0.1, "1", math.nan, 60.7, 1e6 + 1]),
        ("start_frame", [None, 0, 7, -3, 10**9, -(10**9)], [10**9 + 1, -(10**9) - 1, 1.0, "1", True]),
        ("times", [[0.0, 0.0, 60.6], [0.1, 0.2, 0.2]], [[], None, [0.0, 0.2, 0.1], [0.0, 0.1], [0.0, 0.1, 60.7]]),
        ("times", [[-1, 0, 1]], [[0.0, "1", 2.0], [0.0, True, 2.0], [0.0, None, 0.1], [0.0, 0.1, math.inf]]),
        ("offsets", [[0, 0, 0, 0], [3, 4, 5, 6]], [[0, 5, 9], [0, 5, 4, 9], [-1, 0, 0, 0], [0, 0, 0, 1.0], None]),
        ("crc32", [None, "none", [0, 0, 0]], [[1, 2], [1, 2, 3, 4], [1, 2, "3"], [1, 2, 3.0], 6]),
        ("sizes", [None, [5, 0, 4], [1, 0, 0]], [[6, 0, 4], [5, 1, 4], [5, 0], [-1, 0, 0], [5.0, 0, 4], 3]),
        ("why", ["none", "gone"], [None, 3]),
    ],
)
def test_clips_of_recognition(tmp_path: Path, name: str, taken: list[Any], refused: list[Any]) -> None:
    for value in taken:
        read(tmp_path, INDEX, **{name: value})
    for value in refused:
        with pytest.raises(DataError, match=r"shard\.json: clip 0 is damaged \(.*\); pack again"):
            read(tmp_path, INDEX, **{name: value})


def test_clips_of_anticipation(tmp_path: Path) -> None:
    """They have as many times as the config has steps, and unobserved ones."""
    _, ((_, offsets, times, sums, _),), _ = read(tmp_path, BEFORE, times=[None, -0.25, 1e6])
    assert offsets == CLIP["offsets"]
    np.testing.assert_array_equal(times, [math.nan, -0.25, 1e6])
    assert sums == [1, 2, 3]
    assert read(tmp_path, BEFORE, crc32=None)[1][0].checksums is None
    read(tmp_path, {**BEFORE, "clip": None})
    for index in ({**BEFORE, "clip": {"steps": 2}}, {**BEFORE, "clip": {"steps": 4}}, {**BEFORE, "clip": {}}):
        with pytest.raises(DataError, match="the number of times is 3"):
            read(tmp_path, index)
    for times in ([None, 0.2, 0.1], [None, 0.1, 1e6 + 1], [-1e6 - 1, 0.0, 0.1]):
        with pytest.raises(DataError, match="times is"):
            read(tmp_path, BEFORE, times=times)


def test_entries_of_bad_clips(tmp_path: Path) -> None:
    told, stored, _ = read(tmp_path, INDEX, why="gone", offsets="none", times="none", crc32="none")
    assert told[0]["why"] == "gone"
    assert stored == [None]
    for lacking in ("offsets", "times", "id", "labels"):
        with pytest.raises(DataError, match=f"it has no '{lacking}'"):
            read(tmp_path, INDEX, **{lacking: "none"})
    write_text(tmp_path / "shard.json", encode_checked({"clips": {}}))
    with pytest.raises(DataError, match="clips is a dict; it takes a list"):
        _read_shard(tmp_path / "shard.json", INDEX)


@pytest.mark.parametrize(
    ("name", "taken", "refused"),
    [
        ("format", [1], [0, 2, None, "1"]),
        ("fps", [1e-3, 12, 1e6], [0, -1, 1e6 + 1, math.nan, "12", True, None]),
        ("shards", [0, 1, 9], [-1, 1.0, "1", True, None]),
        ("native", [True, False], [None, 0, 1, "true"]),
        ("clip", [None, {}, {"steps": 3}], [[], 3, {"steps": 0}, {"stepz": 3}]),
    ],
)
def test_indexes(tmp_path: Path, name: str, taken: list[Any], refused: list[Any]) -> None:
    path = tmp_path / "index.json"
    for value in taken:
        write_text(path, encode_checked({**INDEX, name: value}))
        index, raw = _read_index(path)
        assert index == {**INDEX, name: value}
        assert raw == path.read_bytes()
    for value in refused:
        write_text(path, encode_checked({**INDEX, name: value}))
        with pytest.raises(DataError, match=f"{name}|steps"):
            _read_index(path)


def example(ident: str, media: str, split: Any = "train", video: str = "", group: str = "") -> Example:
    return Example(id=ident, split=split, media=Path(media), labels={}, video=video, group=group)


def test_clips_of_one_file_become_a_group() -> None:
    """Of its name, below the folder that all have in common; named groups keep their name."""
    examples = [
        example("0", "d/x/a.mp4"),
        example("1", "d/x/a.mp4", "val"),
        example("2", "d/b.mp4"),
        example("3", "d/x/a.mp4", "test"),
        example("4", "d/c.mp4", group="z"),
        example("5", "d/c.mp4", group="y"),
        example("6", "d/f", video="v"),
        example("7", "d/f", video="w"),
        example("8", "d/e.mp4", group="q"),
    ]
    found = group_by_media(examples)
    assert [e.group for e in found] == ["x/a.mp4", "x/a.mp4", "", "x/a.mp4", "y", "y", "", "", "q"]
    assert [e.id for e in found] == [e.id for e in examples]
    alone = [example("0", "a.mp4"), example("1", "b.mp4"), example("2", "f", video="v"), example("3", "f", video="w")]
    assert group_by_media(alone) == alone


def test_equal_ids_get_different_videos() -> None:
    examples = [example("a", "1"), example("a", "2", "val"), example("b", "3"), example("a", "4", video="v")]
    assert [e.video for e in _separate(examples)] == ["train/a", "val/a", "", "v"]


def test_64_clips_fill_a_shard() -> None:
    assert CLIPS_PER_SHARD == 64
    for clips, sizes in ((64, [64]), (65, [64, 1]), (130, [64, 64, 2])):
        assert [len(shard) for shard in _split_shards([example(str(i), f"{i}.mp4") for i in range(clips)])] == sizes
    assert _split_shards([]) == []


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 6)), min_size=1, max_size=20), st.integers(1, 4))
def test_shards_are_full_and_videos_stay_together(videos: list[tuple[int, int]], least: int) -> None:
    """Videos in any order of their names, of some clips each."""
    medias = [f"{name}-{place}" for place, (name, clips) in enumerate(videos) for _ in range(clips)]
    examples = [example(str(i), media) for i, media in enumerate(medias)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(packed, "CLIPS_PER_SHARD", least)
        shards = _split_shards(examples)
    assert [e for shard in shards for e in shard] == examples
    for one, after in pairwise(shards):
        assert len(one) >= least
        assert one[-1].media != after[0].media
        assert after
    for shard in shards:  # no longer than needed: the last video is the first that fills it
        before = [e for e in shard if e.media != shard[-1].media]
        assert len(before) < least
