"""Batches by length, and lengths without decoding."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import videos
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image as Pictures

from horst.data.batches import ClipDataset, Item
from horst.data.buckets import (
    WIDTH,
    BucketSampler,
    EvaluationSampler,
    buckets,
    clip_lengths,
    observed_lengths,
)
from horst.data.clips import ClipConfig
from horst.data.config import DataConfig
from horst.data.packed import read_each, write_packed
from horst.data.source import open_source
from horst.errors import ConfigError, InputError
from horst.video.sampling import observed_frames

LENGTHS = st.lists(st.integers(1, 200), min_size=1, max_size=120)
SIZES = st.integers(1, 9)
SEEDS = st.integers(0, 2**32)


def padding_share(batches: Iterable[Sequence[int]], lengths: Sequence[int] | np.ndarray[Any, Any]) -> float:
    """The fraction of all frames in these batches that is padding."""
    known = np.asarray(lengths, np.int64)
    drawn = [known[list(batch)] for batch in batches]
    padded = sum(len(batch) * int(batch.max()) for batch in drawn)
    return 1 - sum(int(batch.sum()) for batch in drawn) / padded


@given(LENGTHS, SIZES, SEEDS)
def test_one_replica_sees_every_clip_once(lengths: list[int], size: int, seed: int) -> None:
    sampler = BucketSampler(lengths, size, seed=seed)
    batches = list(sampler)
    assert sorted(chain(*batches)) == list(range(len(lengths)))
    assert len(batches) == len(sampler)
    assert sorted(map(len, batches))[1:] == [size] * (len(batches) - 1)


@given(LENGTHS, SIZES, SEEDS, st.integers(1, 4))
def test_replicas_see_the_batches_of_one_process(lengths: list[int], size: int, seed: int, replicas: int) -> None:
    """Step by step R replicas see what one sees with batches R times as large; only a last batch may repeat clips."""
    ranks = [BucketSampler(lengths, size, seed=seed, replicas=replicas, rank=r) for r in range(replicas)]
    whole = BucketSampler(lengths, size * replicas, seed=seed).batches()
    parts = [sampler.batches() for sampler in ranks]
    assert {len(part) for part in parts} == {len(whole)}
    repeated = 0
    for step, batch in enumerate(whole):
        seen = [part[step] for part in parts]
        assert len({len(s) for s in seen}) == 1
        assert set(chain(*seen)) == set(batch)
        repeated += sum(map(len, seen)) - len(batch)
    assert repeated < replicas


@given(LENGTHS, SIZES, SEEDS, st.integers(1, 3))
def test_dropped_last(lengths: list[int], size: int, seed: int, replicas: int) -> None:
    if len(lengths) < size * replicas:
        with pytest.raises(InputError, match="do not fill a batch"):
            BucketSampler(lengths, size, replicas=replicas, drop_last=True)
        return
    parts = [
        BucketSampler(lengths, size, seed=seed, replicas=replicas, rank=r, drop_last=True).batches()
        for r in range(replicas)
    ]
    seen = list(chain(*chain(*parts)))
    assert len(seen) == len(set(seen)) == len(lengths) // (size * replicas) * size * replicas
    assert {len(batch) for part in parts for batch in part} == {size}


@given(st.lists(st.integers(1, 200), min_size=3, max_size=40, unique=True), st.integers(2, 9), SEEDS)
def test_which_clips_are_dropped(lengths: list[int], size: int, seed: int) -> None:
    """Others in every epoch."""
    spare = len(lengths) % size
    if not spare or len(lengths) < size:
        return
    everything = set(range(len(lengths)))
    sampler = BucketSampler(lengths, size, seed=seed, drop_last=True)
    dropped = []
    for epoch in range(40):
        sampler.set_epoch(epoch)
        dropped.append(frozenset(everything - set(chain(*sampler.batches()))))
    assert {len(some) for some in dropped} == {spare}
    assert len(set(dropped)) > 1


def test_all_clips_are_dropped_equally_often() -> None:
    """Long and short alike, so that none is left out of a whole run."""
    sampler = BucketSampler([2 ** (i // 2) for i in range(14)], 4, drop_last=True)
    times = np.zeros(14, int)
    for epoch in range(200):
        sampler.set_epoch(epoch)
        times[list(set(range(14)) - set(chain(*sampler.batches())))] += 1
    assert times.sum() == 200 * 2
    assert times.min() > 400 / 14 / 2


@given(LENGTHS, SIZES, st.integers(1, 5))
def test_evaluation_sees_every_clip_once(lengths: list[int], size: int, replicas: int) -> None:
    ranks = [EvaluationSampler(lengths, size, replicas=replicas, rank=r) for r in range(replicas)]
    parts = [list(sampler) for sampler in ranks]
    assert sorted(chain(*chain(*parts))) == list(range(len(lengths)))
    assert [len(part) for part in parts] == [len(sampler) for sampler in ranks]
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
    assert all(0 < len(batch) <= size for part in parts for batch in part)


@given(LENGTHS, SIZES, SEEDS, st.integers(0, 5), st.data())
def test_an_epoch_resumes_at_any_batch(lengths: list[int], size: int, seed: int, epoch: int, data: Any) -> None:
    sampler = BucketSampler(lengths, size, seed=seed, prefix=(0.2, 1.0))
    sampler.set_epoch(epoch)
    whole = list(sampler)
    start = data.draw(st.integers(0, len(whole)))
    again = BucketSampler(lengths, size, seed=seed, prefix=(0.2, 1.0))
    again.set_epoch(epoch, start)
    again.set_epoch(epoch)  # as Lightning does once more
    assert list(again) == whole[start:]
    assert len(again) == len(whole)
    again.set_epoch(epoch + 1)
    assert len(list(again)) == len(whole)


def test_epochs_and_seeds_differ() -> None:
    lengths = np.random.default_rng(0).integers(20, 60, 500)
    sampler = BucketSampler(lengths, 8, seed=1)
    first = sampler.batches()
    assert sampler.batches() == first
    assert BucketSampler(lengths, 8, seed=2).batches() != first
    sampler.set_epoch(1)
    second = sampler.batches()
    together = [{frozenset(batch) for batch in batches} for batches in (first, second)]
    assert len(together[0] & together[1]) < 5  # other clips together, not the same batches in another order


@given(LENGTHS)
def test_buckets_are_narrow(lengths: list[int]) -> None:
    known = np.asarray(lengths)
    found = buckets(known)
    assert sorted(chain(*found)) == list(range(len(lengths)))
    for bucket in found:
        assert known[bucket].max() <= WIDTH * known[bucket].min()


@settings(max_examples=50)
@given(st.lists(st.integers(1, 200), min_size=80, max_size=300), st.integers(2, 10), SEEDS)
def test_less_padding_than_at_random(lengths: list[int], size: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    shuffled = [rng.permutation(len(lengths)) for _ in range(5)]
    cuts = range(0, len(lengths), size)
    at_random = np.mean([padding_share([order[i : i + size] for i in cuts], lengths) for order in shuffled])
    bucketed = padding_share(BucketSampler(lengths, size, seed=seed).batches(), lengths)
    assert bucketed <= at_random + 0.02  # clips that are all nearly alike share a bucket, which is random too


def test_padding_of_clips_with_the_lengths_of_ssv2() -> None:
    """About 2 to 6 seconds at 12 frames a second: 4% of a batch is padding in place of 32%."""
    rng = np.random.default_rng(0)
    lengths = np.clip(rng.normal(45, 12, 5000), 12, 72).astype(int)
    order = rng.permutation(len(lengths))
    assert padding_share([order[i : i + 16] for i in range(0, 5000, 16)], lengths) > 0.25
    assert padding_share(BucketSampler(lengths, 16).batches(), lengths) < 0.05
    sampler = BucketSampler(lengths, 16, prefix=(0.1, 1.0))
    fractions = sampler.fractions()
    assert fractions is not None
    assert padding_share(sampler.batches(), observed_lengths(lengths, fractions)) < 0.05


@given(LENGTHS, SEEDS)
def test_prefixes(lengths: list[int], seed: int) -> None:
    sampler = BucketSampler(lengths, 4, seed=seed, prefix=(0.25, 0.75))
    fractions = sampler.fractions()
    assert fractions is not None
    assert ((fractions >= 0.25) & (fractions <= 0.75)).all()
    expected = [observed_frames(n, f) for n, f in zip(lengths, fractions.tolist(), strict=True)]
    assert observed_lengths(np.asarray(lengths), fractions).tolist() == expected
    assert sorted(chain(*sampler)) == list(enumerate(fractions))  # type: ignore[type-var]
    sampler.set_epoch(1)
    later = sampler.fractions()
    assert later is not None
    assert not np.array_equal(later, fractions)


def test_wrong_arguments() -> None:
    bad: list[tuple[dict[str, Any], str]] = [
        ({"lengths": []}, "lengths"),
        ({"lengths": [3, 0]}, "lengths"),
        ({"batch_size": 0}, "batch_size is 0"),
        ({"replicas": 2, "rank": 2}, "rank is 2; with 2 replicas"),
        ({"prefix": (0.0, 1.0)}, "prefix is"),
        ({"prefix": (0.9, 0.1)}, "prefix is"),
    ]
    for options, says in bad:
        with pytest.raises((InputError, ConfigError), match=says):
            BucketSampler(**{"lengths": [1, 2], "batch_size": 1, **options})


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A CSV of whole videos, parts of one, and one that is not there."""
    folder = tmp_path_factory.mktemp("lengths")
    for name, frames in (("a.mp4", 7), ("b.webm", 30), ("c.webm", 19)):
        videos.clip(folder / name, frames=frames, fps=10)
    path = folder / "clips.csv"
    rows = ["a.mp4,x,,", "b.webm,y,,", "c.webm,x,,", "b.webm,x,0.5,1.7", "b.webm,y,1,", "gone.mp4,y,,"]
    path.write_text("path,split,label,start,end\n" + "".join(f"{r.replace(',', ',train,', 1)}\n" for r in rows))
    return path


@pytest.mark.parametrize("config", [ClipConfig(size=(8, 8)), ClipConfig(size=(8, 8), fps=5, observe=0.4)])
def test_lengths_match_the_clips(table: Path, tmp_path: Path, config: ClipConfig) -> None:
    source = open_source(DataConfig(source="csv", options={"path": str(table)}))
    lengths = clip_lengths(source, "train", config)
    items = [ClipDataset(source, "train", config)[i] for i in range(len(lengths))]
    assert [len(item.frames) if isinstance(item, Item) else 1 for item in items] == lengths.tolist()
    packed = tmp_path / "packed"
    full = ClipConfig(size=(8, 8), fps=10)
    write_packed(packed, source.annotations, partial(read_each, source.read, full), fps=10, processes=1)
    source = open_source(DataConfig(source="packed", options={"folder": str(packed)}))
    lengths = clip_lengths(source, "train", config)
    items = [ClipDataset(source, "train", config)[i] for i in range(len(lengths))]
    assert [len(item.frames) if isinstance(item, Item) else 1 for item in items] == lengths.tolist()
    assert len(lengths) == 6  # what could not be packed is still there, to be counted


def test_lengths_of_anticipation_and_images(table: Path, tmp_path: Path) -> None:
    source = open_source(DataConfig(source="csv", options={"path": str(table), "task": "anticipation"}))
    assert clip_lengths(source, "train", ClipConfig(steps=5)).tolist() == [5] * 6
    (tmp_path / "v").mkdir()
    for number in range(1, 31):
        Pictures.fromarray(videos.picture(number)).save(tmp_path / "v" / f"frame_{number:010d}.jpg")
    (tmp_path / "clips.csv").write_text("path,split,label\nv,train,x\n")
    for rate, length in ((30, 12), (12, 30), (5, 72)):
        options = {"path": str(tmp_path / "clips.csv"), "frames_fps": rate}
        source = open_source(DataConfig(source="csv", options=options))
        config = ClipConfig(size=(8, 8), fps=12)
        item = ClipDataset(source, "train", config)[0]
        assert isinstance(item, Item)
        assert clip_lengths(source, "train", config).tolist() == [len(item.frames)] == [length]


@pytest.mark.parametrize("many", [1, 1000])
def test_many_files_show_a_progress_bar(
    table: Path, many: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source = open_source(DataConfig(source="csv", options={"path": str(table)}))
    monkeypatch.setattr("horst.data.source.MANY_FILES", many)
    monkeypatch.setenv("FORCE_COLOR", "1")  # as on a terminal
    assert len(clip_lengths(source, "train", ClipConfig())) == 6
    out, err = capsys.readouterr()
    assert out == ""
    assert ("looking at files" in err) == (many == 1)


@pytest.mark.parametrize("lengths", [5, [], [[1, 2]], [0], [3, -1]])
def test_invalid_lengths(lengths: Any) -> None:
    with pytest.raises(InputError, match="a whole number from 1 on for each clip"):
        EvaluationSampler(lengths, 1)


def test_valid_lengths_and_ranks() -> None:
    assert EvaluationSampler([1, 7], 1, replicas=3, rank=2).lengths.tolist() == [1, 7]
    assert EvaluationSampler(np.array([1]), 1).lengths.dtype == np.int64
    for rank in (-1, 3):
        with pytest.raises(InputError, match=f"rank is {rank}"):
            EvaluationSampler([1, 7], 1, replicas=3, rank=rank)
