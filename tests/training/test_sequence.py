"""Long-term anticipation: targets, the unrolled head, streams, and a run that learns a cycle of actions."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import layouts
import numpy as np
import pytest
import small_runs
import torch
import videos
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from torch import Tensor

from horst.cli import main
from horst.config import from_dict
from horst.data.clips import ClipConfig
from horst.data.example import UNKNOWN, ActionSegment, Annotations, Example
from horst.data.loader import ClipBatches
from horst.data.module import lightning
from horst.data.segments import frame_labels, sequence_targets
from horst.errors import ConfigError, InputError
from horst.evaluation.evaluate import evaluate, predict_and_evaluate
from horst.evaluation.fusion import fuse_predictions
from horst.evaluation.predictions import Collector, Predictions
from horst.evaluation.report import notes
from horst.evaluation.sequences import measure_sequences, sequence_prior
from horst.heads import Logits
from horst.models import Predictor, fuse_models, load, model_config, save
from horst.registry import Part
from horst.training.build import build_model
from horst.training.config import Loss, RunConfig
from horst.training.fit import prepare, train
from horst.training.losses import clip_loss

Z = 4


def segments(starts: list[int]) -> list[ActionSegment]:
    return [ActionSegment(start / 4, start / 4 + 0.2, i % 3) for i, start in enumerate(starts)]


starts = st.lists(st.integers(0, 40), min_size=1, max_size=9, unique=True).map(sorted)


@given(starts=starts, z=st.integers(1, 6))
def test_targets_are_the_next_segments(starts: list[int], z: int) -> None:
    """Against a search through all segments of each frame, one of which may begin at that very time."""
    given, times = segments(starts), np.arange(0, 11, 0.25)
    found = frame_labels(given, times, (), z)["sequence"]
    for time, row in zip(times, found.tolist(), strict=True):
        after = [s.label for s in given if s.start > time]
        assert row == (after + [UNKNOWN] * z)[:z]
    assert torch.equal(found[:, 0], frame_labels(given, times)["action"])


def annotations(*several: list[ActionSegment], split: str = "val") -> Annotations:
    examples = [
        Example(id=f"v{i}", split=split, media=Path("v.mp4"), labels={}, segments=tuple(one))
        for i, one in enumerate(several)
    ]
    names = ("a", "b", "c")
    classes = {"action": names, "present": names}
    return Annotations(name="made", task="online", examples=tuple(examples), classes=classes)


def test_an_action_that_was_seen_is_followed_by_the_targets() -> None:
    apart = [ActionSegment(0.0, 1.0, 0), ActionSegment(2.0, 4.0, 1), ActionSegment(3.0, 5.0, 2)]
    before, labels = sequence_targets(annotations(apart, apart[:1]), 2)  # a video with a single action has no row
    assert before == [1.0, 3.0]  # the end of the first, and the start of the third, which begins during the second
    assert labels == [[1, 2], [2, UNKNOWN]]


overlapping = st.lists(
    st.tuples(st.integers(0, 30), st.integers(1, 20)), min_size=1, max_size=7, unique_by=lambda s: s[0]
)


@given(videos=st.lists(overlapping, min_size=1, max_size=3), z=st.integers(1, 5))
def test_sequences_of_any_segments(videos: list[list[tuple[int, int]]], z: int) -> None:
    """A row is predicted when its predecessor has ended, and not after its own action has begun."""
    several = [
        [ActionSegment(float(start), float(start + length), start % 3) for start, length in sorted(video)]
        for video in videos
    ]
    before, labels = sequence_targets(annotations(*several), z)
    assert len(before) == len(labels) == sum(len(video) - 1 for video in several)
    rows = zip(before, labels, strict=True)
    for video in several:
        for k, own in enumerate(video[1:], 1):
            time, row = next(rows)
            assert time == (own.start if own.start < video[k - 1].end else video[k - 1].end)
            assert row == ([s.label for s in video[k:]] + [UNKNOWN] * z)[:z]


def model_of(name: str = "horst_tiny", sequence: int | None = Z) -> Predictor:
    torch.manual_seed(0)
    backbone = small_runs.TINY["backbone"]
    described = model_config(name, num_classes=3, size=(16, 24), fps=5.0, backbone=backbone)
    whole = {"horizons": [1.0, 0.4], "sequence": sequence}
    head = Part(name=described.head.name, options={**described.head.options, **whole})
    return Predictor.from_config(replace(described, head=head)).eval()


@pytest.mark.parametrize("name", ["horst_tiny", "gru_tiny", "horst_tiny_anticipation_unroll"])
def test_steps_give_the_sequence_of_the_clip(name: str) -> None:
    model = model_of(name)
    frames = torch.randint(0, 256, (2, 6, 3, 16, 24), dtype=torch.uint8)
    unroll = {"unroll": [[5, 2]] * 6} if model.head.unrolls else {}
    whole = model(frames, **unroll)[0].logits.sequence
    assert whole is not None
    assert whole.shape == (2, 6, Z, 3)
    state = model.init_state(2, 16, 24)
    for t in range(6):
        out, state = model.step(frames[:, t], state, **({"unroll": 5} if unroll else {}))
        assert out.logits.sequence is not None
        torch.testing.assert_close(out.logits.sequence, whole[:, t], rtol=1e-4, atol=1e-5)


def test_each_action_depends_on_the_state_of_the_one_before() -> None:
    video = model_of().head.video
    assert video is not None
    unroller = video.sequence
    assert unroller is not None
    means = torch.randn(2, unroller.start.in_features, requires_grad=True)
    scores = unroller(means)
    assert scores.shape == (2, Z, 3)
    assert not torch.allclose(scores[:, 0], scores[:, 1])
    scores[:, -1].sum().backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in unroller.parameters())
    assert means.grad is not None
    assert bool((means.grad.abs().sum(1) > 0).all())


def test_the_loss_leaves_out_actions_that_do_not_follow() -> None:
    labels = torch.tensor([[[0, 1], [2, UNKNOWN], [UNKNOWN, UNKNOWN]]])
    scores = torch.randn(1, 3, 2, 3, requires_grad=True)
    given = Logits(torch.zeros(1, 3, 3), sequence=scores)
    weights, valid = torch.ones(1, 3), torch.ones(1, 3, dtype=torch.bool)
    targets = {"action": torch.full((1, 3), UNKNOWN), "sequence": labels}
    targets["action"][0, 0] = 0
    plain = clip_loss(replace(given, sequence=None), targets, weights, valid, Loss(steps="every")).loss
    loss = clip_loss(given, targets, weights, valid, Loss(steps="every")).loss
    logs = scores.log_softmax(-1)[0]
    wanted = -(logs[0, 0, 0] + logs[0, 1, 1] + logs[1, 0, 2]) / 2
    torch.testing.assert_close(loss - plain, wanted[None])
    loss.sum().backward()
    assert scores.grad is not None
    assert not scores.grad[0, 1, 1].any()
    assert not scores.grad[0, 2].any()


@pytest.fixture(scope="module")
def cycle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Videos in which 0, 1, 2 follow each other for ever, from any of them on. Frames show the present action."""
    random, several = np.random.default_rng(0), {}
    for number in range(12):
        first, labels = int(random.integers(3)), list[int]()
        for k in range(8):
            labels += [(first + k) % 3] * int(random.integers(2, 5))
        several[f"{'train' if number < 9 else 'test'}_{number}"] = labels
    several["train_single"] = [1, 1, 1]  # nothing follows
    folder = layouts.write_ms_tcn(tmp_path_factory.mktemp("cycle"), several)
    for video, of in several.items():
        shown = np.eye(5, dtype=np.float32)[of]
        np.save(folder / "features" / f"{video}.npy", (shown + random.normal(0, 0.1, shown.shape)).T)
    return folder


def run(folder: Path, **changes: Any) -> RunConfig:
    clip = {"size": [1, 1], "fps": 4, "steps": 2, "stride": 0.25, "sequence": Z}
    plain: dict[str, Any] = {
        "name": "cycle",
        "model": {"name": "gru_tiny", "options": {"hidden": 16, "backbone": {"name": "maps", "channels": 5}}},
        "data": {"source": "ms_tcn", "folder": str(folder), "fps": 4, "task": "online", "clip": clip},
        "batches": {"size": 2},
        "augment": {"operations": 0, "mirror": False},
        "loss": {"steps": "every"},
        "optimiser": {"name": "adamw", "lr": 0.01, "lookahead": False},
        "trainer": {"epochs": 12, "accelerator": "cpu", "validate_every": 0, "loggers": []},
    }
    for key, value in changes.items():
        plain[key] = plain.get(key, {}) | value
    return from_dict(RunConfig, plain)


@pytest.fixture(scope="module")
def trained(cycle: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "cycle"
    train(run(cycle), folder, console=Console(file=io.StringIO()))
    return folder


def test_a_run_learns_a_cycle(
    cycle: Path, trained: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    config = run(cycle)
    untrained = evaluate(
        build_model(config, prepare(config)[0].annotations), ClipBatches(config.data, batch_size=2), progress=False
    )
    assert untrained.metrics["action/ed@4/greedy"] > 0.4
    assert main(["evaluate", str(trained), "--weights", "last", "--device", "cpu"]) == 0
    found = json.loads((trained / "evaluation" / "val-last.json").read_text())
    assert found["metrics"]["action/ed@4/greedy"] < 0.05
    assert found["metrics"]["action/ed@4"] < 0.05
    assert found["prior"]["action/ed@4"] == found["prior"]["action/ed@4/greedy"] == 0  # what follows is certain
    assert "edit distance of the next 4 actions, closest of 5 samples: 0.0" in capsys.readouterr().out
    assert main(["evaluate", str(trained), "--device", "cpu"]) == 0
    assert main(["table", str(trained)]) == 0
    out = capsys.readouterr().out
    table = [line.split(" | ") for line in out.splitlines() if line.startswith("| ")]
    column = table[0].index("edit distance, next 4")
    evaluated = json.loads((trained / "evaluation" / "val.json").read_text())
    assert table[2][column] == f"{evaluated['metrics']['action/ed@4']:.3f}"
    assert "- Edit distance: of the next actions, a fraction of 1; lower is better." in out.splitlines()
    assert main(["report", str(trained), "--device", "cpu"]) == 0
    assert "edit distance of the next 4 actions" in (trained / "evaluation" / "val.html").read_text()


class Course(lightning.Callback):
    """The weights of each epoch, set before they are validated: how training went is not left to rounding."""

    def __init__(self, *epochs: dict[str, Tensor]) -> None:
        self.epochs = epochs

    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
        pl_module.model.load_state_dict(self.epochs[trainer.current_epoch])


def test_a_run_keeps_the_epoch_with_the_lowest_edit_distance(cycle: Path, trained: Path, tmp_path: Path) -> None:
    text, name = io.StringIO(), "action/ed@4"
    config = run(cycle, trainer={"epochs": 3, "monitor": name, "validate_every": 1})
    good = dict(load(trained / "last").state_dict())
    bad = {key: torch.zeros_like(value) for key, value in good.items()}
    course = Course(bad, good, bad)
    folder = train(config, tmp_path / "run", console=Console(file=text, width=200), callbacks=[course]).folder
    first, best, last = (float(row[f"val/{name}"]) for row in small_runs.metrics(folder))
    assert best < min(first, last)
    assert f"done, best {name} {best:.3f}. " in text.getvalue()
    small_runs.assert_same(small_runs.weights(folder / "best"), small_runs.weights(trained / "last"))
    found = evaluate(load(folder / "best"), ClipBatches(config.data, batch_size=2), progress=False)
    assert found.metrics[name] == pytest.approx(best, abs=1e-5)


def test_sequences_are_predicted_at_the_last_frame_before_the_next_action(cycle: Path) -> None:
    config = run(cycle)
    data = ClipBatches(config.data, batch_size=3)
    val, clip = data.annotations.split("val"), config.data.clip
    collector = Collector(val, clip)
    for batch in data.evaluation_loader("val", clip):
        number = torch.arange(batch.frames.shape[1]).float()[None, :, None].expand(len(batch), -1, 3)
        collector.add(
            batch,
            Logits(
                number,
                ahead=number[:, :, None].expand(-1, -1, 2, -1),
                sequence=number[:, :, None].expand(-1, -1, Z, -1),
            ),
        )
    found = collector.predictions()
    assert found.sequence is not None
    assert found.following is not None
    rows = [(v, k) for v in val.examples for k in range(1, len(v.segments))]
    assert len(rows) == len(found)
    for (video, k), frame, labels in zip(rows, found.sequence[:, 0, 0].tolist(), found.following.tolist(), strict=True):
        assert frame == round(video.segments[k].start * 4) - 1
        after = [s.label for s in video.segments[k:]]
        assert labels == (after + [UNKNOWN] * Z)[:Z]


def test_predictions_of_sequences_are_stored_and_fused(cycle: Path, trained: Path, tmp_path: Path) -> None:
    config = run(cycle)
    model = load(trained / "last")
    predictions, evaluation = predict_and_evaluate(model, ClipBatches(config.data, batch_size=2), progress=False)
    predictions.save(tmp_path / "p.safetensors")
    again = Predictions.load(tmp_path / "p.safetensors")
    assert predictions.sequence is not None
    assert again.sequence is not None
    assert torch.equal(again.sequence, predictions.sequence)
    order = torch.randperm(len(again))
    shuffled = again.select(order)
    assert shuffled.sequence is not None
    assert shuffled.following is not None
    # Samples do not depend on the order of examples.
    assert measure_sequences(shuffled.sequence, shuffled.following, shuffled.ids)["action/ed@4"] == pytest.approx(
        evaluation.metrics["action/ed@4"]
    )
    both = fuse_predictions([again, again], [0.5, 0.5])
    torch.testing.assert_close(both.sequence, again.sequence)
    assert fuse_predictions([again, replace(again, sequence=None, following=None)], [0.5, 0.5]).sequence is None


def test_a_missed_video_counts_as_wrong_and_samples_follow_their_probabilities() -> None:
    labels = torch.zeros(400, 2, dtype=torch.int64)
    ids = [f"v#{i}" for i in range(400)]
    missed = measure_sequences(torch.full((400, 2, 3), -torch.inf), labels, ids)
    assert missed == {"action/ed@2": 1.0, "action/ed@2/greedy": 1.0}
    chances = torch.tensor([0.2, 0.5, 0.3])
    found = measure_sequences(chances.log().expand(400, 2, 3), labels, ids)
    assert found["action/ed@2/greedy"] == 1.0  # class 1 is the most likely
    # Of 5 samples: the chance that none has an action 0 anywhere is 0.64^5, that none is (0, 0) 0.96^5.
    assert found["action/ed@2"] == pytest.approx((0.64**5 + 0.96**5) / 2, abs=0.04)
    assert measure_sequences(torch.zeros(2, 2, 3), torch.full((2, 2), UNKNOWN), ids[:2]) == {}


def test_the_chain_of_training_bigrams() -> None:
    """a is followed by b twice and by c once; nothing follows c: then by the most frequent action, b."""
    labels = [[0, 1], [0, 1], [0, 2], [1], [1]]
    train = annotations(*[[ActionSegment(k, k + 1, a) for k, a in enumerate(one)] for one in labels], split="train")
    val = annotations(
        [ActionSegment(0, 1, 2), ActionSegment(1, 2, 1)], [ActionSegment(0, 1, 0), ActionSegment(1, 2, 2)]
    )
    whole = replace(train, examples=(*train.examples, *val.examples))
    found = sequence_prior(whole, "val", 1)
    assert found["action/ed@1/greedy"] == 0.5  # c -> b is right, a -> b is not
    assert sequence_prior(val, "val", 1) == {}


def test_streams_have_the_next_actions(tmp_path: Path) -> None:
    model = model_of()
    model.labels = {"action": ["open", "pour", "take"]}
    session = load(save(model, tmp_path / "model")).stream()
    shown = [np.full((16, 24, 3), 40 * i, np.uint8) for i in range(3)]
    for i, image in enumerate(shown):
        prediction = session.push(image, i / 5)
    assert prediction is not None
    assert prediction.sequence is not None
    frames = torch.from_numpy(np.stack(shown)).permute(0, 3, 1, 2)[None]
    with torch.inference_mode():
        logits = model(frames)[0].logits.sequence
    assert logits is not None
    wanted = torch.softmax(logits[0, -1], -1)
    np.testing.assert_allclose(prediction.sequence, wanted.numpy(), rtol=1e-4, atol=1e-5)
    names = [name for name, _ in prediction.next_actions()]
    assert names == [model.labels["action"][i] for i in wanted.argmax(-1)]
    assert [one["name"] for one in prediction.to_dict()["sequence"]] == names
    other = model_of(sequence=None).stream().push(shown[0], 0.0)
    assert other is not None
    with pytest.raises(InputError, match=r"train it with clip\.sequence"):
        other.next_actions()
    assert "sequence" not in other.to_dict()


def test_predict_prints_the_actions_after_the_next_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = model_of()
    model.labels = {"action": ["open", "pour", "take"]}
    save(model, tmp_path / "model")
    clip = videos.clip(tmp_path / "clip.mp4", frames=3, fps=5)
    command = ["predict", str(tmp_path / "model"), str(clip), "--device", "cpu"]
    assert main([*command, "--json"]) == 0
    first = json.loads(capsys.readouterr().out.splitlines()[0])
    _, *then = [one["name"] for one in first["sequence"]]
    head = f"   0.00 s  {first['answer']}  {100 * first['top']['action'][0]['probability']:.0f}%"
    whole = f"{head}, then {', '.join(then)}"
    for width, line in (
        (len(whole), whole),
        (len(whole) - 1, f"{head}, then {then[0]}, {then[1]}, ..."),
        (len(whole) - 2, f"{head}, then {then[0]}, ..."),
        (len(head) + 5, head),
    ):
        monkeypatch.setenv("COLUMNS", str(width))
        assert main(command) == 0
        assert capsys.readouterr().out.splitlines()[0] == line
    assert main([*command, "--threshold", "1"]) == 0  # there is no answer that anything could follow
    assert "then" not in capsys.readouterr().out


def test_export_tells_that_it_leaves_out_the_sequence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save(model_of("gru_tiny"), tmp_path / "model")
    assert main(["export", str(tmp_path / "model"), "--format", "torch", "--output", str(tmp_path / "x.pt2")]) == 0
    out = capsys.readouterr().out.splitlines()
    assert "the graph does not contain the next 4 actions of clip.sequence" in out


@pytest.mark.parametrize("z", [0, -1, 1.5, True])
def test_a_sequence_has_at_least_one_action(z: Any) -> None:
    with pytest.raises(ConfigError, match=r"sequence.*whole number"):
        from_dict(ClipConfig, {"sequence": z}, "clip")


def test_what_has_no_sequence_is_refused(cycle: Path, trained: Path, tmp_path: Path) -> None:
    config = run(cycle)
    long = replace(config, data=replace(config.data, clip=replace(config.data.clip, sequence=9)))
    with pytest.raises(ConfigError, match=r"clip\.sequence is 9, and no training video of .* has more than 8 actions"):
        prepare(long)
    options = {key: value for key, value in config.data.options.items() if key != "task"}
    with pytest.raises(ConfigError, match=r"clip\.sequence is for the task online"):
        prepare(replace(config, data=replace(config.data, options=options)))
    model = load(trained / "last")
    none = replace(config.data, clip=replace(config.data.clip, sequence=None))
    with pytest.raises(ConfigError, match=r"predicts 4 next actions and clip\.sequence is not set: set it to 4"):
        evaluate(model, ClipBatches(none, batch_size=2), progress=False)


def test_videos_with_too_few_actions_are_not_measured(tmp_path: Path) -> None:
    several = {"train_1": [0, 0, 1, 2, 0, 1], "test_1": [1, 1, 2, 2]}  # one action follows
    folder = layouts.write_ms_tcn(tmp_path, several)
    config = run(folder, batches={"size": 1})
    model = build_model(config, prepare(config)[0].annotations)
    found = evaluate(model, ClipBatches(config.data, batch_size=1), progress=False)
    assert "action/ed@4" not in found.metrics
    assert found.unmeasured["action/ed@4"] == "no evaluated action is the first of 4 in its video"
    assert any("not measured: action/ed@4" in line for line in notes(found))
    with pytest.raises(ConfigError, match=r"monitor is 'action/ed@4', which validation does not give"):
        prepare(run(folder, batches={"size": 1}, trainer={"monitor": "action/ed@4"}))
    single = layouts.write_ms_tcn(tmp_path / "single", {"train_1": [0, 0], "test_1": [1, 1]})
    with pytest.raises(ConfigError, match="has more than 1 action: choose a smaller number"):
        prepare(run(single, batches={"size": 1}))


def test_fused_models_predict_the_mean_of_their_sequences() -> None:
    first, second = model_of("lstm_tiny"), model_of("gru_tiny")
    fused = fuse_models([first, second], [0.25, 0.75]).eval()
    frames = torch.randint(0, 256, (1, 3, 3, 16, 24), dtype=torch.uint8)
    with torch.inference_mode():
        parts = [m(frames)[0].logits.sequence for m in (first, second)]
        found = fused(frames)[0].logits.sequence
    assert found is not None
    chances = [torch.softmax(part, -1) for part in parts if part is not None]
    torch.testing.assert_close(torch.softmax(found, -1).float(), 0.25 * chances[0] + 0.75 * chances[1])
    with pytest.raises(ConfigError, match=r"other numbers of next actions: \[4, 0\]"):
        fuse_models([first, model_of("gru_tiny", None)], [0.5, 0.5])
