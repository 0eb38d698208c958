"""Positions, and worked examples of the collector."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch

from horst.data.batches import BadClip, Item, collate
from horst.data.clips import ClipConfig
from horst.data.example import Annotations, Example
from horst.errors import ConfigError, DataError, InputError
from horst.evaluation.predictions import FRACTIONS, Collector, position_name, positions
from horst.heads import Logits


def test_positions() -> None:
    assert positions("recognition", ClipConfig()) == FRACTIONS
    assert positions("recognition", ClipConfig(observe=0.4)) == (0.4,)
    assert positions("anticipation", ClipConfig()) == (2.0, 1.75, 1.5, 1.25, 1.0, 0.75, 0.5, 0.25)
    assert positions("anticipation", ClipConfig(steps=3, stride=1.0)) == (2.0, 1.0)
    assert positions("anticipation", ClipConfig(steps=2, stride=2.5)) == (2.5,)  # the latest, where all are early
    assert positions("anticipation", ClipConfig(steps=20, stride=0.1))[0] == pytest.approx(2.0)
    assert position_name("recognition", 0.25) == "25%"
    assert position_name("anticipation", 0.25) == "0.25s"


def collector(task: str, config: ClipConfig) -> Collector:
    examples = tuple(
        Example(id=name, split="val", media=Path(name), labels={"action": i % 2} if i != 2 else {}, start=float(i))
        for i, name in enumerate("abcd")
    )
    about = Annotations(name="made", task=task, examples=examples, classes={"action": ("x", "y")})  # type: ignore[arg-type]
    return Collector(about, config)


def item(index: int, times: list[float]) -> Item:
    seen = torch.tensor(times, dtype=torch.float64)
    return Item(torch.zeros(len(times), 3, 2, 2).byte(), seen, ~seen.isnan(), {}, "abcd"[index], index)


def logits(rows: int, frames: int) -> Logits:
    """Row r says class (r + t) % 2 at frame t, with the score 10 r + t + 1."""
    made = torch.zeros(rows, frames, 2)
    for r in range(rows):
        for t in range(frames):
            made[r, t, (r + t) % 2] = 10 * r + t + 1
    return Logits(made)


def test_recognition() -> None:
    made = collector("recognition", ClipConfig())
    made.add(collate([item(1, [0.0, 0.1, 0.2, 0.3]), item(0, [0.0, 0.5])]), logits(2, 4))
    made.add(collate([item(3, [0.7]), BadClip("c", 2, "gone")]), logits(1, 1))
    found = made.predictions()
    assert found.ids == ("a", "b", "c", "d")
    assert found.labels["action"].tolist() == [0, 1, -1, 1]
    assert found.read.tolist() == [True, True, False, True]
    assert found.lengths.tolist() == [2, 4, 0, 1]
    assert found.missing == (("c", "gone"),)
    assert not found.empty.any()
    assert found.answers.tolist() == [[1, 0, -1, -1], [0, 1, 0, 1], [-1] * 4, [0, -1, -1, -1]]
    frames = {"a": [0] * 6 + [1] * 5, "b": [0] * 3 + [1] * 3 + [2] * 2 + [3] * 3, "d": [0] * 11}
    for name, row, times in (("a", 1, [0.0, 0.5]), ("b", 0, [0.0, 0.1, 0.2, 0.3]), ("d", 0, [0.7])):
        place = "abcd".index(name)
        assert found.scores["action"][place].max(1).values.tolist() == [10 * row + t + 1 for t in frames[name]]
        assert found.last_seen[place].tolist() == [times[t] for t in frames[name]]
        assert found.limits[place].tolist() == [times[t] for t in frames[name]]
    assert found.scores["action"][2].eq(-torch.inf).all()
    assert found.last_seen[2].eq(-torch.inf).all()
    assert found.limits[2].eq(torch.inf).all()
    some = found.select(torch.tensor([True, False, True, False]))
    assert (some.ids, some.missing, some.lengths.tolist()) == (("a", "c"), (("c", "gone"),), [2, 0])
    assert found.select(torch.tensor([True, True, False, False])).missing == ()
    turned = found.select(torch.tensor([3, 2, 1, 0]))
    assert (turned.ids, turned.missing, turned.lengths.tolist()) == (("d", "c", "b", "a"), found.missing, [1, 0, 4, 2])


def test_anticipation() -> None:
    made = collector("anticipation", ClipConfig(steps=3, stride=1.0, mode="strict"))
    made.add(collate([item(3, [math.nan, 0.4, 0.9]), item(2, [0.0, math.nan, 0.9])]), logits(2, 3))
    with pytest.raises(DataError, match=r"no predictions for 2 of 4 examples of made, such as a"):
        made.predictions()
    made.add(collate([BadClip("a", 0, "early"), BadClip("b", 1, "gone")]), logits(0, 0))
    found = made.predictions()
    assert found.empty.tolist() == [True, False, False, False]  # no frame lies before 0 s
    assert found.positions == (2.0, 1.0)
    assert found.answers.shape == (4, 0)
    found = found.select(torch.tensor([2, 3]))
    assert found.ids == ("c", "d")
    assert found.limits.tolist() == [[0.0, 1.0], [1.0, 2.0]]
    assert found.last_seen.tolist() == [[0.0, 0.9], [0.4, 0.9]]
    assert found.scores["action"].max(2).values.tolist() == [[-torch.inf, 13.0], [2.0, 3.0]]
    with pytest.raises(DataError, match=r"has 2 positions and clip\.steps is 3"):
        made.add(collate([item(3, [0.0, 0.4])]), logits(1, 2))


def test_batches_of_other_data_are_rejected() -> None:
    made = collector("recognition", ClipConfig())
    batch = collate([item(1, [0.0, 0.1])])
    with pytest.raises(InputError, match="action logits have shape"):
        made.add(batch, logits(1, 3))
    with pytest.raises(ConfigError, match="the model predicts 3 classes of action and made has 2"):
        made.add(batch, Logits(torch.zeros(1, 2, 3)))
    with pytest.raises(InputError, match="of example b are NaN"):
        made.add(batch, Logits(torch.full((1, 2, 2), math.nan)))
    for wrong in (4, 0):
        stranger = Item(*(getattr(item(1, [0.0]), n) for n in ("frames", "times", "observed")), {}, "b", wrong)
        with pytest.raises(DataError, match=f"the batch has b as example {wrong}"):
            made.add(collate([stranger]), logits(1, 1))
