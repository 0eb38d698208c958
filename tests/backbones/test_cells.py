"""The backbone `cells`: what it computes, its memory, and what it is saved as."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import horst
from horst.backbones import CellsBackbone, PrecomputedMaps, create_backbone, efficientnet_lite
from horst.cli.data import _backbone as network_to_extract
from horst.errors import CheckpointError, ConfigError, InputError, StateError
from horst.export import export_model

ENCODER = {"name": "stem", "widths": [4, 6]}


def cells(**options: Any) -> CellsBackbone:
    torch.manual_seed(0)
    found = create_backbone("cells", **{"encoder": ENCODER, "grid": [2, 3], "difference": 2, **options}).eval()
    assert isinstance(found, CellsBackbone)
    return found


def clip(frames: int, seed: int = 0, batch: int = 2) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 256, (batch, frames, 3, 16, 24), generator=generator, dtype=torch.uint8)


@pytest.mark.parametrize("flatten", [False, True])
def test_it_equals_stored_maps_with_a_grid_and_differences(flatten: bool) -> None:
    backbone, frames = cells(norm=True, project=5, flatten=flatten), clip(7)
    stored = PrecomputedMaps(channels=12, grid=[2, 3], norm=True, project=5, flatten=flatten).eval()
    stored.load_state_dict({k: v for k, v in backbone.state_dict().items() if not k.startswith("encoder.")})
    maps = backbone.encoder(frames.flatten(0, 1)).unflatten(0, (2, 7))
    averaged = maps.unflatten(-1, (3, -1)).unflatten(-3, (2, -1)).mean((-3, -1))
    before = np.maximum(np.arange(7) - 2, 0)
    expected = stored(torch.cat([averaged, averaged - averaged[:, before]], 2).flatten(0, 1)).unflatten(0, (2, 7))
    torch.testing.assert_close(backbone.clip(frames)[0], expected)


@settings(max_examples=20, deadline=None)
@given(cut=st.integers(1, 8), difference=st.sampled_from([None, 1, 3]), seed=st.integers(0, 99))
def test_a_clip_in_parts_and_in_steps_equals_the_whole(cut: int, difference: int | None, seed: int) -> None:
    backbone, frames = cells(difference=difference), clip(9, seed)
    whole, _ = backbone.clip(frames)
    first, memory = backbone.clip(frames[:, :cut])
    second, _ = backbone.clip(frames[:, cut:], memory)
    torch.testing.assert_close(torch.cat([first, second], 1), whole)
    memory, steps = backbone.init_memory(2, 16, 24), []
    for t in range(9):
        maps, memory = backbone.step(frames[:, t], memory)
        steps.append(maps)
    torch.testing.assert_close(torch.stack(steps, 1), whole)


def test_streams_of_different_lengths_remember_their_own_last_frames() -> None:
    backbone, frames, after = cells(), clip(6), clip(2, seed=1)
    _, memory = backbone.clip(frames, None, [3, 6])
    together, _ = backbone.clip(after, memory)
    for row, length in enumerate((3, 6)):
        _, alone = backbone.clip(frames[row : row + 1, :length])
        torch.testing.assert_close(together[row : row + 1], backbone.clip(after[row : row + 1], alone)[0])


@pytest.mark.parametrize("difference", [None, 2])
def test_padding_is_not_counted_in_its_norm(difference: int | None) -> None:
    padded = clip(5)
    padded[1, 3:] = 0
    backbone, other = cells(norm=True, difference=difference).train(), cells(norm=True, difference=difference).train()
    backbone.clip(padded)
    other.eval()
    seen = [other.encoder.clip(padded[:1])[0], other.encoder.clip(padded[1:, :3])[0]]
    averaged = [other._cells(maps[0]) for maps in seen]
    if difference is not None:
        averaged = [torch.cat([m, m - m[[max(0, t - 2) for t in range(len(m))]]], 1) for m in averaged]
    other.train().features(torch.cat(averaged))
    assert backbone.norm is not None
    assert other.norm is not None
    torch.testing.assert_close(backbone.norm.running_mean, other.norm.running_mean)
    torch.testing.assert_close(backbone.norm.running_var, other.norm.running_var)


def test_half_precision() -> None:
    """The maps of an encoder under autocast become those of the parameters, and steps equal clips."""
    backbone, frames = cells(norm=True, project=5), clip(6)
    with torch.autocast("cpu", torch.bfloat16), torch.no_grad():
        whole, memory = backbone.clip(frames)
        assert memory is not None
        assert memory.frames.dtype == torch.float32
        memory, steps = backbone.init_memory(2, 16, 24), []
        for t in range(6):
            maps, memory = backbone.step(frames[:, t], memory)
            steps.append(maps)
    near = 2**-7  # of bf16: the kernel of a convolution may depend on the number of frames
    torch.testing.assert_close(torch.stack(steps, 1), whole, rtol=near, atol=near)
    half = backbone.half()
    assert half.clip(frames)[0].dtype == torch.float16


def test_a_model_with_it_streams_as_it_reads_clips_and_is_saved(tmp_path: Path) -> None:
    options = {"name": "cells", "encoder": ENCODER, "grid": [2, 3], "difference": 2, "norm": True, "project": 5}
    model = horst.create_model(
        "horst_tiny", num_classes=3, hidden=[4], stride=[1], size=(16, 24), backbone=options
    ).eval()
    frames = clip(6)
    whole = model(frames)[0].logits.action
    state = model.init_state(2, 16, 24)
    for t in range(6):
        out, state = model.step(frames[:, t], state)
        torch.testing.assert_close(out.logits.action, whole[:, t])
    again = horst.open_model(model.save_pretrained(tmp_path / "model"))
    torch.testing.assert_close(again(frames)[0].logits.action, whole, rtol=0, atol=0)
    extracted = network_to_extract("stem", "{}", tmp_path / "model")
    torch.testing.assert_close(extracted(frames[0]), again.backbone.encoder(frames[0]), rtol=0, atol=0)


def test_a_saved_model_needs_no_first_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = {"name": "efficientnet_lite0", "features_at": "s16", "pretrained": True}
    options = {"name": "cells", "encoder": encoder, "grid": [1, 2], "project": 5}
    monkeypatch.setattr(efficientnet_lite, "load_imagenet", lambda model: None)
    model = horst.create_model("horst_tiny", num_classes=3, hidden=[4], stride=[1], size=(32, 48), backbone=options)
    folder = Path(model.save_pretrained(tmp_path / "model"))
    monkeypatch.setattr(efficientnet_lite, "load_imagenet", lambda model: pytest.fail("was loaded"))
    again = horst.open_model(folder)
    assert again.config == model.config
    config = json.loads((folder / "config.json").read_text())
    config["backbone"]["options"]["encoder"]["pretrained"] = "/somewhere"
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(CheckpointError, match="'pretrained' is not for it"):
        horst.open_model(folder)


def test_it_is_exported_without_differences_only(tmp_path: Path) -> None:
    def model(difference: int | None) -> Any:
        options = {"name": "cells", "encoder": ENCODER, "grid": [2, 3], "difference": difference, "project": 5}
        return horst.create_model("horst_tiny", num_classes=3, hidden=[4], stride=[1], size=(16, 24), backbone=options)

    export_model(model(None).eval(), tmp_path / "model.onnx")
    with pytest.raises(ConfigError, match="without `difference`"):
        export_model(model(2).eval(), tmp_path / "other.onnx")


def test_errors() -> None:
    for options, says in (
        ({"encoder": "stem"}, "encoder is 'stem'"),
        ({"encoder": {"name": "maps", "channels": 4}}, "encoder is maps"),
        ({"difference": 0}, "difference is 0"),
        ({"grid": None}, "grid is None"),
    ):
        with pytest.raises(ConfigError, match=says):
            cells(**options)
    with pytest.raises(InputError, match="use a smaller grid"):
        cells(grid=[9, 3]).output_size(16, 24)
    with pytest.raises(ConfigError, match="extract with its encoder"):
        network_to_extract("cells", "{encoder: {name: stem}, grid: [2, 3]}", None)
    memory = cells().clip(clip(2))[1]
    assert memory is not None
    with pytest.raises(StateError, match="of another model or batch"):
        cells().clip(clip(2, batch=3), memory)
    with pytest.raises(StateError, match=r"\(1,\)\), expected .*\(2,\)"):
        cells().clip(clip(2), replace(memory, count=memory.count[:1]))
