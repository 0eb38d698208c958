"""Clips and batches: frames match the files, and clips that cannot be read are counted."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import videos
from small_sets import TRAIN, FunctionSource, config, pair
from torch import Tensor
from torch.utils.data import DataLoader

from horst.data.batches import BadClip, BadClips, Batch, ClipDataset, Item, collate
from horst.data.clips import ClipConfig
from horst.data.config import DataConfig
from horst.data.example import Example
from horst.data.features import Clip
from horst.data.source import open_source
from horst.errors import ConfigError, DataError


def dataset(root: Path, split: str = "train", **clip: Any) -> ClipDataset:
    chosen = config(root, **clip)
    return ClipDataset(open_source(chosen), split, chosen.clip)


def numbers(frames: Tensor) -> list[int]:
    return [videos.number_of(frame.permute(1, 2, 0).numpy()) for frame in frames]


def test_items_have_the_frames_of_the_files(clips: Path) -> None:
    found = dataset(clips)
    items = [found[i] for i in range(len(found))]
    for index, (item, example) in enumerate(zip(items, found.examples, strict=True)):
        assert isinstance(item, Item)
        frames = TRAIN[example.id.removeprefix("train/")]
        assert (item.id, item.index, item.labels, item.note) == (example.id, index, example.labels, "")
        assert item.frames.shape == (frames, 3, 24, 32)
        assert item.frames.dtype == torch.uint8
        assert numbers(item.frames) == list(range(frames))
        assert item.observed.all()
        assert item.times.dtype == torch.float64
        torch.testing.assert_close(item.times, torch.arange(frames) / 12, atol=1e-3, rtol=0, check_dtype=False)
    half = found[(3, 0.5)]
    assert isinstance(half, Item)
    assert isinstance(items[3], Item)
    assert torch.equal(half.frames, items[3].frames[: -(-len(items[3].frames) // 2)])


def test_padding(clips: Path) -> None:
    found = dataset(clips)
    items = [found[i] for i in (2, 0, 4)]
    batch = collate(items)
    lengths = [len(i.frames) for i in items if isinstance(i, Item)]
    assert batch.frames.shape == (3, max(lengths), 3, 24, 32)
    assert batch.frames.flatten(0, 1).is_contiguous(memory_format=torch.channels_last)
    assert batch.lengths.tolist() == lengths
    assert batch.indices == (2, 0, 4)
    assert batch.ids == tuple(found.examples[i].id for i in batch.indices)
    assert batch.labels["action"].tolist() == [found.examples[i].labels["action"] for i in batch.indices]
    assert batch.labels["action"].dtype == batch.lengths.dtype == torch.int64
    assert (len(batch), batch.bad, batch.notes) == (3, (), ("", "", ""))
    for row, item in enumerate(items):
        assert isinstance(item, Item)
        length = len(item.frames)
        assert torch.equal(batch.frames[row, :length], item.frames)
        assert not batch.frames[row, length:].any()
        assert torch.equal(batch.times[row, :length], item.times)
        assert batch.times[row, length:].isnan().all()
        assert batch.observed[row].tolist() == batch.valid[row].tolist() == [i < length for i in range(max(lengths))]


def test_unobserved_positions_and_unknown_labels(clips: Path, tmp_path: Path) -> None:
    """Strict anticipation: what lies before the video is black and unobserved, but no padding."""
    (tmp_path / "actions.csv").write_text(
        "path,split,label,start\nc.mp4,train,x,1\nc.mp4,train,x,0.1\nc.mp4,test,x,1\n"
    )
    options = {"path": str(tmp_path / "actions.csv"), "root": str(clips / "train/stop"), "task": "anticipation"}
    clip = ClipConfig(size=(24, 32), steps=5, mode="strict")
    found = ClipDataset(open_source(DataConfig(source="csv", options=options)), "train", clip)
    batch = collate([found[0], found[1], Item(torch.zeros(2, 3, 24, 32), *torch.zeros(2, 2), {}, "z", 7)])  # type: ignore[arg-type]
    assert batch.lengths.tolist() == [5, 2]
    assert batch.observed[0].tolist() == [False, True, True, True, True]
    assert batch.valid[0].all()
    assert batch.times[0].isnan().tolist() == [True] + 4 * [False]
    assert not batch.frames[0, 0].any()
    assert batch.labels["action"].tolist() == [0, -1]
    (bad,) = batch.bad  # an action so early that there is nothing to see before it
    assert (bad.id, bad.index, bad.labels) == ("c.mp4@0.1", 1, {"action": 0})
    assert "too early for a frame" in bad.why


def test_a_batch_of_bad_clips_is_empty(clips: Path) -> None:
    found = dataset(clips, "val")
    bad = [i for i in range(4) if isinstance(found[i], BadClip)]
    batch = collate([found[i] for i in bad])
    assert len(batch) == len(batch.frames) == len(batch.lengths) == len(batch.labels["action"]) == 0
    assert batch.frames.shape[:3] == (0, 0, 3)
    assert {clip.id: clip.why.split(": ")[1].split()[0] for clip in batch.bad} == {
        "val/stop/empty.mp4": "the",
        "val/wave/text.mp4": "FFmpeg",
    }
    assert batch.valid.shape == (0, 0)
    assert batch.to("cpu").bad == batch.bad


def test_to_moves_the_inputs_of_a_model(clips: Path) -> None:
    found = dataset(clips)
    batch = collate([found[0], found[1]]).to("meta")
    assert {t.device.type for t in (batch.frames, batch.observed, batch.labels["action"], batch.valid)} == {"meta"}
    assert batch.lengths.device.type == batch.times.device.type == "cpu"
    assert batch.frames.flatten(0, 1).is_contiguous(memory_format=torch.channels_last)


def with_bad(indices: Sequence[int], bad: Sequence[int]) -> Batch:
    empty = torch.zeros(0)
    return Batch(
        *[empty] * 4,
        {},
        indices=tuple(indices),
        bad=tuple(BadClip(f"clip {i}", i, "it is\nbroken, sadly") for i in bad),
    )


def test_bad_clips_are_counted_once_and_listed(tmp_path: Path) -> None:
    bad = BadClips(total=1000)
    for _ in range(3):  # epochs
        bad.add(with_bad(range(5), [9, 7]))
    assert (len(bad), bad.seen) == (2, 7)
    assert bad.listed == (("clip 7", "it is\nbroken, sadly"), ("clip 9", "it is\nbroken, sadly"))
    bad.write(tmp_path / "bad.csv")
    bad.write(tmp_path / "bad.csv")
    with (tmp_path / "bad.csv").open(newline="") as file:
        assert [tuple(row) for row in csv.reader(file)] == [("id", "why"), *bad.listed]
    assert [p.name for p in tmp_path.iterdir()] == ["bad.csv"]
    again = BadClips(total=1000)
    again.load_state_dict(bad.state_dict())
    assert (again.seen, again.listed) == (bad.seen, bad.listed)
    with pytest.raises(DataError, match="made with 1000 training clips and there are 5 now"):
        BadClips(total=5).load_state_dict(bad.state_dict())
    other = BadClips(total=1000)
    other.add(with_bad([5], [8]))
    other.merge(bad.state_dict())  # as after a checkpoint of several processes
    assert [ident for ident, _ in other.listed] == ["clip 7", "clip 8", "clip 9"]
    assert other.seen == 9
    with pytest.raises(ConfigError, match="limit of bad clips is 2"):
        BadClips(2, total=5)


@pytest.mark.parametrize(
    ("total", "good", "bad", "stops"),
    [
        (50_000, 0, 10, False),  # ten are let pass, however early
        (50_000, 0, 11, True),
        (50_000, 1990, 20, False),  # 20 of 2010 are under 1%
        (50_000, 1970, 20, True),
        (300, 0, 3, False),  # 1% of all
        (300, 200, 4, True),
        (50, 40, 1, True),  # 2%, whatever follows
    ],
)
def test_limit_of_bad_clips(total: int, good: int, bad: int, stops: bool) -> None:
    count = BadClips(total=total)
    batch = with_bad(range(bad, bad + good), range(bad))
    if not stops:
        return count.add(batch)
    with pytest.raises(DataError, match=rf"{bad} of {bad + good} training clips .*limit of 0.01(.|\n)*clip 0: it is"):
        count.add(batch)


def test_early_actions_are_no_bad_clips() -> None:
    """They count neither as read nor as bad, nor in the total of which a share may be bad."""
    count = BadClips(total=4, early=[0, 1, 2])
    count.add(with_bad([3], [0, 1, 2]))
    assert (len(count), count.seen, count.listed) == (0, 1, ())
    old = BadClips(0.9, total=4)
    old.add(with_bad([3], [0, 1, 2]))
    count.merge(old.state_dict())  # of a checkpoint that listed them
    assert len(count) == 0
    with pytest.raises(DataError, match="1 of 4 training clips"):
        count.add(with_bad([], [3]))
    with pytest.raises(DataError, match="11 of 11 training clips"):  # 1% of 100, although 1% of all is 20
        BadClips(total=2000, early=range(1900)).add(with_bad([], range(1900, 1911)))


def test_a_source_without_files() -> None:
    """Whatever reads clips feeds a torch loader; what the reader raises on purpose is a bad clip."""
    annotations = pair(())

    def read(example: Example, clip: ClipConfig) -> Any:
        raise PermissionError(13, "not yours", example.id)

    found = ClipDataset(FunctionSource(annotations, read), "train", ClipConfig())
    (batch,) = DataLoader(found, batch_size=len(found), collate_fn=collate)
    assert len(batch.bad) == 61
    assert "not yours" in batch.bad[0].why
    assert np.isfinite(batch.bad[0].index)


def test_precomputed_maps() -> None:
    annotations = pair((1, 0, 2))

    def read(example: Example, clip: ClipConfig) -> Clip:
        steps = 2 + int(example.id) % 2
        return Clip(np.full((steps, 5, 2, 2), int(example.id), np.float16), np.arange(steps, dtype=np.float64))

    found = ClipDataset(FunctionSource(annotations, read), "train", ClipConfig())
    batch = collate([found[0], found[3]])
    assert batch.frames.shape == (2, 3, 5, 2, 2)
    assert batch.frames.dtype == torch.float16
    assert batch.frames[:, :, 0, 0, 0].tolist() == [[0, 0, 0], [3, 3, 3]]
    assert not collate([found[2], found[3]]).frames[0, 2].any()


def test_the_limit_of_bad_clips_is_a_fraction() -> None:
    assert [BadClips(limit, total=3).limit for limit in (0, 0.5, 1)] == [0, 0.5, 1]
    for limit in (-0.01, 1.01, float("nan")):
        with pytest.raises(ConfigError, match=f"the limit of bad clips is {limit}"):
            BadClips(limit, total=3)
