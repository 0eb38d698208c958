"""A few clips teach a model that is saved whole, streams, and knows fresh clips of the same actions."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import videos

import horst
from horst.data.clips import Clip
from horst.errors import CheckpointError, ConfigError, InputError
from horst.finetune import scratch
from horst.finetune.lesson import Lesson, Progress, Trial
from horst.finetune.teach import Taught, teach
from horst.finetune.views import copy, plain
from horst.layers.cell import HORSTCell
from horst.synth.somethings import FPS, plan, render

ACTIONS = ("Pushing [something] from left to right", "Moving [something] up", "Covering [something] with [something]")
Clips = dict[str, list[Clip]]


def drawn(count: int, seed: int) -> Clips:
    made: Clips = {name: [] for name in ACTIONS}
    for spec in plan(count * len(ACTIONS), seed, templates=ACTIONS):
        pictures = render(spec)
        made[spec.template].append(Clip(pictures, np.arange(len(pictures)) / FPS))
    return made


@pytest.fixture(scope="module")
def clips() -> Clips:
    return drawn(4, seed=50)


@pytest.fixture(scope="module")
def taught(clips: Clips, tmp_path_factory: pytest.TempPathFactory) -> tuple[Taught, list[Progress]]:
    told: list[Progress] = []
    path = tmp_path_factory.mktemp("models") / "mine"
    return teach(clips, path, minutes=0.15, report=told.append), told


def test_fresh_clips_are_known(taught: tuple[Taught, list[Progress]]) -> None:
    """Guessing gives 4 of 12; 12 were measured."""
    model = horst.open_model(taught[0].path)
    assert model.labels == {"action": list(ACTIONS)}
    right = 0
    for label, known in drawn(4, seed=60).items():
        for clip in known:
            stream = model.stream()
            for image, time in zip(clip.frames, clip.times, strict=True):
                said = stream.push(image, float(time))
            assert said is not None
            right += said.answer() == label
    assert right >= 9


def test_the_trial_is_of_clips_that_were_held_out(taught: tuple[Taught, list[Progress]]) -> None:
    trial = taught[0].trial
    assert trial is not None
    assert trial.clips == 12  # each of them once
    assert trial.accuracy >= 0.7
    card = (taught[0].path / "README.md").read_text()
    assert f"{trial.right} of 12 held-out clips" in card
    assert all(f"4 x {label}" in card for label in ACTIONS)


def test_progress_goes_forward(taught: tuple[Taught, list[Progress]]) -> None:
    parts = [progress.part for progress in taught[1]]
    assert parts == sorted(parts)
    assert 0 < parts[0] < 0.1
    assert parts[-1] == 1


def test_nothing_but_the_model_is_left(taught: tuple[Taught, list[Progress]]) -> None:
    assert [entry.name for entry in taught[0].path.parent.iterdir()] == ["mine"]


def test_the_core_is_the_base_s(taught: tuple[Taught, list[Progress]]) -> None:
    model, base = horst.open_model(taught[0].path), horst.open_model("somethings")
    assert (model.fps, model.size) == (base.fps, base.size)
    for name, weight in base.core.state_dict().items():
        torch.testing.assert_close(model.core.state_dict()[name], weight)


def test_from_scratch_gives_a_model_too(clips: Clips, tmp_path: Path) -> None:
    told: list[Progress] = []
    few = {label: known[:2] for label, known in clips.items()}
    result = teach(few, tmp_path / "mine", how="scratch", minutes=0.05, report=told.append)
    assert result.trial is None
    model = horst.open_model(result.path)
    assert model.labels == {"action": list(ACTIONS)}
    assert model.stream().push(clips[ACTIONS[0]][0].frames[0], 0.0) is not None
    assert all(np.isfinite(progress.loss) for progress in told if progress.loss is not None)


def test_from_scratch_it_begins_as_a_difference_of_frames() -> None:
    """What is emitted of a picture that stands still is next to nothing beside what is emitted of one that moves."""
    cell = scratch.create(["a", "b"], seed=0).core.layers[0]
    assert isinstance(cell, HORSTCell)
    maps = torch.randn(1, 6, cell.in_channels, 6, 6, generator=torch.Generator().manual_seed(0))
    size = []
    for clip in (maps[:, :1].expand_as(maps), maps):
        with torch.no_grad():
            out, _ = cell(clip, None, [6], False)
        size.append((out.e + out.statt)[:, 3:].std().item())
    assert size[0] < 0.5 * size[1]


def test_disguised_clips_keep_their_motion(clips: Clips) -> None:
    rng = np.random.default_rng(0)
    frames = plain(clips[ACTIONS[0]][0], scratch.FPS, scratch.SIZE)
    for _ in range(6):
        other = scratch._disguised(frames, rng)
        assert other.shape == frames.shape
        assert 0 <= other.min() <= other.max() <= 255
    still = scratch._disguised(frames[:1].expand_as(frames), rng)
    assert (still == still[0]).all()


def test_videos_of_a_folder_teach_too(tmp_path: Path) -> None:
    for label in ("left", "right"):
        (tmp_path / "clips" / label).mkdir(parents=True)
        videos.clip(tmp_path / "clips" / label / "1.mp4")
    (tmp_path / "clips" / "left" / "notes.txt").write_text("no video")
    places = [str(tmp_path / "clips"), str(tmp_path / "mine")]
    command = [sys.executable, "-m", "horst.finetune", *places, "--how", "scratch", "--minutes", "0.02"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "left, right; 2 clips" in done.stdout
    assert horst.open_model(tmp_path / "mine").labels == {"action": ["left", "right"]}
    again = subprocess.run(command, capture_output=True, text=True, check=False)
    assert again.returncode == 1
    assert "exists" in again.stderr


def test_a_model_that_is_there_is_replaced_on_request_alone(clips: Clips, tmp_path: Path) -> None:
    few = {label: known[:1] for label, known in list(clips.items())[:2]}
    teach(few, tmp_path / "mine", minutes=0.001)
    before = (tmp_path / "mine" / "README.md").read_text()
    with pytest.raises(CheckpointError, match="overwrite"):
        teach(few, tmp_path / "mine", minutes=0.001)
    other = {"up": few[ACTIONS[0]], "down": few[ACTIONS[1]]}
    teach(other, tmp_path / "mine", minutes=0.001, overwrite=True)
    assert horst.open_model(tmp_path / "mine").labels == {"action": ["up", "down"]}
    assert (tmp_path / "mine" / "README.md").read_text() != before
    (tmp_path / "other").mkdir()
    with pytest.raises(CheckpointError, match="no saved model"):
        teach(few, tmp_path / "other", overwrite=True)


@pytest.mark.parametrize("minutes", [0, -1, 61, float("nan"), True, "1"])
def test_impossible_times_are_refused(clips: Clips, tmp_path: Path, minutes: float) -> None:
    with pytest.raises(InputError, match="minutes"):
        teach(clips, tmp_path / "mine", minutes=minutes)


def test_there_must_be_something_to_tell_apart(clips: Clips, tmp_path: Path) -> None:
    one = clips[ACTIONS[0]]
    for given in ({}, {"a": one}, {"a": one, "b": []}, {"a": one, " a ": one}):
        with pytest.raises(InputError, match="tell apart"):
            teach(given, tmp_path / "mine")
    with pytest.raises(ConfigError, match="anticipates"):
        teach(clips, tmp_path / "mine", base="kitchen")
    with pytest.raises(ConfigError, match="how"):
        teach(clips, tmp_path / "mine", how="guess")  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())


def test_views_are_in_the_model_s_size_and_rate(clips: Clips) -> None:
    clip = clips[ACTIONS[0]][0]
    frames = plain(clip, FPS, (112, 112))
    np.testing.assert_array_equal(frames.permute(0, 2, 3, 1).numpy(), clip.frames)
    rng = np.random.default_rng(0)
    for _ in range(10):
        other = copy(clip, 6, (40, 50), rng)
        assert other.dtype == torch.uint8
        assert other.shape[1:] == (3, 40, 50)
        assert 0.6 * len(clip.frames) / 2 <= len(other) <= 1.2 * len(clip.frames) / 2 + 1
    short = Clip(clip.frames[:1], clip.times[:1])
    assert len(plain(short, 6, (40, 50))) == len(copy(short, 6, (40, 50), rng)) == 1


def test_labels_with_few_clips_count_the_same(clips: Clips) -> None:
    one, other = clips[ACTIONS[0]], clips[ACTIONS[1]]
    lesson = Lesson.of({"a": one[:1], "b": other[:3]}, 1)
    weights = [lesson.weight(i) for i in range(4)]
    assert weights[0] == pytest.approx(sum(weights[1:]))
    assert lesson.folds() == []
    folds = Lesson.of({"a": one[:3], "b": other[:4]}, 1).folds()
    assert folds == [[0, 3], [1, 4], [2, 5]]


def test_a_trial_counts_the_end_and_the_middle() -> None:
    logits = torch.eye(3)[[0, 1, 1, 2, 2]]
    assert Trial.of(logits, 1) == Trial(1, 0, 1)
    assert Trial.of(logits, 2) + Trial.of(logits, 1) == Trial(2, 1, 1)
