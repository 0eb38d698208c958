"""The guard: predictions that saw more than they may are rejected, or counted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Literal

import fake_epic
import pytest
import torch
from small_sets import FunctionSource

import horst
from horst.data.clips import Clip, ClipConfig
from horst.data.config import DataConfig
from horst.data.example import Annotations, Example
from horst.data.loader import ClipBatches
from horst.data.source import open_source
from horst.errors import DataError
from horst.evaluation.evaluate import evaluate
from horst.evaluation.guard import SLACK, count_leaks
from horst.evaluation.predictions import Collector, Predictions

TAUS = (1.0, 0.75, 0.5, 0.25)


def predictions(late: float, *places: tuple[int, int]) -> Predictions:
    """Three examples, of which some saw `late` seconds too much at some positions: (row, column)."""
    limits = torch.tensor([[10.0], [20.0], [30.0]], dtype=torch.float64) - torch.tensor(TAUS).double()
    seen = limits.clone()
    for row, column in places:
        seen[row, column] += late
    return Predictions(
        task="anticipation",
        positions=TAUS,
        ids=tuple("abc"),
        labels={"action": torch.zeros(3, dtype=torch.int64)},
        scores={"action": torch.zeros(3, len(TAUS), 2)},
        read=torch.ones(3, dtype=torch.bool),
        empty=torch.zeros(3, dtype=torch.bool),
        answers=torch.zeros(3, 0, dtype=torch.int64),
        lengths=torch.full((3,), 14),
        last_seen=seen,
        limits=limits,
    )


@pytest.mark.parametrize("column", range(len(TAUS)))
@pytest.mark.parametrize("late", [3e-6, 1e-5, 1e-3, 1 / 120, 1 / 90, 1 / 60, 1 / 30, 0.25])
def test_one_frame_too_many_is_found(late: float, column: int) -> None:
    """At any frame rate, and less than a frame."""
    with pytest.raises(DataError, match=r"1 of 3 examples saw more than they may: b at "):
        count_leaks(predictions(late, (1, column)), "strict")
    assert count_leaks(predictions(late, (1, column)), "rulstm") == {f"{TAUS[column]:g}s": 1}


def test_every_example_is_counted() -> None:
    leaky = predictions(0.1, (1, 1), (1, 3), (2, 3))
    assert count_leaks(leaky, "rulstm") == {"0.75s": 1, "0.25s": 2}
    message = r"2 of 3 examples saw more than they may: b at 0\.75s saw 19\.350 s, its limit is 19\.250 s"
    with pytest.raises(DataError, match=message):
        count_leaks(leaky, "strict")


@pytest.mark.parametrize("mode", ["strict", "rulstm"])
@pytest.mark.parametrize("late", [-10.0, -1 / 30, 0.0, 0.5 * SLACK])
def test_frames_up_to_the_limit_are_allowed(late: float, mode: Literal["strict", "rulstm"]) -> None:
    """Packed data rounds times to microseconds."""
    assert count_leaks(predictions(late, (1, 1)), mode) == {}
    unseen = torch.full((3, len(TAUS)), -torch.inf, dtype=torch.float64)
    assert count_leaks(replace(predictions(0.0), last_seen=unseen), mode) == {}


def test_limits_are_tau_before_the_start() -> None:
    """The start is a time, or that of a frame if the annotations count frames; frame 1 is at 0 s."""
    about = Annotations(name="made", task="anticipation", examples=(), classes={"action": ("a", "b")})
    collector = Collector(about, ClipConfig(steps=4, stride=0.25))
    assert collector.positions == TAUS
    seconds = Example(id="s", media=Path("v.mp4"), split="val", start=12.345, labels={"action": 0})
    limits = collector._limits([seconds, replace(seconds, id="f", start_frame=301)])
    expected = torch.tensor([[12.345], [10.0]], dtype=torch.float64) - torch.tensor(TAUS).double()
    torch.testing.assert_close(limits, expected)


@pytest.mark.parametrize("fps", [30.0, 60.0, 90.0])
def test_images_one_frame_late_are_found(tmp_path: Path, fps: float) -> None:
    """The time of the decoded image counts, not the time that was asked for."""
    options = fake_epic.features(tmp_path, "ek55")
    data = DataConfig.from_dict({**options, "clip": {"size": [1, 1], "mode": "strict"}}, base=tmp_path)
    small = {"backbone": {"name": "maps", "channels": 8}, "hidden": (8, 8), "stride": (1, 1), "size": (1, 1)}
    model = horst.create_model("horst_ek55", **small, num_classes=6, num_verbs=2, num_nouns=3)
    source = open_source(data)

    def clips(later: float) -> ClipBatches:
        def shown(example: Example, config: ClipConfig) -> Clip:
            clip = source.read(example, config)
            return replace(clip, times=clip.times + later)

        return ClipBatches(data, source=FunctionSource(source.annotations, shown))

    assert evaluate(model, clips(0.0), progress=False).counts["read"] == 4
    with pytest.raises(DataError, match="4 of 4 examples saw more than they may"):
        evaluate(model, clips(1 / fps), progress=False)
