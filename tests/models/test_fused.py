"""Several models as one: probabilities are weighted means, for clips and steps, saved and loaded."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import horst
from horst.errors import CheckpointError, ConfigError, InputError
from horst.heads.unrolling import clip_horizons
from horst.models import BatchedStep, Predictor, create_model, fuse_models, load, model_config
from horst.models.summary import summarize
from horst.registry import Part

SIZE, FPS = (32, 40), 4.0
SMALL: dict[str, Any] = {"hidden": [6], "stride": [2], "order": 2}
STEMS: list[dict[str, Any]] = [{"widths": [4, 6]}, {"widths": [4, 6, 8]}]  # maps of other sizes


def recognition(seed: int, stem: int = 0, **options: Any) -> Predictor:
    torch.manual_seed(seed)
    options = {"num_classes": 3, "size": SIZE, "fps": FPS, "labels": {"action": ["a", "b", "c"]}} | options
    return create_model("horst_tiny", **{"backbone": {"name": "stem", **STEMS[stem]}, **SMALL, **options}).eval()


def unrolling(seed: int, **options: Any) -> Predictor:
    torch.manual_seed(seed)
    counts = {"num_classes": 4, "num_verbs": 3, "num_nouns": 2}
    stem = {"name": "stem", **STEMS[0]}
    return create_model("horst_ek55_unroll", backbone=stem, size=SIZE, fps=FPS, **SMALL, **counts, **options).eval()


def video(seed: int) -> Predictor:
    """A model of whole videos."""
    torch.manual_seed(seed)
    stem = {"name": "stem", **STEMS[0]}
    config = model_config("horst_tiny_anticipation", backbone=stem, size=SIZE, fps=FPS, num_classes=4, **SMALL)
    head = Part(name="action", options={"num_classes": 4, "horizons": [1.0, 0.5]})
    return Predictor.from_config(replace(config, head=head)).eval()


def frames(count: int = 5, batch: int = 2) -> Tensor:
    shape = (batch, count, 3, *SIZE)
    return torch.randint(0, 256, shape, generator=torch.Generator().manual_seed(1), dtype=torch.uint8)


KINDS: dict[str, list[Predictor]] = {
    "recognition": [recognition(0), recognition(1), recognition(2)],
    "other maps": [recognition(0), recognition(1, stem=1)],
    "unrolling": [unrolling(0), unrolling(1)],
    "whole videos": [video(0), video(1)],
}
every_kind = pytest.mark.parametrize("kind", KINDS)


def weights_of(kind: str) -> list[float]:
    count = len(KINDS[kind])
    return [2 * (i + 1) / (count * (count + 1)) for i in range(count)]


def options(model: Predictor, count: int) -> dict[str, Any]:
    return {"unroll": clip_horizons(model.head, count, model.fps)} if model.head.unrolls else {}


@every_kind
@torch.inference_mode()
def test_probabilities_of_clips_are_the_weighted_mean(kind: str) -> None:
    models, weights = KINDS[kind], weights_of(kind)
    fused, clip = fuse_models(models, weights), frames()
    found = fused(clip, lengths=[5, 3], **options(fused, 5))[0].logits
    single = [model(clip, lengths=[5, 3], **options(model, 5))[0].logits for model in models]
    assert found.keys() == single[0].keys()
    for name in (*found, *(["ahead"] if kind == "whole videos" else [])):
        parts = [w * torch.softmax(getattr(one, name), -1) for w, one in zip(weights, single, strict=True)]
        wanted = torch.stack(parts).sum(0)
        torch.testing.assert_close(torch.softmax(getattr(found, name), -1), wanted)
        assert (wanted - parts[0] / weights[0]).abs().max() > 1e-3  # the models do differ


@every_kind
@torch.inference_mode()
def test_steps_are_those_of_the_clip(kind: str) -> None:
    fused, clip = fuse_models(KINDS[kind], weights_of(kind)), frames()
    whole = fused(clip, **options(fused, 5))[0].logits
    state = fused.init_state(2, *SIZE)
    for t, frame in enumerate(clip.unbind(1)):
        unroll = {"unroll": 5 - t} if fused.head.unrolls else {}
        out, state = fused.step(frame, state, **unroll)
        torch.testing.assert_close(out.logits.action, whole.action[:, t], atol=1e-5, rtol=1e-5)
    assert state.count.tolist() == [5, 5]


@every_kind
def test_saved_and_loaded(kind: str, tmp_path: Path) -> None:
    fused = fuse_models(KINDS[kind], weights_of(kind))
    fused.save_pretrained(tmp_path / "fused")
    back = load(tmp_path / "fused")
    assert back.config == fused.config
    assert back.labels == KINDS[kind][0].labels
    with torch.inference_mode():
        pair = [model(frames(), **options(model, 5))[0].logits.action for model in (fused, back)]
    assert torch.equal(*pair)
    assert sum(p.numel() for p in back.parameters()) == sum(p.numel() for m in KINDS[kind] for p in m.parameters())
    assert summarize(back.config).parameters == sum(p.numel() for p in back.parameters())


def test_one_model_twice_is_that_model() -> None:
    model = recognition(0)
    with torch.inference_mode():
        wanted = model(frames())[0].logits.action
        torch.testing.assert_close(fuse_models([model] * 2, [0.5, 0.5])(frames())[0].logits.action, wanted)


def test_a_model_without_weight_is_left_out() -> None:
    one, other = recognition(0), recognition(1)
    fused = fuse_models([one, other], [0.0, 1.0])
    assert sum(p.numel() for p in fused.parameters()) == sum(p.numel() for p in other.parameters())


@pytest.mark.parametrize("kind", ["recognition", "other maps", "unrolling"])
def test_streams_share_a_batch(kind: str) -> None:
    """Streams of other ages, one of which is reset, with the states that share a frame."""
    fused, clip = fuse_models(KINDS[kind], weights_of(kind)), frames(4, 3)
    unroll = {"unroll": 2} if fused.head.unrolls else {}
    step = BatchedStep(fused, 3, engine="torch")
    step(clip[:, 0], **unroll)
    step.reset(1)
    found = step(clip[:, 1], active=[0, 1], first=[0, 1], **unroll).logits.action
    with torch.inference_mode():
        _, state = fused.step(clip[:1, 0], fused.init_state(1, *SIZE), **unroll)
        old = fused.step(clip[:1, 1], state, **unroll)[0].logits.action
        new = fused.step(clip[1:2, 1], fused.init_state(1, *SIZE), **unroll)[0].logits.action
    torch.testing.assert_close(found[:2], torch.cat([old, new]))
    assert found[2].isnan().all()
    assert step.frame_counts == [2, 1, 1]


def test_a_stream_of_frames() -> None:
    fused = fuse_models(KINDS["recognition"], weights_of("recognition"))
    stream = fused.stream()
    for t, image in enumerate(frames(4, 1)[0]):
        prediction = stream.push(image.permute(1, 2, 0).numpy(), t / FPS)
    assert prediction is not None
    with torch.inference_mode():
        wanted = torch.softmax(fused(frames(4, 1))[0].logits.action[0, -1], -1)
    torch.testing.assert_close(torch.from_numpy(prediction.probabilities["action"]), wanted, atol=1e-4, rtol=1e-4)
    ahead = fuse_models(KINDS["unrolling"], weights_of("unrolling")).stream()
    found = ahead.push(frames(1, 1)[0, 0].permute(1, 2, 0).numpy(), 0.0)
    assert found is not None
    assert set(found.horizons) == {0.25 * k for k in range(1, 9)}


@pytest.mark.parametrize(
    ("other", "says"),
    [
        (lambda: recognition(1, size=(32, 32)), r"frames of size: \(32, 40\) and \(32, 32\)"),
        (lambda: recognition(1, fps=5.0), "frames a second: 4.0 and 5.0"),
        (lambda: recognition(1, labels={"action": ["a", "c", "b"]}), "labels: "),
        (lambda: recognition(1, num_classes=2, labels=None), "classes: "),
        (lambda: unrolling(1), "the task: recognition and anticipation"),
        (lambda: recognition(1, backbone={"name": "maps", "channels": 8}, size=(4, 5)), "precomputed maps: False and"),
    ],
)
def test_models_of_other_inputs(other: Any, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        fuse_models([recognition(0), other()], [0.5, 0.5])


@pytest.mark.parametrize("weights", [[0.5, 0.6], [1.5, -0.5], [0.0, 0.0]])
def test_weights_that_are_none(weights: list[float]) -> None:
    with pytest.raises(ConfigError, match="with the sum 1"):
        fuse_models([recognition(0), recognition(1)], weights)


def test_models_of_maps_do_not_take_images() -> None:
    torch.manual_seed(0)
    maps = [recognition(seed, backbone={"name": "maps", "channels": 8}, size=(4, 5)) for seed in range(2)]
    with pytest.raises(InputError, match="precomputed feature maps"):
        BatchedStep(fuse_models(maps, [0.5, 0.5]))


@pytest.mark.parametrize(
    ("part", "change"),
    [
        ("head", lambda config: config["head"]["options"].update(weights=[0.5, 0.6])),
        ("head", lambda config: config["head"]["options"].update(members=[])),
        ("head", lambda config: config["head"]["options"]["members"][0].pop("channels")),
        ("backbone", lambda config: config["backbone"]["options"].update(members=["stem"])),
        ("core", lambda config: config["core"].update(members=[{"name": "none"}])),
        ("core", lambda config: config["core"]["members"].pop()),
        ("core", lambda config: config["core"].update(maps=[[1, 1]])),
    ],
)
def test_a_damaged_config(part: str, change: Any, tmp_path: Path) -> None:
    folder = fuse_models(KINDS["recognition"], weights_of("recognition")).save_pretrained(tmp_path / "fused")
    config = json.loads((folder / "config.json").read_text())
    change(config)
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(CheckpointError, match=str(folder)):
        horst.open_model(folder)
