"""What every backbone of the registry promises, whatever its network."""

from __future__ import annotations

import copy
from functools import cache
from typing import Any

import pytest
import small_encoders
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import horst.models  # registers the backbone of fused models
from horst.backbones import BACKBONES, Backbone, create_backbone
from horst.backbones.base import MOST_VALUES
from horst.errors import ConfigError, InputError

assert horst.models
OPTIONS: dict[str, list[dict[str, Any]]] = {
    "stem": [{}, {"widths": [8], "activation": "silu"}, {"widths": [4, 6, 8]}],
    "bn_inception": [{}],
    "efficientnet_lite0": [{}, {"features_at": "s16"}],
    "maps": [{"channels": 5}],
    "cells": [
        {"encoder": {"name": "stem", "widths": [4]}, "grid": [2, 3], "difference": 2, "norm": True, "project": 5},
        {"encoder": {"name": "efficientnet_lite0"}, "grid": [1, 2], "flatten": True},
    ],
    "fused": [{"members": [{"name": "stem", "options": {"widths": [4]}}, {"name": "stem"}]}],
    "timm": [{"model": "test_resnet"}, {"model": "test_efficientnet", "out_index": 1}, {"model": "test_vit"}],
    "vjepa2": [small_encoders.options("vjepa2"), {**small_encoders.options("vjepa2"), "grid": [1, 2], "stride": 3}],
    "videomae": [small_encoders.options("videomae")],
}
CASES = [(name, index) for name, cases in OPTIONS.items() for index in range(len(cases))]
FREEZABLE = ["bn_inception", "efficientnet_lite0", "timm", "vjepa2", "videomae"]

every_case = pytest.mark.parametrize(("name", "index"), CASES)


@pytest.fixture(autouse=True)
def _timm_imports(timm: object) -> None:
    """Every test here may build a timm backbone."""


@cache
def build(name: str, index: int) -> Backbone:
    torch.manual_seed(0)
    return create_backbone(name, **OPTIONS[name][index]).eval()


def frames_for(backbone: Backbone, height: int, width: int) -> torch.Tensor:
    shape = (2, backbone.input_channels, height, width)
    return torch.randint(0, 256, shape, generator=torch.Generator().manual_seed(1), dtype=torch.uint8)


def fitting(backbone: Backbone, height: int, width: int) -> tuple[int, int]:
    """A size near this one that the backbone takes: transformers take multiples of a patch, or one size."""
    try:
        backbone.check_size(height, width)
    except InputError:
        return getattr(backbone, "native_size", (16 * (height // 16), 16 * (width // 16)))
    return height, width


def test_every_backbone_has_a_case() -> None:
    assert set(OPTIONS) == set(BACKBONES)


@every_case
def test_output_size_is_the_size_of_the_map(name: str, index: int) -> None:
    backbone = build(name, index)
    size = fitting(backbone, 61, 83)
    maps = backbone(frames_for(backbone, *size))
    assert maps.shape == (2, backbone.channels, *backbone.output_size(*size))
    assert maps.dtype == torch.float32


@every_case
@settings(max_examples=12, deadline=None)
@given(height=st.integers(7, 100), width=st.integers(7, 100))
def test_output_size_at_any_size(name: str, index: int, height: int, width: int) -> None:
    """Or the same error."""
    backbone = build(name, index)
    if fitting(backbone, height, width) != (height, width):
        for refused in (
            lambda: backbone.output_size(height, width),
            lambda: backbone(frames_for(backbone, height, width)),
        ):
            with pytest.raises(InputError, match=f"{height} x {width}"):
                refused()
        return
    with torch.no_grad():
        assert backbone(frames_for(backbone, height, width)).shape[2:] == backbone.output_size(height, width)


@every_case
def test_bytes_and_floats_give_the_same_map(name: str, index: int) -> None:
    backbone = build(name, index)
    frames = frames_for(backbone, *fitting(backbone, 40, 40))
    torch.testing.assert_close(backbone(frames), backbone(frames.float()), rtol=0, atol=0)


@every_case
def test_the_map_is_in_the_dtype_of_the_model(name: str, index: int) -> None:
    # On the meta device, which follows dtypes without computing: not every CPU convolves bfloat16 quickly.
    backbone = copy.deepcopy(build(name, index)).to("meta", torch.bfloat16)
    for dtype in (torch.uint8, torch.float32):
        shape = (1, backbone.input_channels, *fitting(backbone, 40, 40))
        frames = torch.empty(shape, dtype=dtype, device="meta")
        assert backbone(frames).dtype == torch.bfloat16


@every_case
@pytest.mark.parametrize("shape", [(3, 40, 40), (1, 2, 3, 40, 40), (1, 40, 40, 3), (1, 1, 40, 40), (1, 4, 40, 40)])
def test_wrong_shapes_are_named(name: str, index: int, shape: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match=r"\(N, \d, H, W\)") as error:
        build(name, index)(torch.zeros(shape))
    assert str(shape) in str(error.value)


@pytest.mark.parametrize("name", FREEZABLE)
def test_frozen_by_default_stays_in_evaluation_and_gives_no_gradients(name: str) -> None:
    backbone = create_backbone(name, **OPTIONS[name][0])
    assert not any(module.training for module in backbone.modules())
    before = {key: value.clone() for key, value in backbone.state_dict().items()}
    torch.nn.Sequential(backbone).train()
    assert not any(module.training for module in backbone.modules())
    assert not backbone(frames_for(backbone, *fitting(backbone, 40, 40))).requires_grad
    assert not any(parameter.requires_grad for parameter in backbone.parameters())
    for key, value in backbone.state_dict().items():
        assert torch.equal(value, before[key]), key


@pytest.mark.parametrize("name", [*FREEZABLE, "stem"])
def test_not_frozen_trains(name: str) -> None:
    options = {} if name == "stem" else {"frozen": False}
    backbone = create_backbone(name, **OPTIONS[name][0], **options)
    assert backbone.training
    backbone(frames_for(backbone, *fitting(backbone, 70, 70))).square().mean().backward()
    assert all(p.grad is not None for p in backbone.parameters()), "a parameter that nothing uses"
    assert not backbone.eval().training


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("bn_inceptoin", {}, "bn_inception"),
        ("stem", {"width": (8,)}, "widths"),
        ("maps", {}, "channels"),
        ("maps", {"channels": 0}, "channels"),
        ("timm", {}, "model"),
        ("stem", {"activation": "rellu"}, "relu"),
        ("stem", {"widths": ()}, "widths"),
        ("stem", {"widths": (8, 0)}, "widths"),
        ("efficientnet_lite0", {"features_at": "s8"}, "s16"),
        ("efficientnet_lite0", {"feature_at": "s16"}, "features_at"),
    ],
)
def test_registry_errors_name_close_matches(name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        create_backbone(name, **options)


@pytest.mark.parametrize("name", BACKBONES)
def test_registry_builds_its_class(name: str) -> None:
    assert type(build(name, 0)) is BACKBONES[name]


@pytest.mark.parametrize("frozen", [True, False])
def test_long_clips_pass_in_parts_unless_the_backbone_is_trained(frozen: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The memory of a whole video is limited. In training, a batch norm needs all frames at once."""
    torch.manual_seed(0)
    backbone = create_backbone("efficientnet_lite0", features_at="s16", frozen=frozen).eval()
    clips = torch.randint(0, 256, (2, 5, 3, 32, 32), dtype=torch.uint8)
    whole, _ = backbone.clip(clips)
    sizes = []
    backbone.register_forward_pre_hook(lambda _, given: sizes.append(len(given[0])))
    monkeypatch.setitem(MOST_VALUES, "cpu", 4 * clips[0, 0].numel())
    with torch.no_grad():
        parts, _ = backbone.clip(clips)
    assert sizes == [4, 4, 2]
    torch.testing.assert_close(parts, whole)
    sizes.clear()
    backbone.clip(clips)
    with torch.no_grad():
        backbone.train().clip(clips)
    assert sizes == ([4, 4, 2] * 2 if frozen else [10, 10])
