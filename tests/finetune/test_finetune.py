"""Finetuning on a few clips gives a saved model that classifies new clips of the same actions."""

from __future__ import annotations

import csv
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
import videos
from near import assert_near

import horst
from horst.data.clips import Clip
from horst.errors import CheckpointError, ConfigError, ExistsError, InputError
from horst.finetune import NOTHING, FinetuneProgress, FinetuneResult, LabelResult, finetune, frozen
from horst.finetune.job import FinetuneJob, HeldOut
from horst.finetune.run import read_video
from horst.heads import OpenRecognitionHead, create_head
from horst.models import create_model
from horst.synth.somethings import FPS, plan, render

ACTIONS = ("Pushing [something] from left to right", "Moving [something] up", "Covering [something] with [something]")
Clips = dict[str, list[Clip]]
BASE = "somethings"  # small


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
    return finetune(clips, path, base=BASE, report=reports.append), reports


def test_new_clips_are_classified(finetuned: tuple[FinetuneResult, list[FinetuneProgress]]) -> None:
    """Chance is 3 of 9; 8 were measured."""
    model = horst.open_model(finetuned[0].path)
    assert model.labels == {"action": [*ACTIONS, NOTHING]}
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


def test_a_folder_of_videos(tmp_path: Path) -> None:
    for label in ("left", "right"):
        (tmp_path / "clips" / label).mkdir(parents=True)
        videos.clip(tmp_path / "clips" / label / "1.mp4")
    (tmp_path / "clips" / "left" / "notes.txt").write_text("no video")
    (tmp_path / "clips" / "empty").mkdir()
    result = finetune(tmp_path / "clips", tmp_path / "mine", base=BASE)
    assert (result.labels, result.clips) == (["left", "right"], 2)
    assert horst.open_model(tmp_path / "mine").labels == {"action": ["left", "right", NOTHING]}


def test_a_model_is_replaced_on_request_only(clips: Clips, tmp_path: Path) -> None:
    few = {label: known[:1] for label, known in list(clips.items())[:2]}
    finetune(few, tmp_path / "mine", base=BASE)
    before = (tmp_path / "mine" / "README.md").read_text()
    with pytest.raises(ExistsError, match="overwrite"):
        finetune(few, tmp_path / "mine", base=BASE)
    other = {"up": few[ACTIONS[0]], "down": few[ACTIONS[1]]}
    finetune(other, tmp_path / "mine", base=BASE, overwrite=True)
    assert horst.open_model(tmp_path / "mine").labels == {"action": ["up", "down", NOTHING]}
    assert (tmp_path / "mine" / "README.md").read_text() != before
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").touch()
    with pytest.raises(CheckpointError, match="not a saved model"):
        finetune(few, tmp_path / "other", overwrite=True)


def test_a_long_video_is_rejected(tmp_path: Path) -> None:
    for label, frames in (("left", 20), ("right", 110)):
        (tmp_path / "clips" / label).mkdir(parents=True)
        videos.clip(tmp_path / "clips" / label / "1.mp4", frames=frames, fps=10)
    with pytest.raises(InputError, match=r"1\.mp4 lasts more than 10 s"):
        finetune(tmp_path / "clips", tmp_path / "mine", base=BASE)


def test_two_labels_are_needed(clips: Clips, tmp_path: Path) -> None:
    one = clips[ACTIONS[0]]
    for given in ({}, {"a": one}, {"a": one, "b": []}, {"a": one, " a ": one}):
        with pytest.raises(InputError, match="at least two different labels"):
            finetune(given, tmp_path / "mine")
    with pytest.raises(ConfigError, match="anticipates"):
        finetune(clips, tmp_path / "mine", base="kitchen")
    assert not list(tmp_path.iterdir())


def test_labels_have_equal_weights(clips: Clips) -> None:
    one, other = clips[ACTIONS[0]], clips[ACTIONS[1]]
    job = FinetuneJob.of({"a": one[:1], "b": other[:3]})
    weights = [job.weight(i) for i in range(4)]
    assert weights[0] == pytest.approx(sum(weights[1:]))
    assert job.folds() == []
    folds = FinetuneJob.of({"a": one[:3], "b": other[:4]}).folds()
    assert folds == [[0, 3], [1, 4], [2, 5]]


def test_a_head_does_not_depend_on_how_often_a_clip_was_recorded(clips: Clips) -> None:
    """Copies of the clips of one label change nothing: statistics and classes weigh all labels the same."""
    base = create_model("horst_tiny", num_classes=2).eval()
    features = [torch.randn(6, base.core.channels, generator=torch.Generator().manual_seed(i)) for i in range(2)]
    still, heads = features[0][:1].expand(4, -1), list[OpenRecognitionHead]()
    for copies in (1, 3):
        job = FinetuneJob.of({"a": clips[ACTIONS[0]][:1] * copies, "b": clips[ACTIONS[1]][:1]})
        heads.append(frozen._fit_head(job, base, [(i, features[t]) for i, t in enumerate(job.targets)], still))
    one, three = (head.state_dict() for head in heads)
    assert one["pool.norms.y.running_mean"].norm() > 0.1
    for name, value in one.items():
        assert_near(three[name], value, 1e-2 if name.startswith("fc") else 1e-5, name)  # LBFGS ends near the optimum


def test_clips_of_nothing_are_the_last_class(clips: Clips) -> None:
    one = clips[ACTIONS[0]]
    job = FinetuneJob.of({NOTHING: one[:1], "a": one[:3], "b": one[:3]})
    assert job.labels == job.classes == ["a", "b", NOTHING]
    assert job.targets == [0, 0, 0, 1, 1, 1, 2]
    assert job.folds() == [[0, 3, 6], [1, 4], [2, 5]]  # an action needs three clips, "nothing" does not
    assert FinetuneJob.of({"a": one[:1], "b": one[:1]}).classes == ["a", "b", NOTHING]


def test_held_out_counts_the_end_and_the_middle() -> None:
    logits, labels = torch.eye(3)[[0, 1, 1, 2, 2]], ["a", "b", "c"]
    assert HeldOut.of([(logits, 1)], labels) == HeldOut(1, 0, 1, [LabelResult("b", 1, 0, {"c": 1})])
    both = HeldOut.of([(logits, 2), (logits, 1)], labels)
    assert both is not None
    assert (both.clips, both.correct, both.correct_at_half) == (2, 1, 1)
    assert both.labels == [LabelResult("b", 1, 0, {"c": 1}), LabelResult("c", 1, 1, {})]
    assert HeldOut.of([], labels) is None


def test_advice_names_what_to_record(clips: Clips) -> None:
    one = clips[ACTIONS[0]] * 3
    job = FinetuneJob.of({"good": one[:6], "bad": one[:6], "few": one[:3]})
    results = [LabelResult("good", 6, 6, {}), LabelResult("bad", 6, 3, {"few": 2, "good": 1})]
    told = job.advice(HeldOut(12, 9, 9, results))
    assert told[0] == 'Record more clips of "bad": 3 of 6 were taken for "few" or "good".'
    assert told[1] == 'Record more clips of "few": there are 3.'
    assert len(told) == 3
    assert NOTHING in told[2]
    assert "3 clips of each label" in job.advice(None)[0]


def test_the_span_of_few_rows() -> None:
    """With more features than rows, the rows are given in an orthonormal basis of what they span."""
    rows = torch.randn(6, 20, generator=torch.Generator().manual_seed(1))
    short, basis = frozen._spanned(rows)
    assert basis is not None
    torch.testing.assert_close(short @ basis, rows, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(basis @ basis.mT, torch.eye(6), rtol=1e-4, atol=1e-4)
    assert frozen._spanned(rows.mT)[1] is None


def test_thresholds_follow_known_clips() -> None:
    """Known clips become nearer while they move. Few of their frames are rejected, also where little has moved."""
    generator = torch.Generator().manual_seed(0)
    moved = torch.linspace(0, 10, 20).expand(30, -1) + 0.1 * torch.rand(30, 20, generator=generator)
    near = 0.05 * moved + 0.05 * torch.rand(30, 20, generator=generator)
    head = create_head("open_recognition", 4, num_classes=3)
    assert isinstance(head, OpenRecognitionHead)
    frozen._set_rejection(head, list(torch.stack([near, moved], -1)))

    def rejected(near: float, moved: float) -> bool:
        return bool(head.rejection(torch.tensor([1.0, 0, -1e4]), torch.tensor([near, moved])).argmax() == 2)

    assert 0.04 < head.rejection.rise < 0.08
    assert not rejected(0.5, 10)
    assert not rejected(0.2, 4)
    assert rejected(0.2, 10)  # as near as a known clip in its middle, but all has moved
    assert rejected(0.5, 0)  # a still scene


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
    """Three clips of each of two gestures, and test clips of another recording. Chance is 2 of 4; 4 were measured.

    While the first image stands still, the answer is "nothing".
    """
    gestures = samples / "gestures"
    with (gestures / "manifest.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    labels = ("left_swipe", "right_swipe")

    def some(run: str, label: str, count: int) -> list[Path]:
        return [gestures / row["path"] for row in rows if row["run"] == run and row["label"] == label][:count]

    size = (288, 384)
    clips = {label: [partial(read_video, file, size) for file in some("30", label, 3)] for label in labels}
    model = horst.open_model(finetune(clips, tmp_path / "mine").path)
    correct = 0
    for label in labels:
        for file in some("3", label, 2):
            clip, stream = read_video(file, size), model.stream()
            answers = [
                p for image, time in zip(clip.frames, clip.times, strict=True) for p in stream.feed(image, float(time))
            ]
            correct += answers[-1].answer() == label
        still = model.stream()
        for time in clip.times[: len(clip.times) // 2]:
            answers += still.feed(clip.frames[0], float(time))
        assert answers[-1].answer() == NOTHING
    assert correct >= 3
