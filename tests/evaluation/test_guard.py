"""The leak guard: it knows to the frame what was shown, and one frame too many is too many."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import fake_epic
import pytest
import torch

import horst
from horst.data.clips import Clip, ClipConfig
from horst.data.config import DataConfig, open_source
from horst.data.example import Example
from horst.data.features import FeatureClip
from horst.data.loader import ClipBatches
from horst.errors import DataError
from horst.evaluation.evaluate import evaluate
from horst.evaluation.guard import check
from horst.evaluation.predictions import Predictions

TAUS = (2.0, 1.0, 0.25)


def predictions(late: float, column: int) -> Predictions:
    """Three examples, of which the second saw `late` seconds more than it may, at one position."""
    limits = torch.tensor([[10.0], [20.0], [30.0]], dtype=torch.float64) - torch.tensor(TAUS).double()
    seen = limits.clone()
    seen[1, column] += late
    count = len(limits)
    return Predictions(
        task="anticipation",
        positions=TAUS,
        ids=tuple("abc"),
        labels={"action": torch.zeros(count, dtype=torch.int64)},
        scores={"action": torch.zeros(count, len(TAUS), 2)},
        read=torch.ones(count, dtype=torch.bool),
        empty=torch.zeros(count, dtype=torch.bool),
        answers=torch.zeros(count, 0, dtype=torch.int64),
        lengths=torch.full((count,), 14),
        last_seen=seen,
        limits=limits,
    )


@pytest.mark.parametrize("column", range(len(TAUS)))
@pytest.mark.parametrize("late", [1e-5, 1e-3, 1 / 120, 1 / 90, 1 / 60, 1 / 30, 0.25])
def test_a_frame_too_many_is_too_many(late: float, column: int) -> None:
    """At any rate: a frame of 90 a second too, and less than a frame."""
    with pytest.raises(DataError, match=r"1 of 3 examples saw more than they may: b at "):
        check(predictions(late, column), "strict")
    assert check(predictions(late, column), "rulstm") == {f"{TAUS[column]:g}s": 1}


@pytest.mark.parametrize("late", [-10.0, -1 / 30, 0.0, 5e-7])
def test_what_may_be_seen_may_be_seen(late: float) -> None:
    """Up to the limit itself; packed data rounds times to microseconds."""
    assert check(predictions(late, 1), "strict") == check(predictions(late, 1), "rulstm") == {}


@pytest.mark.parametrize("fps", [30.0, 60.0, 90.0])
def test_pictures_one_frame_late_are_noticed(tmp_path: Path, fps: float) -> None:
    """From the clip to the guard, it is the picture that counts: the next one is refused."""
    options = fake_epic.features(tmp_path, "ek55")
    data = DataConfig.from_dict({**options, "clip": {"size": [1, 1], "mode": "strict"}}, base=tmp_path)
    small = {"backbone": {"name": "maps", "channels": 8}, "hidden": (8, 8), "stride": (1, 1), "size": (1, 1)}
    model = horst.create_model("horst_ek55", **small, num_classes=6, num_verbs=2, num_nouns=3)
    source = open_source(data)

    def clips(later: float) -> ClipBatches:
        def shown(example: Example, config: ClipConfig) -> Clip | FeatureClip:
            clip = source.read(example, config)
            return replace(clip, times=clip.times + later)

        return ClipBatches(data, source=replace(source, read=shown))

    assert evaluate(model, clips(0.0), progress=False).counts["read"] == 4
    with pytest.raises(DataError, match="4 of 4 examples saw more than they may"):
        evaluate(model, clips(1 / fps), progress=False)
