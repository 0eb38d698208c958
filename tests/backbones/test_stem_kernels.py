"""The stem by the kernels, which run in Triton's interpreter where there is no GPU, is the stem by plain PyTorch."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor

from horst.backbones import ConvStem, PrecomputedMaps, create_backbone
from horst.errors import ConfigError
from horst.ops.fused.norm_act import prepared

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
HALF = torch.bfloat16 if torch.cuda.is_available() else torch.float16
"""The interpreter rounds bfloat16 otherwise than a GPU."""


@pytest.fixture(autouse=True)
def _nothing_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HORST_BACKEND", raising=False)


def pair(**options: Any) -> tuple[ConvStem, ConvStem]:
    """The same stem by the kernels and by plain PyTorch, with norms whose parameters are not ones and zeros."""
    torch.manual_seed(0)
    plain = ConvStem(widths=(6, 24), **options)
    for name, parameter in plain.named_parameters():
        if parameter.ndim == 1:
            torch.nn.init.normal_(parameter, 1.0 if name.endswith("weight") else 0.0, 0.5)
    plain = plain.to(DEVICE)
    fused = copy.deepcopy(plain)
    plain.use_backend("reference")
    fused.use_backend("triton")
    return fused, plain


def pictures(n: int = 1, height: int = 12, width: int = 17) -> Tensor:
    g = torch.Generator().manual_seed(1)
    return torch.randint(0, 256, (n, 3, height, width), dtype=torch.uint8, generator=g).to(DEVICE)


def gradients(stem: ConvStem, x: Tensor) -> dict[str, Tensor]:
    """The output, and the gradients of a function of it that looks at every value otherwise."""
    x = x.clone().requires_grad_()
    y = stem.features(x)
    (y * torch.linspace(-1, 1, y.numel(), device=y.device).view_as(y)).sum().backward()
    assert x.grad is not None
    parameters = {name: p.grad for name, p in stem.named_parameters() if p.grad is not None}
    return {"y": y.detach(), "x": x.grad, **parameters}


@pytest.mark.parametrize("activation", ["relu", "silu"])
@pytest.mark.parametrize("norm", ["layer", "channel"])
def test_same_outputs_and_gradients(norm: Any, activation: Any) -> None:
    fused, plain = pair(norm=norm, activation=activation)
    x = plain.preprocess(pictures(2))
    ours, theirs = gradients(fused, x), gradients(plain, x)
    assert list(ours) == list(theirs)
    assert len(ours) == 2 + 6
    for name, expected in theirs.items():
        scale = max(1.0, float(expected.abs().max()))
        torch.testing.assert_close(ours[name], expected, rtol=0, atol=1e-5 * scale, msg=lambda m, name=name: name + m)
    assert ours["y"].is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("norm", ["layer", "channel"])
def test_autocast_keeps_maps_in_its_dtype(norm: Any) -> None:
    fused, plain = pair(norm=norm)
    with torch.autocast(DEVICE.type, HALF):
        y, expected = fused(pictures()), plain(pictures())
    assert y.dtype == HALF
    torch.testing.assert_close(y.float(), expected.float(), rtol=0.02, atol=0.02)
    y.float().square().mean().backward()
    assert all(p.grad is not None and p.grad.dtype == torch.float32 for p in fused.parameters())


@pytest.mark.parametrize("norm", ["layer", "channel"])
def test_a_copy_for_single_frames_gives_the_same(norm: Any) -> None:
    """It has kernels of its own for the norm of whole maps."""
    fused, plain = pair(norm=norm)
    with torch.inference_mode():
        found = prepared(fused, torch.float32)(pictures())
        torch.testing.assert_close(found, plain(pictures()), rtol=0, atol=1e-5)


def test_state_dict_keys_are_unchanged() -> None:
    fused, plain = pair(norm="channel")
    names = [f"stages.{i}.{part}" for i in range(2) for part in ("0.weight", "1.weight", "1.bias")]
    assert list(fused.state_dict()) == list(plain.state_dict()) == names
    fused(pictures())
    assert list(fused.state_dict()) == names


@pytest.mark.parametrize("norm", ["layer", "channel", "batch"])
def test_on_a_cpu_nothing_changes(norm: Any) -> None:
    stem = ConvStem(widths=(4, 8), norm=norm)
    assert stem.backend(torch.device("cpu")).name == "reference"
    x = stem.preprocess(pictures().cpu())
    found = stem.features(x)
    assert torch.equal(found, stem.stages(x))
    assert found.is_contiguous()


def test_no_kernels_for_batch_norm() -> None:
    stem = ConvStem(widths=(4,), norm="batch").to(DEVICE)
    stem.use_backend("triton")
    assert str(stem.backend(DEVICE)) == "reference: there are no kernels for norm=batch"
    x = stem.preprocess(pictures())
    assert torch.equal(stem.features(x), stem.stages(x))


def test_float64_runs_without_kernels() -> None:
    fused, plain = pair(norm="channel")
    assert torch.equal(fused.double()(pictures()), plain.double()(pictures()))


def test_an_export_has_no_kernels() -> None:
    fused, _ = pair(norm="channel")
    exported = torch.export.export(fused.eval(), (pictures(),))
    assert any("group_norm" in str(node.target) for node in exported.graph.nodes)


def test_the_environment_variable_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HORST_BACKEND", "triton")
    assert ConvStem(widths=(4,)).backend(DEVICE).name == "triton"
    stem = ConvStem(widths=(4,))
    stem.use_backend("reference")
    assert stem.backend(DEVICE).name == "reference"
    stem.use_backend("auto")  # chosen anew
    assert stem.backend(DEVICE).name == "triton"


def test_every_backbone_has_a_backend() -> None:
    maps = create_backbone("maps", channels=5)
    assert isinstance(maps, PrecomputedMaps)
    maps.use_backend("triton")
    assert maps.backend(DEVICE).name == "reference"
    for backbone in (maps, ConvStem(widths=(4,))):
        with pytest.raises(ConfigError, match="backend"):
            backbone.use_backend("cuda")  # type: ignore[arg-type]
