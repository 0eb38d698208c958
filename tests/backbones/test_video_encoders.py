"""V-JEPA 2 and VideoMAE as causal windows: transformers' own features, equal outputs in every way to run them."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest
import small_encoders
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from near import assert_near
from torch import Tensor

import horst
from horst.backbones import WindowBackbone, create_backbone
from horst.errors import CheckpointError, ConfigError, InputError, MissingExtraError, StateError
from horst.models import Predictor, create_model, model_config
from horst.models.summary import summarize

NAMES = list(small_encoders.CONFIGS)
SIDE, WINDOW = small_encoders.SIDE, small_encoders.WINDOW

every_encoder = pytest.mark.parametrize("name", NAMES)


def frames(batch: int, time: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 256, (batch, time, 3, SIDE, SIDE), generator=generator, dtype=torch.uint8)


def build(name: str, **options: Any) -> WindowBackbone:
    torch.manual_seed(0)
    backbone = create_backbone(name, **small_encoders.options(name), **options)
    assert isinstance(backbone, WindowBackbone)
    return backbone.double()


@every_encoder
@pytest.mark.parametrize("tokens", ["last", "mean"])
def test_a_map_is_the_encoders_tokens_of_the_last_frames(name: str, tokens: str, tmp_path: Path) -> None:
    """With the weights of a folder that transformers wrote, and its own forward pass."""
    net = small_encoders.save(name, tmp_path)
    backbone = create_backbone(name, pretrained=str(tmp_path), tokens=tokens)
    clip = frames(1, 6)
    maps, _ = backbone.clip(clip)
    mean, std = (torch.tensor(v).view(3, 1, 1) for v in ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)))
    with torch.no_grad():
        window = (clip[:, 6 - WINDOW :] / 255 - mean) / std
        out = net(window, skip_predictor=True) if name == "vjepa2" else net(window)
    found = out.last_hidden_state.view(WINDOW // 2, 2, 2, -1)
    wanted = (found[-1] if tokens == "last" else found.mean(0)).permute(2, 0, 1)
    assert_near(maps[0, -1], wanted)


@every_encoder
def test_the_first_frame_stands_for_those_before_it(name: str) -> None:
    backbone, clip = build(name), frames(1, 3)
    repeated = torch.cat([clip[:, :1]] * (WINDOW - 1) + [clip], 1)
    torch.testing.assert_close(backbone.clip(clip)[0], backbone.clip(repeated)[0][:, WINDOW - 1 :])
    torch.testing.assert_close(backbone(clip[:, 0]), backbone.clip(clip)[0][:, 0])


@every_encoder
def test_maps_do_not_depend_on_later_frames_nor_on_those_before_the_window(name: str) -> None:
    backbone, clip = build(name), frames(1, 8)
    maps, changed = backbone.clip(clip)[0], clip.clone()
    changed[:, 5] = 255 - changed[:, 5]
    different = [not torch.equal(a, b) for a, b in zip(maps[0], backbone.clip(changed)[0][0], strict=True)]
    assert different == [False] * 5 + [True] * 3  # frames 5, 6 and 7 have it in their window
    earlier = clip.clone()
    earlier[:, 0] = 0
    assert torch.equal(backbone.clip(earlier)[0][:, WINDOW:], maps[:, WINDOW:])


@settings(max_examples=20, deadline=None)
@given(data=st.data(), stride=st.integers(1, 5), cuts=st.lists(st.integers(1, 4), min_size=1, max_size=4))
def test_any_cuts_of_a_clip_give_the_same_maps(data: st.DataObject, stride: int, cuts: list[int]) -> None:
    """The whole clip, single frames, and parts of it of any lengths, for streams of different age."""
    backbone = build(data.draw(st.sampled_from(NAMES)), stride=stride)
    clip = frames(2, sum(cuts))
    whole, after = backbone.clip(clip)
    memory, parts = None, []
    for part in clip.split(cuts, 1):
        maps, memory = backbone.clip(part, memory)
        parts.append(maps)
    torch.testing.assert_close(torch.cat(parts, 1), whole)
    memory, steps = backbone.init_memory(2, SIDE, SIDE), []
    for frame in clip.unbind(1):
        maps, memory = backbone.step(frame, memory)
        steps.append(maps)
    torch.testing.assert_close(torch.stack(steps, 1), whole)
    for (name, one), (_, other) in zip(memory.tensors(), after.tensors(), strict=True):
        torch.testing.assert_close(one, other, msg=name)


def test_a_stride_encodes_every_nth_frame_and_keeps_its_map() -> None:
    clip, calls = frames(2, 7), []
    every, third = build("vjepa2"), build("vjepa2", stride=3)
    third.net.register_forward_hook(lambda _, args, __: calls.append(len(args[0])))
    maps, kept = every.clip(clip)[0], third.clip(clip)[0]
    torch.testing.assert_close(kept, maps[:, [0, 0, 0, 3, 3, 3, 6]])
    assert sum(calls) == 2 * 3


def test_lengths_end_each_stream_at_its_own_frame() -> None:
    backbone, clip = build("vjepa2", stride=2), frames(2, 5)
    _, memory = backbone.clip(clip, lengths=[5, 2])
    following = frames(2, 3, seed=1)
    maps, _ = backbone.clip(following, memory)
    for b, length in enumerate((5, 2)):
        alone, _ = backbone.clip(torch.cat([clip[b : b + 1, :length], following[b : b + 1]], 1))
        torch.testing.assert_close(maps[b : b + 1], alone[:, length:])


def test_after_is_the_memory_without_maps() -> None:
    backbone, clip = build("vjepa2"), frames(2, 6)
    whole, _ = backbone.clip(clip)
    for seen in (1, 2, 5):  # shorter and longer than a window
        torch.testing.assert_close(backbone.clip(clip[:, seen:], backbone.after(clip[:, :seen]))[0], whole[:, seen:])
    slow = build("vjepa2", stride=4)  # the first frame after it is encoded whatever the stride
    torch.testing.assert_close(slow.clip(clip[:, 3:], slow.after(clip[:, :3]))[0], whole[:, [3, 3, 3]])


def small_model(**backbone: Any) -> Predictor:
    torch.manual_seed(0)
    chosen = {**small_encoders.VJEPA2, **backbone}
    options = {"size": (SIDE, SIDE), "hidden": [6], "stride": [1], "order": 2, "num_classes": 3}
    return create_model("horst_tiny", backbone=chosen, **options).eval()


def test_streams_of_any_age_in_a_batch() -> None:
    """Stream 1 gets every other frame and stream 2 is reset. Equal frames have other maps in each."""
    model, clip = small_model(stride=2), frames(1, 6)[0]
    step = horst.BatchedStep(model, 3)
    assert step.engine == "torch"
    found: dict[int, list[Tensor]] = {0: [], 1: [], 2: []}
    shown: dict[int, list[int]] = {0: [], 1: [], 2: []}
    for t, frame in enumerate(clip):
        if t == 3:
            step.reset(2)
            found[2], shown[2] = [], []
        active = [0, 1, 2] if t % 2 == 0 else [0, 2]
        logits = step(frame.expand(3, -1, -1, -1), active, first=[0] * len(active)).logits.action
        for stream in active:
            found[stream].append(logits[stream])
            shown[stream].append(t)
    for stream in found:
        with torch.inference_mode():
            alone = model(clip[shown[stream]].unsqueeze(0))[0].logits.action[0]
        torch.testing.assert_close(torch.stack(found[stream]), alone, rtol=1e-4, atol=1e-5)


def test_a_live_stream_is_the_clip() -> None:
    model, clip = small_model(), frames(1, 5)[0]
    with torch.inference_mode():
        wanted = model(clip.unsqueeze(0))[0].logits.action[0].softmax(-1)
    stream = model.stream()
    found = [stream.push(frame.permute(1, 2, 0).numpy(), t / model.fps) for t, frame in enumerate(clip)]
    probabilities = [p.probabilities["action"] for p in found if p is not None]
    torch.testing.assert_close(torch.tensor(probabilities[-1]), wanted[-1], rtol=1e-4, atol=1e-5)


def test_a_saved_model_needs_neither_the_folder_nor_the_hub(tmp_path: Path) -> None:
    (tmp_path / "encoder").mkdir()
    small_encoders.save("vjepa2", tmp_path / "encoder")
    text = {"image_mean": [0.5, 0.4, 0.3], "image_std": [0.5, 0.5, 0.25]}
    (tmp_path / "encoder" / "preprocessor_config.json").write_text(json.dumps(text))
    model = small_model(config=None, pretrained=str(tmp_path / "encoder"), window=6)
    assert [round(v, 4) for v in model.backbone.normalise.mean.flatten().tolist()] == [127.5, 102.0, 76.5]
    assert model.backbone.window == 6
    model.save_pretrained(tmp_path / "saved")
    (tmp_path / "encoder").rename(tmp_path / "gone")
    opened = Predictor.from_pretrained(tmp_path / "saved")
    with torch.inference_mode():
        wanted = model(frames(1, 4))[0].logits.action
        torch.testing.assert_close(opened(frames(1, 4))[0].logits.action, wanted)
    assert "gone" not in (tmp_path / "saved" / "config.json").read_text()
    assert str(tmp_path) not in (tmp_path / "saved" / "config.json").read_text()


def test_costs_are_of_a_window_per_stride() -> None:
    one, third = (summarize(small_model(stride=stride).config) for stride in (1, 3))
    encoder, slow = one.rows[0], third.rows[0]
    assert slow.flop == encoder.flop // 3
    assert f"a window of {WINDOW} frames" in slow.name
    assert slow.name.endswith("every 3 frames)")
    model = small_model(stride=3)
    assert third.state_bytes == model.init_state(1, SIDE, SIDE).nbytes
    assert third.parameters == sum(p.numel() for p in model.parameters())
    tokens, wide = WINDOW // 2 * 4, 24
    linear = tokens * (2 * 3 * 2 * 16 * 16 * wide + 2 * 2 * 12 * wide * wide)  # patches, and two blocks
    assert encoder.flop == linear + 2 * 4 * tokens * tokens * wide  # and their attention


def test_the_model_of_the_run_file_is_vit_large() -> None:
    summary = summarize(model_config("horst_ek100_vjepa2"))
    assert 300e6 < summary.rows[0].parameters < 310e6
    assert summary.rows[0].output == (1024, 8, 8)


@every_encoder
def test_bad_options(name: str, tmp_path: Path) -> None:
    small = small_encoders.options(name)
    for options, message in (
        ({}, "needs pretrained"),
        ({**small, "window": 5}, r"window is 5; .* 2 frames at a time: use 4"),
        ({**small, "window": 0}, "window"),
        ({**small, "stride": 0}, "stride"),
        ({**small, "grid": [2]}, "grid"),
        ({**small, "tokens": "first"}, "last"),
        ({**small, "image_size": 40}, r"40; patches of 16 pixels do not divide it: use 32"),
        ({"config": {"hiden_size": 8}}, "hidden_size"),
        ({"config": {**small["config"], "num_attention_heads": 5}}, "config of"),
    ):
        with pytest.raises(ConfigError, match=message):
            create_backbone(name, **options)


@every_encoder
def test_bad_folders(name: str, tmp_path: Path) -> None:
    other = next(one for one in NAMES if one != name)
    for folder, make in (("own", name), ("other", other), ("cut", name)):
        small_encoders.save(make, tmp_path / folder)
    weights = importlib.import_module("safetensors.torch")
    kept = weights.load_file(tmp_path / "cut" / "model.safetensors")
    lost = next(key for key in kept if "predictor" not in key)
    weights.save_file({k: v for k, v in kept.items() if k != lost}, tmp_path / "cut" / "model.safetensors")
    (tmp_path / "empty").mkdir()
    for folder, message in (
        ("other", f"is a model of the type '{other}'"),
        ("empty", r"empty.*takes a folder"),
        ("nowhere", r"nowhere.*takes a folder"),
        ("cut", f"no weights for 1 tensors, such as .*{lost.rsplit('.', 2)[-2]}"),
    ):
        with pytest.raises(CheckpointError, match=message):
            create_backbone(name, pretrained=str(tmp_path / folder))
    with pytest.raises(ConfigError, match="config says hidden_size: 32"):
        create_backbone(name, pretrained=str(tmp_path / "own"), config={"hidden_size": 32})


@every_encoder
def test_other_sizes_of_frames_are_named(name: str) -> None:
    backbone = build(name)
    for shape in ((1, 3, 48, 32), (1, 3, 16, 16)):
        with pytest.raises(InputError, match=r"32 x 32; got \d+ x \d+: resize them, or give the backbone image_size"):
            backbone(torch.zeros(shape))
    larger = create_backbone(name, **small_encoders.options(name), image_size=48)
    assert larger(torch.zeros(1, 3, 48, 48)).shape[2:] == larger.output_size(48, 48) == (3, 3)


def test_states_of_other_models_are_refused() -> None:
    model = small_model()
    plain = create_model("horst_tiny", hidden=[6], stride=[1], order=2, num_classes=3, size=(SIDE, SIDE)).eval()
    frame = frames(1, 1)[:, 0]
    with pytest.raises(StateError, match="of another model"):
        model.step(frame, plain.init_state(1, SIDE, SIDE))
    with pytest.raises(StateError, match="of another model"):
        plain.step(frame, model.init_state(1, SIDE, SIDE))
    wider = small_model(window=6)
    with pytest.raises(StateError, match="window of the state"):
        model.step(frame, wider.init_state(1, SIDE, SIDE))
    with pytest.raises(InputError, match="clips"):
        model.backbone.clip(frame)


def test_what_a_window_cannot_do_is_named(tmp_path: Path) -> None:
    from horst.export import export_model
    from horst.models.fused import fuse_models

    model = small_model()
    with pytest.raises(ConfigError, match="reads a window of frames"):
        export_model(model, tmp_path / "model.onnx")
    with pytest.raises(ConfigError, match="fuse the runs with `horst fuse`"):
        fuse_models([model, small_model()], [0.5, 0.5])
    with pytest.raises(ConfigError, match=r"onnxruntime .* cannot run"):
        horst.BatchedStep(model, 1, engine="onnxruntime")


def test_missing_transformers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'horst-video\[transformers\]'"):
        create_backbone("vjepa2", **small_encoders.options("vjepa2"))
