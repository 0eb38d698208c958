"""The last moment that a prediction may have seen, and what the guard says of one that saw more."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from horst.data.clips import ClipConfig
from horst.data.example import Annotations, Example
from horst.errors import DataError
from horst.evaluation.guard import SLACK, check
from horst.evaluation.predictions import Collector, Predictions

CONFIG = ClipConfig(steps=4, stride=0.25)
TAUS = torch.tensor([1.0, 0.75, 0.5, 0.25], dtype=torch.float64)


def example(name: str, start: float, start_frame: int | None) -> Example:
    return Example(
        id=name, media=Path("v.mp4"), split="val", start=start, start_frame=start_frame, labels={"action": 0}
    )


def test_limits_are_tau_before_the_start() -> None:
    """In seconds where the annotations have seconds; by the frame, of which the first is at 0 s, where they count."""
    about = Annotations(name="made", task="anticipation", examples=(), classes={"action": ("a", "b")})
    collector = Collector(about, CONFIG)
    assert torch.tensor(collector.positions).double().equal(TAUS)
    limits = collector._limits([example("seconds", 12.345, None), example("frames", 12.345, 301)])
    torch.testing.assert_close(limits, torch.tensor([[12.345], [10.0]], dtype=torch.float64) - TAUS)


def predictions(over: float) -> Predictions:
    """Three examples; the second saw `over` seconds too much at 0.75 s and at 0.25 s, the third at 0.25 s."""
    limits = 10.0 - TAUS.expand(3, -1)
    late = torch.tensor([[0, 0, 0, 0], [0, 1, 0, 1], [0, 0, 0, 1]]).double()
    return Predictions(
        task="anticipation",
        positions=tuple(TAUS.tolist()),
        ids=("a", "b", "c"),
        labels={"action": torch.zeros(3, dtype=torch.int64)},
        scores={"action": torch.zeros(3, 4, 2)},
        read=torch.ones(3, dtype=torch.bool),
        empty=torch.zeros(3, dtype=torch.bool),
        answers=torch.zeros(3, 4, dtype=torch.int64),
        lengths=torch.full((3,), 4),
        last_seen=limits + over * late,
        limits=limits,
    )


def test_every_example_that_saw_too_much_is_counted() -> None:
    assert check(predictions(0.1), "rulstm") == {"0.75s": 1, "0.25s": 2}
    told = r"2 of 3 examples saw more than they may: b at 0\.75s saw 9\.350 s, its limit is 9\.250 s"
    with pytest.raises(DataError, match=told):
        check(predictions(0.1), "strict")


def test_microseconds_of_packed_times_are_no_leak() -> None:
    for mode in ("rulstm", "strict"):
        assert check(predictions(0.5 * SLACK), mode) == {}  # type: ignore[arg-type]
        assert check(predictions(-1.0), mode) == {}  # type: ignore[arg-type]
    assert check(predictions(3e-6), "rulstm")
    unseen = replace(predictions(0.0), last_seen=torch.full((3, 4), -torch.inf, dtype=torch.float64))
    assert check(unseen, "strict") == {}
