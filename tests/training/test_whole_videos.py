"""Training on whole videos: targets of every frame, windows, speeds, balanced losses, and the evaluation of actions."""

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
from near import assert_near
from rich.console import Console

from horst.config import from_dict
from horst.data.augmenter import OVERSAMPLE, Augment, Augmenter
from horst.data.batches import Batch, ClipDataset, collate
from horst.data.clips import ClipConfig
from horst.data.config import DataConfig
from horst.data.loader import ClipBatches
from horst.data.segments import evaluated, frame_labels, horizons
from horst.data.source import Source, open_source
from horst.errors import ConfigError
from horst.evaluation.evaluate import evaluate
from horst.evaluation.predictions import Collector
from horst.heads import Logits
from horst.models import Predictor, create_model, load, save
from horst.training.build import build_model
from horst.training.config import Loss, RunConfig
from horst.training.evaluated import open_evaluated
from horst.training.fit import data_module, prepare, train
from horst.training.losses import clip_loss
from horst.training.module import class_frequencies
from horst.training.network import TrainingNetwork
from horst.video.sampling import SLACK

NAMES, SIZE, FPS = ("open", "pour", "take"), (16, 24), 5.0
STARTS = (0.5, 1.1, 2.0, 2.9)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six videos of 4 s with four actions each, listed in a CSV file."""
    folder = tmp_path_factory.mktemp("whole")
    lines = ["path,split,group,label,start,end"]
    for i in range(6):
        videos.clip(folder / f"v{i}.mp4", frames=48 + 3 * i, fps=12)
        for k, (start, end) in enumerate(zip(STARTS, (*STARTS[1:], 3.5), strict=True)):
            split = "val" if i > 3 else "train"
            lines.append(f"v{i}.mp4,{split},p{i % 3},{NAMES[(i + k) % 3]},{start},{end}")
    (folder / "actions.csv").write_text("\n".join(lines) + "\n")
    return folder / "actions.csv"


def run_config(data: Path, **changes: Any) -> RunConfig:
    plain: dict[str, Any] = {
        "name": "whole",
        "model": {"name": "horst_tiny", "options": small_runs.TINY},
        "data": {"source": "csv", "path": str(data), "task": "online", "clip": clip_options()},
        "batches": {"size": 2},
        "augment": {"operations": 0, "mirror": False},
        "loss": {"steps": "every"},
        "optimiser": {"name": "adamw", "lr": 0.001, "lookahead": False},
        "trainer": {"epochs": 1, "accelerator": "cpu"},
    }
    for key, value in changes.items():
        plain[key] = plain.get(key, {}) | value
    return from_dict(RunConfig, plain)


def clip_options() -> dict[str, Any]:
    return {"size": list(SIZE), "fps": FPS, "steps": 4, "stride": 0.25}


def source(data: Path) -> Source:
    return open_source(DataConfig.from_dict({"source": "csv", "path": str(data), "task": "online"}))


def batch(data: Path, fps: float = FPS) -> Batch:
    clips = ClipDataset(source(data), "train", ClipConfig(size=SIZE, fps=fps, steps=4, stride=0.25))
    return collate([clips[i] for i in range(len(clips))])


def test_targets_of_a_batch_are_those_of_its_frames(data: Path) -> None:
    found, examples = batch(data), source(data).annotations.split("train").examples
    for row, index in enumerate(found.indices):
        length = int(found.lengths[row])
        wanted = frame_labels(examples[index].segments, found.times[row, :length].numpy(), (1.0, 0.75, 0.5, 0.25))
        for task, labels in wanted.items():
            assert torch.equal(found.labels[task][row, :length], labels), task
            assert (found.labels[task][row, length:] == -1).all()


CELLS = {"name": "cells", "encoder": {"name": "stem", "widths": [8, 8]}, "grid": [2, 3], "difference": 2, "norm": True}


@pytest.mark.parametrize(
    ("name", "backbone"),
    [
        *((name, small_runs.TINY["backbone"]) for name in ("horst_tiny", "horst_tiny_anticipation_unroll", "gru_tiny")),
        *((name, small_runs.TINY["backbone"]) for name in ("rulstm_tiny", "avt_tiny", "testra_tiny")),
        ("horst_tiny", CELLS),
    ],
)
def test_a_run_trains_evaluates_and_streams(data: Path, tmp_path: Path, name: str, backbone: dict[str, Any]) -> None:
    options = {**(small_runs.TINY if name.startswith("horst") else {}), "backbone": backbone}
    config = run_config(data, model={"name": name, "options": options})
    run = train(config, tmp_path / "run", console=Console(file=io.StringIO()))
    model = load(run.best)
    found = evaluate(model, ClipBatches(config.data, batch_size=2), progress=False)
    assert found.task == "online"
    assert found.counts["examples"] == 6  # two videos, every action but the first
    assert {"action/top1@1s", "action/recall1@0.25s"} <= found.metrics.keys()
    assert found.protocol["leaks"] == {}
    session = model.stream()  # frames in order give the present and the next action
    for i in range(3):
        prediction = session.push(videos.picture(i, *SIZE), i / FPS)
    assert prediction is not None


def test_other_horizons_than_those_of_the_data_are_an_error(data: Path) -> None:
    config = run_config(data)
    model = build_model(config, source(data).annotations)
    other = replace(config.data, clip=replace(config.data.clip, stride=0.5))  # as many, but others
    with pytest.raises(ConfigError, match=r"predicts \(1\.0, 0\.75, 0\.5, 0\.25\) s ahead"):
        evaluate(model, ClipBatches(other, batch_size=2), progress=False)


def test_a_saved_model_keeps_its_horizons(data: Path, tmp_path: Path) -> None:
    model = build_model(run_config(data), source(data).annotations).eval()
    again = load(save(model, tmp_path / "model"))
    frames = torch.randint(0, 256, (1, 5, 3, *SIZE), dtype=torch.uint8)
    ours, theirs = (m(frames)[0].logits for m in (model, again))
    assert ours.ahead is not None
    assert theirs.ahead is not None
    assert ours.ahead.shape == (1, 5, 4, 3)
    assert torch.equal(ours.ahead, theirs.ahead)
    again.reset_classifier(7)
    assert again(frames)[0].logits.present.shape[-1] == 7  # type: ignore[union-attr]


def test_actions_are_evaluated_at_the_last_frame_that_the_protocol_allows(data: Path) -> None:
    annotations, clip = source(data).annotations.split("train"), ClipConfig(**clip_options())
    given, collector = batch(data), Collector(annotations, clip)
    numbers = torch.arange(given.frames.shape[1]).float()
    collector.add(given, Logits(numbers[None, :, None].expand(len(given), -1, 3)))  # scores are numbers of frames
    found, examples = collector.predictions(), evaluated(annotations).examples
    for example, row in zip(examples, found.scores["action"][..., 0].tolist(), strict=True):
        (clip_row,) = (i for i, ident in enumerate(given.ids) if ident == example.video)
        times = given.times[clip_row, : int(given.lengths[clip_row])].tolist()
        for tau, seen in zip(horizons(clip), row, strict=True):
            allowed = [i for i, time in enumerate(times) if time <= example.start - tau + SLACK]
            assert seen == (allowed[-1] if allowed else -np.inf)


def network(data: Path, **options: Any) -> TrainingNetwork:
    torch.manual_seed(0)
    plain = {"norm": "none", **small_runs.TINY, **options}
    return TrainingNetwork(
        build_model(run_config(data, model={"name": "horst_tiny", "options": plain}), source(data).annotations)
    )


@pytest.mark.parametrize("length", [3, 7, 100])
def test_windows_carry_the_state(data: Path, length: int) -> None:
    """Predictions do not depend on the window. The gradient is that of the whole video if the window holds it."""
    net, given = network(data).double(), batch(data)
    whole = net(given.frames, given.valid)
    parts = [found for _, found in net.windows(given.frames, given.valid, length)]
    for i, wanted in enumerate(whole):
        assert_near(torch.cat([part[i] for part in parts], 1), wanted, 1e-9)
    gradients = []
    for found in (whole, parts[0]):
        net.zero_grad()
        found[0][:, -1].sum().backward()
        gradients.append(torch.cat([p.grad.flatten() for p in net.parameters() if p.grad is not None]))
    assert (length == 100) == torch.allclose(gradients[0], gradients[1], rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("window", [None, 100])
def test_a_step_of_windows_is_a_step(data: Path, tmp_path: Path, window: int | None) -> None:
    """A window that holds the whole video trains the same weights as no window."""
    changes = []
    for number, chosen in enumerate((None, window)):
        sgd = {"name": "sgd", "lr": 0.1, "lookahead": False}  # Adam would turn rounding of small gradients into steps
        config = run_config(data, trainer={"window": chosen, "clip_gradient": 1.0}, optimiser=sgd)
        run = train(config, tmp_path / f"{number}", console=Console(file=io.StringIO()))
        begin = build_model(config, source(data).annotations)
        pairs = zip(load(run.best).parameters(), begin.parameters(), strict=True)
        changes.append(torch.cat([(end - before).detach().flatten() for end, before in pairs]))
    assert_near(changes[0], changes[1], 1e-3)


def test_short_windows_train_and_accumulate(data: Path, tmp_path: Path) -> None:
    config = run_config(data, trainer={"window": 4, "accumulate": 2})
    before = build_model(config, source(data).annotations)
    run = train(config, tmp_path / "run", console=Console(file=io.StringIO()))
    changed = [not torch.equal(a, b) for a, b in zip(before.parameters(), load(run.best).parameters(), strict=True)]
    assert all(changed)


def test_windows_are_for_whole_videos_on_one_device(data: Path, tmp_path: Path) -> None:
    config = run_config(data, trainer={"window": 4, "devices": 2})
    with pytest.raises(ConfigError, match="one device"):
        train(config, tmp_path / "run", console=Console(file=io.StringIO()))
    with pytest.raises(ConfigError, match=r"trainer\.graphs True"):
        run_config(data, trainer={"window": 4, "graphs": True})


def test_speeds_change_frames_and_targets_together(data: Path) -> None:
    given, annotations = batch(data, OVERSAMPLE * FPS), source(data).annotations.split("train")
    clip = ClipConfig(**clip_options())
    played = Augmenter(Augment(operations=0, mirror=False, speed=0.3), annotations, 0, clip)(given, epoch=2)
    again = Augmenter(Augment(operations=0, mirror=False, speed=0.3), annotations, 0, clip)(given, epoch=2)
    assert torch.equal(played.frames, again.frames)  # the same for a seed and an epoch
    factors = set()
    for row, length in enumerate(played.lengths.tolist()):
        times = played.times[row, :length]
        step = float((times[-1] - times[0]) / (length - 1) * FPS)
        factors.add(round(step, 2))
        assert np.exp(-0.3) - 0.1 < step < np.exp(0.3) + 0.1
        for at, time in enumerate(times.tolist()):  # the frame shows the time that its targets are of
            place = int((given.times[row] - time).abs().nan_to_num(9).argmin())
            assert torch.equal(played.frames[row, at], given.frames[row, place])
        wanted = frame_labels(annotations.examples[played.indices[row]].segments, times.numpy())
        assert torch.equal(played.labels["action"][row, :length], wanted["action"])
        assert not played.frames[row, length:].any()
        assert not played.observed[row, length:].any()
    assert len(factors) > 1


@pytest.mark.parametrize("speed", [0.0, 0.3])
def test_excerpts_are_parts_of_videos_with_their_targets(speed: float, data: Path) -> None:
    given = batch(data, OVERSAMPLE * FPS if speed else FPS)
    annotations, clip = source(data).annotations.split("train"), ClipConfig(**clip_options())
    whole, part = (
        Augmenter(Augment(operations=0, mirror=False, speed=speed, excerpt=frames), annotations, 0, clip)
        for frames in (10**6, 5)
    )
    starts = set()
    for epoch in range(4):
        videos, excerpts = whole(given, epoch), part(given, epoch)
        assert excerpts.frames.shape[1] == 5
        for row, length in enumerate(excerpts.lengths.tolist()):
            assert length == min(5, int(videos.lengths[row]))
            first = int((videos.times[row] - excerpts.times[row, 0]).abs().nan_to_num(9).argmin())
            starts.add((row, first))
            there = slice(first, first + length)
            assert torch.equal(excerpts.frames[row, :length], videos.frames[row, there])
            assert torch.equal(excerpts.labels["ahead"][row, :length], videos.labels["ahead"][row, there])
    assert len(starts) > len(given)  # another part in other epochs


def test_excerpts_train(data: Path, tmp_path: Path) -> None:
    config = run_config(data, augment={"operations": 0, "mirror": False, "excerpt": 4})
    before = build_model(config, source(data).annotations)
    run = train(config, tmp_path / "run", console=Console(file=io.StringIO()))
    changed = [not torch.equal(a, b) for a, b in zip(before.parameters(), load(run.best).parameters(), strict=True)]
    assert all(changed)


def _counting(given: Batch, copied: list[tuple[int, ...]]) -> Batch:
    """The batch, with a record of the shapes of the places that are read."""
    read = given.read_frames
    if read is None:
        return given

    def recorded(places: torch.Tensor) -> torch.Tensor:
        copied.append(tuple(places.shape))
        return read(places)

    return replace(given, read_frames=recorded)


def test_a_backbone_of_several_parts_is_not_frozen_as_a_whole(data: Path) -> None:
    backbone = {"name": "cells", "encoder": {"name": "stem", "widths": [4]}, "grid": [2, 3], "project": 5}
    options = {**small_runs.TINY, "backbone": backbone}
    with pytest.raises(ConfigError, match="frozen: true for its encoder"):
        prepare(run_config(data, model={"name": "horst_tiny", "options": options, "freeze_backbone": True}))


def test_the_rate_of_the_backbone_is_that_of_its_encoder(data: Path) -> None:
    backbone = {"name": "cells", "encoder": {"name": "stem", "widths": [4]}, "grid": [2, 3], "project": 5, "norm": True}
    model = {"name": "horst_tiny", "options": {**small_runs.TINY, "backbone": backbone}}
    optimiser = {"lr": 0.01, "backbone_lr": 0.001, "weight_decay": 0.0}
    module = prepare(run_config(data, model=model, optimiser=optimiser))[1]
    encoder = module.model.backbone.finetuned
    assert encoder is not module.model.backbone
    rates = {id(p): group["lr"] for group in module.new_optimiser().param_groups for p in group["params"]}
    for parameters, rate in ((encoder, 0.001), (module.model, 0.01)):
        for p in parameters.parameters():
            assert rates.pop(id(p), rate) == rate
    assert not rates


def test_a_deterministic_run_is_trained_and_evaluated_as_one(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bool] = []
    for module in ("fit", "evaluated"):
        monkeypatch.setattr(f"horst.training.{module}.be_deterministic", lambda: asked.append(True))
    for chosen in (False, True):
        config = run_config(data, trainer={"epochs": 1, "accelerator": "cpu", "deterministic": chosen})
        train(config, tmp_path / str(chosen), console=Console(file=io.StringIO()))
        assert asked == [True] * chosen
        open_evaluated(tmp_path / str(chosen)).evaluate("val")
        assert asked == [True] * 2 * chosen


def test_preloaded_videos_are_read_after_their_excerpts_are_drawn(data: Path) -> None:
    """The batches are the same, and only the frames of excerpts are copied."""
    options = {"operations": 0, "mirror": False, "speed": 0.2, "excerpt": 4}
    batches: list[list[Batch]] = []
    copied: list[tuple[int, ...]] = []
    for preload in (None, "device"):
        module = data_module(run_config(data, augment=options, batches={"size": 2, "preload": preload}))
        given = list(module.train_dataloader())
        assert all((one.read_frames is not None) == (preload is not None) for one in given)
        batches.append([module.training_batch(_counting(one, copied), 3) for one in given])
    assert copied
    assert {count for _, count in copied} == {4}
    for one, other in zip(*batches, strict=True):
        assert one.ids == other.ids
        assert torch.equal(one.frames, other.frames)
        assert torch.equal(one.labels["ahead"], other.labels["ahead"])
        for name in ("lengths", "times", "observed"):
            assert torch.equal(getattr(one, name), getattr(other, name))
    [validated, *_] = module.val_dataloader()
    assert validated.frames.ndim == 5


@pytest.mark.parametrize("option", [{"speed": 0.1}, {"excerpt": 3}])
def test_speed_and_excerpts_are_for_whole_videos(option: dict[str, Any], data: Path) -> None:
    one = open_source(DataConfig.from_dict({"source": "csv", "path": str(data), "task": "recognition"})).annotations
    with pytest.raises(ConfigError, match=rf"augment\.{next(iter(option))} is for whole videos"):
        Augmenter(Augment(operations=0, **option), one, 0)


def test_predictions_near_their_action_count_most(data: Path) -> None:
    given = batch(data)
    logits = Logits(torch.zeros(*given.labels["action"].shape, 3), ahead=torch.zeros(*given.labels["ahead"].shape, 3))
    weights = given.valid.float()
    plain, near = (clip_loss(logits, given.labels, weights, given.valid, Loss(near=n)).loss for n in (None, 0.5))
    known = (given.labels["ahead"] != -1) & given.valid[..., None]
    share = torch.where(known, 0.1 + 0.9 * torch.exp(-given.labels["gap"] / 0.5), 0.0).mean(2).sum(1)
    log3 = float(np.log(3))
    torch.testing.assert_close(plain - near, log3 * (known.float().mean(2).sum(1) - share), rtol=1e-4, atol=1e-4)


def test_balance_adds_the_frequencies_to_the_scores(data: Path) -> None:
    annotations, given = source(data).annotations, batch(data)
    frequencies = class_frequencies(annotations)
    assert frequencies.sum() == pytest.approx(1.0)
    logits = Logits(torch.randn(*given.labels["action"].shape, 3))
    labels = {"action": given.labels["action"]}
    weights = given.valid.float()
    balanced = clip_loss(logits, labels, weights, given.valid, Loss(balance=0.5), frequencies).loss
    shifted = Logits(logits.action + 0.5 * frequencies.log())
    torch.testing.assert_close(balanced, clip_loss(shifted, labels, weights, given.valid, Loss()).loss)


def test_the_loss_steps_of_anticipation_are_refused(data: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="use every"):
        train(run_config(data, loss={"steps": "anticipation"}), tmp_path / "run", console=Console(file=io.StringIO()))


def test_maps_options() -> None:
    options: dict[str, Any] = {"name": "maps", "channels": 4, "grid": [2, 3], "norm": True, "flatten": True}
    model: Predictor = create_model("gru_tiny", num_classes=3, backbone=options, size=(4, 6))
    maps = torch.randn(5, 4, 4, 6)
    maps[3] = 0.0  # padding
    seen = model.backbone.train()(maps)
    assert seen.shape == (5, 24, 1, 1)
    shown = torch.cat([seen[:3], seen[4:]]).view(4, 4, 6).transpose(0, 1).flatten(1)
    torch.testing.assert_close(shown.mean(1), torch.zeros(4), atol=1e-5, rtol=0)
    torch.testing.assert_close(shown.var(1, correction=0), torch.ones(4), atol=1e-3, rtol=0)
    with pytest.raises(ConfigError, match="flatten needs a grid"):
        create_model("gru_tiny", num_classes=3, backbone={"name": "maps", "channels": 4, "flatten": True}, size=(4, 6))
