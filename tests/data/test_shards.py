"""Which clips of packed data lie in one file."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from horst.data import packed_index
from horst.data.example import Example
from horst.data.packed_index import _shards


def example(number: int, media: str) -> Example:
    return Example(id=str(number), media=Path(media), split="train", labels={"action": 0})


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 6)), min_size=1, max_size=20), st.integers(1, 4))
def test_shards_are_full_and_tear_no_video_apart(videos: list[tuple[int, int]], least: int) -> None:
    """Videos in any order of their names, of some clips each."""
    medias = [f"{name}-{place}" for place, (name, clips) in enumerate(videos) for _ in range(clips)]
    examples = [example(i, media) for i, media in enumerate(medias)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(packed_index, "CLIPS_A_SHARD", least)
        shards = _shards(examples)
    assert [e for shard in shards for e in shard] == examples
    for one, after in pairwise(shards):
        assert len(one) >= least
        assert one[-1].media != after[0].media
        assert after
    for shard in shards:  # no longer than needed: the last video is the first that fills it
        before = [e for e in shard if e.media != shard[-1].media]
        assert len(before) < least
