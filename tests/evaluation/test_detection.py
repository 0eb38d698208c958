"""Online action detection: average precision of frames, its targets, and a run from the CSV file to the report."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import small_runs
import torch
import videos
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console
from sklearn.metrics import average_precision_score

from horst.config import from_dict
from horst.data.clips import ClipConfig
from horst.data.example import UNKNOWN, ActionSegment, Annotations, Example
from horst.data.loader import ClipBatches
from horst.data.segments import as_detection, detection_labels
from horst.errors import ConfigError, DataError
from horst.evaluation.detection import FrameCollector, average_precision, deciles, metric_names, targets
from horst.evaluation.evaluate import evaluate, predict, predict_and_evaluate
from horst.evaluation.predictions import Predictions
from horst.evaluation.table import tables
from horst.models import load
from horst.studies.statistics import metric_statistic
from horst.training.config import RunConfig
from horst.training.fit import train

frames = st.lists(st.tuples(st.integers(0, 12), st.booleans()), min_size=1, max_size=60).filter(
    lambda rows: any(right for _, right in rows)
)


def tensors(rows: list[tuple[int, bool]]) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.tensor([score / 12 for score, _ in rows]), torch.tensor([right for _, right in rows])


@given(rows=frames)
def test_average_precision_is_that_of_scikit_learn(rows: list[tuple[int, bool]]) -> None:
    """With equal scores too."""
    scores, right = tensors(rows)
    found = average_precision(scores, right)
    assert float(found) == pytest.approx(average_precision_score(right.numpy(), scores.numpy()), abs=1e-9)


@given(rows=frames, seed=st.integers(0, 99))
def test_a_frame_with_weight_two_counts_as_two_frames(rows: list[tuple[int, bool]], seed: int) -> None:
    scores, right = tensors(rows)
    counts = torch.randint(0, 3, (len(scores),), generator=torch.Generator().manual_seed(seed))
    repeated = average_precision(scores.repeat_interleave(counts), right.repeat_interleave(counts), calibrated=True)
    weighted = average_precision(scores, right, counts.double()[None], calibrated=True)
    assert torch.allclose(weighted, repeated, equal_nan=True, rtol=0, atol=1e-12)


@given(order=st.permutations(range(20)), positives=st.integers(1, 19))
def test_calibrated_precision_by_its_definition(order: list[int], positives: int) -> None:
    """De Geest et al. 2016: cPrec = w TP / (w TP + FP), with w the frames of others by those of the action."""
    scores, right = torch.tensor(order).double(), torch.arange(20) < positives
    by_score, w, total = right[scores.argsort(descending=True)].tolist(), (20 - positives) / positives, 0.0
    for place, hit in enumerate(by_score):
        if hit:
            tp = sum(by_score[: place + 1])
            total += w * tp / (w * tp + (place + 1 - tp))
    assert float(average_precision(scores, right, calibrated=True)) == pytest.approx(total / positives, abs=1e-12)


def test_without_a_positive_frame_there_is_no_precision() -> None:
    assert average_precision(torch.tensor([0.2, 0.1]), torch.tensor([False, False])).isnan().all()
    assert average_precision(torch.zeros(0), torch.zeros(0, dtype=torch.bool)).isnan().all()


def test_the_tenths_of_actions() -> None:
    """Two actions of 21 and 3 frames; the second is in another video that begins with it."""
    right = torch.tensor([False, *[True] * 21, *[True] * 3, False])
    found = deciles(right, ["a"] * 22 + ["b"] * 4)
    assert found[:22, 0].nonzero()[:, 0].tolist() == [1, 2]
    assert found[:22, 9].nonzero()[:, 0].tolist() == [19, 20]
    assert found[22:, 0].nonzero()[:, 0].tolist() == [0]  # a short action has a frame in every tenth
    assert found.any(0).all()
    assert not found[~right].any()


SEGMENTS = (ActionSegment(0.4, 2.0, 1), ActionSegment(1.0, 1.4, 2))


def test_overlapping_actions_are_all_right_and_the_last_one_is_learned() -> None:
    times = np.arange(0, 3, 0.2)
    found = detection_labels(SEGMENTS, times, [1.0])
    assert found["action"].tolist() == [0, 0, 1, 1, 1, 2, 2, 1, 1, 1, 0, 0, 0, 0, 0]
    assert found["ahead"][:, 0].tolist() == [2, 2, 1, 1, 1, 0, 0, 0, 0, 0, *[UNKNOWN] * 5]
    every = targets(SEGMENTS, times, [1.0, 0.0], 3)
    assert every[5, 1].tolist() == [False, True, True]
    assert every[10, 0].any().item() is False  # a second after this frame the video has ended
    now = every[:, 1]
    assert torch.equal(now.gather(1, found["action"][:, None]).all(), torch.tensor(True))


def test_labels_of_segments_leave_the_background_its_class() -> None:
    names = ("background", "a", "b")
    video = Example(id="v", split="val", media=Path("v"), labels={}, segments=(ActionSegment(0, 1, 0),))
    with pytest.raises(DataError, match="has label 0 of 3 classes"):
        Annotations(name="made", task="detection", examples=(video,), classes={"action": names})
    online = Annotations(name="made", task="online", examples=(video,), classes={"action": names, "present": names})
    with pytest.raises(DataError, match="an action is named 'background'"):
        as_detection(online)


FPS, SIZE = 5.0, (16, 24)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five videos of 4 s with two actions each and frames without any."""
    folder = tmp_path_factory.mktemp("detection")
    lines = ["path,split,label,start,end"]
    for i in range(5):
        videos.clip(folder / f"v{i}.mp4", frames=48, fps=12)
        for label, start in (("pour", 0.6 + 0.1 * i), ("take", 2.2)):
            lines.append(f"v{i}.mp4,{'val' if i > 2 else 'train'},{label},{start:g},{start + 0.8:g}")
    (folder / "actions.csv").write_text("\n".join(lines) + "\n")
    return folder / "actions.csv"


def run_config(data: Path, **changes: Any) -> RunConfig:
    clip = {"size": list(SIZE), "fps": FPS, "steps": 2, "stride": 0.5}
    plain: dict[str, Any] = {
        "name": "detection",
        "model": {"name": "gru_tiny", "options": {"backbone": small_runs.TINY["backbone"]}},
        "data": {"source": "csv", "path": str(data), "task": "detection", "clip": clip},
        "batches": {"size": 2},
        "augment": {"operations": 0, "mirror": False},
        "loss": {"steps": "every"},
        "optimiser": {"name": "adamw", "lr": 0.01, "lookahead": False},
        "trainer": {"epochs": 1, "accelerator": "cpu"},
    }
    for key, value in changes.items():
        plain[key] = plain.get(key, {}) | value
    return from_dict(RunConfig, plain)


@pytest.mark.parametrize("name", ["gru_tiny", "horst_tiny", "horst_tiny_anticipation"])
def test_a_run_trains_evaluates_and_streams(data: Path, tmp_path: Path, name: str) -> None:
    options = small_runs.TINY if name.startswith("horst") else {"backbone": small_runs.TINY["backbone"]}
    config = run_config(data, model={"name": name, "options": options}, augment={"speed": 0.1}, trainer={"window": 8})
    run = train(config, tmp_path / "run", console=Console(file=io.StringIO()))
    model = load(run.best)
    assert model.labels is not None
    assert model.labels["action"][0] == "background"
    predictions, found = predict_and_evaluate(model, ClipBatches(config.data, batch_size=2), progress=False)
    assert set(metric_names(config.data.clip)) == found.metrics.keys()
    assert found.counts["examples"] == 2 * 20  # frames
    assert len(predictions.ids) == len(set(predictions.ids)) == 40
    predictions.save(tmp_path / "p.safetensors")
    again = Predictions.load(tmp_path / "p.safetensors")
    for metric in ("action/map@0s", "action/mcap@1s", "action/top1@0.5s"):
        statistic = metric_statistic(again, metric)
        assert statistic is not None
        assert statistic.value == pytest.approx(found.metrics[metric], abs=1e-12)
    found.save(run.evaluation("val"))
    (table,) = tables([run.folder])
    assert "40 validation frames, detection" in table.title
    assert list(table.columns) == ["mAP at 0s", "mcAP at 0s", "top-1 at 0s", "mAP at 1s"]
    session = model.stream()
    for i in range(3):
        prediction = session.push(videos.picture(i, *SIZE), i / FPS)
    assert prediction is not None
    assert prediction.horizon == 0


def test_frames_of_a_video_that_cannot_be_read_are_missed(data: Path, tmp_path: Path) -> None:
    config = run_config(data)
    run = train(config, tmp_path / "run", console=Console(file=io.StringIO()))
    model, folder = load(run.best), tmp_path / "copy"
    folder.mkdir()
    for file in data.parent.iterdir():
        (folder / file.name).write_bytes(b"damaged" if file.name == "v4.mp4" else file.read_bytes())
    clips = ClipBatches(replace(config.data, options={**config.data.options, "path": str(folder / data.name)}))
    found = predict(model, clips, progress=False)
    assert [ident for ident, _ in found.missing] == ["v4"]
    assert int((~found.read).sum()) == 15  # until the end of its last action, 3 s
    assert found.select(torch.arange(len(found)).flip(0)).missing == found.missing
    whole = evaluate(model, ClipBatches(config.data), progress=False)
    missed = evaluate(model, clips, progress=False)
    assert missed.metrics["action/top1@0s"] <= whole.metrics["action/top1@0s"]


def test_every_video_must_be_evaluated() -> None:
    video = Example(id="v", split="val", media=Path("v"), labels={}, segments=SEGMENTS)
    names = ("background", "a", "b")
    annotations = Annotations(name="made", task="detection", examples=(video,), classes={"action": names})
    with pytest.raises(DataError, match="no predictions for v of made"):
        FrameCollector(annotations, ClipConfig()).predictions()


@settings(max_examples=20)
@given(scale=st.floats(0.5, 3.0))
def test_perfect_scores_have_precision_one(scale: float) -> None:
    times = torch.arange(0, 3, 0.2, dtype=torch.float64)
    right = targets(SEGMENTS[:1], times.numpy(), [0.0], 3)[:, 0]
    assert float(average_precision(scale * right[:, 1].double(), right[:, 1])) == 1.0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"loss": {"balance": 0.5}}, "loss.near and loss.balance are for the task online"),
        ({"loss": {"steps": "anticipation"}}, "use every"),
        ({"model": {"name": "rulstm_tiny"}}, "choose another model for detection"),
    ],
)
def test_what_detection_does_not_have(data: Path, tmp_path: Path, change: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        train(run_config(data, **change), tmp_path / "run", console=Console(file=io.StringIO()))
