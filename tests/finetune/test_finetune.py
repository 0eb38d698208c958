"""Finetuning on a few clips gives a saved model that classifies new clips of the same actions."""

from __future__ import annotations

import csv
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
import videos

import horst
from horst.data.clips import Clip
from horst.errors import CheckpointError, ConfigError, InputError
from horst.finetune import FinetuneProgress, FinetuneResult, finetune, frozen, scratch
from horst.finetune.job import FinetuneJob, HeldOut
from horst.finetune.run import read_video
from horst.layers.cell import HORSTCell
from horst.synth.somethings import FPS, plan, render

ACTIONS = ("Pushing [something] from left to right", "Moving [something] up", "Covering [something] with [something]")
Clips = dict[str, list[Clip]]


def rendered(count: int, seed: int) -> Clips:
    made: Clips = {name: [] for name in ACTIONS}
    for spec in plan(count * len(ACTIONS), seed, templates=ACTIONS):
        images = render(spec)
        made[spec.template].append(Clip(images, np.arange(len(images)) / FPS))
    return made


@pytest.fixture(scope="module")
def clips() -> Clips:
    return rendered(4, seed=50)


@pytest.fixture(scope="module")
def finetuned(clips: Clips, tmp_path_factory: pytest.TempPathFactory) -> tuple[FinetuneResult, list[FinetuneProgress]]:
    reports: list[FinetuneProgress] = []
    path = tmp_path_factory.mktemp("models") / "mine"
    return finetune(clips, path, minutes=0.15, report=reports.append), reports


def test_new_clips_are_classified(finetuned: tuple[FinetuneResult, list[FinetuneProgress]]) -> None:
    """Chance is 3 of 9; 8 were measured."""
    model = horst.open_model(finetuned[0].path)
    assert model.labels == {"action": list(ACTIONS)}
    correct = 0
    for label, known in rendered(3, seed=60).items():
        for clip in known:
            stream = model.stream()
            for image, time in zip(clip.frames, clip.times, strict=True):
                prediction = stream.push(image, float(time))
            assert prediction is not None
            correct += prediction.answer() == label
    assert correct >= 7


def test_accuracy_is_of_held_out_clips(finetuned: tuple[FinetuneResult, list[FinetuneProgress]]) -> None:
    held_out = finetuned[0].held_out
    assert held_out is not None
    assert held_out.clips == 12  # each of them once
    assert held_out.accuracy >= 0.7
    card = (finetuned[0].path / "README.md").read_text()
    assert f"{held_out.correct} of 12 held-out clips" in card
    assert all(f"4 x {label}" in card for label in ACTIONS)


def test_progress_increases(finetuned: tuple[FinetuneResult, list[FinetuneProgress]]) -> None:
    parts = [progress.fraction for progress in finetuned[1]]
    assert parts == sorted(parts)
    assert 0 < parts[0] < 0.1
    assert parts[-1] == 1


def test_no_other_files_are_left(finetuned: tuple[FinetuneResult, list[FinetuneProgress]]) -> None:
    assert [entry.name for entry in finetuned[0].path.parent.iterdir()] == ["mine"]


def test_the_core_is_that_of_the_base(finetuned: tuple[FinetuneResult, list[FinetuneProgress]]) -> None:
    model, base = horst.open_model(finetuned[0].path), horst.open_model("somethings")
    assert (model.fps, model.size) == (base.fps, base.size)
    for name, weight in base.core.state_dict().items():
        torch.testing.assert_close(model.core.state_dict()[name], weight)


def test_training_from_scratch(clips: Clips, tmp_path: Path) -> None:
    reports: list[FinetuneProgress] = []
    few = {label: known[:2] for label, known in clips.items()}
    result = finetune(few, tmp_path / "mine", how="scratch", minutes=0.05, report=reports.append)
    assert result.held_out is None
    model = horst.open_model(result.path)
    assert model.labels == {"action": list(ACTIONS)}
    assert model.stream().push(clips[ACTIONS[0]][0].frames[0], 0.0) is not None
    assert all(np.isfinite(progress.loss) for progress in reports if progress.loss is not None)


def test_scratch_starts_as_a_difference_of_frames() -> None:
    """The output for a still image is small compared with that for a moving one."""
    cell = scratch.create(["a", "b"], seed=0).core.layers[0]
    assert isinstance(cell, HORSTCell)
    maps = torch.randn(1, 6, cell.in_channels, 6, 6, generator=torch.Generator().manual_seed(0))
    size = []
    for clip in (maps[:, :1].expand_as(maps), maps):
        with torch.no_grad():
            out, _ = cell(clip, None, [6], False)
        size.append((out.e + out.statt)[:, 3:].std().item())
    assert size[0] < 0.5 * size[1]


def test_a_folder_of_videos(tmp_path: Path) -> None:
    for label in ("left", "right"):
        (tmp_path / "clips" / label).mkdir(parents=True)
        videos.clip(tmp_path / "clips" / label / "1.mp4")
    (tmp_path / "clips" / "left" / "notes.txt").write_text("no video")
    (tmp_path / "clips" / "empty").mkdir()
    result = finetune(tmp_path / "clips", tmp_path / "mine", how="scratch", minutes=0.02)
    assert (result.labels, result.clips) == (["left", "right"], 2)
    assert horst.open_model(tmp_path / "mine").labels == {"action": ["left", "right"]}


def test_a_model_is_replaced_on_request_only(clips: Clips, tmp_path: Path) -> None:
    few = {label: known[:1] for label, known in list(clips.items())[:2]}
    finetune(few, tmp_path / "mine", minutes=0.001)
    before = (tmp_path / "mine" / "README.md").read_text()
    with pytest.raises(CheckpointError, match="overwrite"):
        finetune(few, tmp_path / "mine", minutes=0.001)
    other = {"up": few[ACTIONS[0]], "down": few[ACTIONS[1]]}
    finetune(other, tmp_path / "mine", minutes=0.001, overwrite=True)
    assert horst.open_model(tmp_path / "mine").labels == {"action": ["up", "down"]}
    assert (tmp_path / "mine" / "README.md").read_text() != before
    (tmp_path / "other").mkdir()
    with pytest.raises(CheckpointError, match="not a saved model"):
        finetune(few, tmp_path / "other", overwrite=True)


@pytest.mark.parametrize("minutes", [0, -1, 61, float("nan"), True, "1"])
def test_invalid_times_are_rejected(clips: Clips, tmp_path: Path, minutes: float) -> None:
    with pytest.raises(InputError, match="minutes"):
        finetune(clips, tmp_path / "mine", minutes=minutes)


def test_two_labels_are_needed(clips: Clips, tmp_path: Path) -> None:
    one = clips[ACTIONS[0]]
    for given in ({}, {"a": one}, {"a": one, "b": []}, {"a": one, " a ": one}):
        with pytest.raises(InputError, match="at least two different labels"):
            finetune(given, tmp_path / "mine")
    with pytest.raises(ConfigError, match="anticipates"):
        finetune(clips, tmp_path / "mine", base="kitchen")
    with pytest.raises(ConfigError, match="how"):
        finetune(clips, tmp_path / "mine", how="guess")  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())


def test_labels_have_equal_weights(clips: Clips) -> None:
    one, other = clips[ACTIONS[0]], clips[ACTIONS[1]]
    job = FinetuneJob.of({"a": one[:1], "b": other[:3]}, 1)
    weights = [job.weight(i) for i in range(4)]
    assert weights[0] == pytest.approx(sum(weights[1:]))
    assert job.folds() == []
    folds = FinetuneJob.of({"a": one[:3], "b": other[:4]}, 1).folds()
    assert folds == [[0, 3], [1, 4], [2, 5]]


def test_held_out_counts_the_end_and_the_middle() -> None:
    logits = torch.eye(3)[[0, 1, 1, 2, 2]]
    assert HeldOut.of([(logits, 1)]) == HeldOut(1, 0, 1)
    assert HeldOut.of([(logits, 2), (logits, 1)]) == HeldOut(2, 1, 1)
    assert HeldOut.of([]) is None


def test_the_span_of_few_rows() -> None:
    """With more features than rows, the rows are given in an orthonormal basis of what they span."""
    rows = torch.randn(6, 20, generator=torch.Generator().manual_seed(1))
    short, basis = frozen._spanned(rows)
    assert basis is not None
    torch.testing.assert_close(short @ basis, rows, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(basis @ basis.mT, torch.eye(6), rtol=1e-4, atol=1e-4)
    assert frozen._spanned(rows.mT)[1] is None


def test_confidence_is_fitted_to_held_out_clips() -> None:
    """Logits that are too small or too large are scaled to how often they are right."""
    generator = torch.Generator().manual_seed(0)
    wrong = torch.rand(400, generator=generator) < 0.2
    results = [(torch.tensor([[0.1, 0.0]]) if not w else torch.tensor([[0.0, 0.1]]), 0) for w in wrong.tolist()]
    right = torch.sigmoid(0.1 / frozen._temperature(results)).item()
    assert right == pytest.approx(0.8, abs=0.03)
    assert frozen._temperature([]) == 1
    certain = 1 / frozen._temperature([(torch.tensor([[1.0, 0.0]]), 0)] * 8)  # all are right: at most 9 of 10
    assert torch.sigmoid(certain).item() == pytest.approx(0.9, abs=0.01)


@pytest.mark.slow
def test_gestures_of_other_people(samples: Path, tmp_path: Path) -> None:
    """Three clips of each of three gestures, and test clips of another recording. Chance is 3 of 9; 8 were measured."""
    gestures = samples / "gestures"
    with (gestures / "manifest.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    labels = ("left_swipe", "right_swipe", "stop")

    def some(run: str, label: str) -> list[Path]:
        return [gestures / row["path"] for row in rows if row["run"] == run and row["label"] == label][:3]

    size = (288, 384)
    clips = {label: [partial(read_video, file, size) for file in some("30", label)] for label in labels}
    model = horst.open_model(finetune(clips, tmp_path / "mine", base="motion_pool", minutes=0.05).path)
    correct = 0
    for label in labels:
        for file in some("3", label):
            clip, stream = read_video(file, size), model.stream()
            answers = [
                p for image, time in zip(clip.frames, clip.times, strict=True) for p in stream.feed(image, float(time))
            ]
            correct += answers[-1].answer() == label
    assert correct >= 7
