"""A fused layer against the plain one: outputs, attention, state and every gradient, both variants."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from near import assert_near
from torch import Tensor

from horst.layers import HORST, HORSTConfig, fused
from horst.layers.cell import HORSTCell

CASES = [  # variant, C_in, C, S, T, B, H, W, stride, whether it goes on from a state, whether lengths differ
    ("released", 3, 4, 2, 3, 2, 4, 5, 1, False, True),
    ("released", 3, 4, 2, 3, 2, 4, 5, 1, False, False),
    ("paper", 3, 5, 2, 3, 2, 3, 3, 1, True, True),
    ("paper", 3, 5, 2, 3, 2, 3, 3, 1, False, False),
    ("paper", 4, 4, 1, 2, 1, 4, 6, 2, True, False),
    ("released", 2, 6, 3, 2, 2, 5, 4, 2, False, True),
    ("released", 2, 6, 3, 2, 2, 5, 4, 2, True, True),
]
FORMS: list[dict[str, Any]] = [  # what the paper compares STATT with
    {"variant": "released", "attention": "temporal"},
    {"variant": "released", "attention": "spatial", "heads": 2},
    {"variant": "paper", "attention": "spatial", "spatial_weight": "order"},
    {"variant": "paper", "key_value": "split", "heads": 3},
    {"variant": "released", "position": "sinusoidal"},
    {"variant": "released", "key_value": "split", "position": "sinusoidal", "heads": 2, "attention": "temporal"},
]


def cell_of(variant: str, c_in: int, c: int, order: int, stride: int, **options: Any) -> HORSTCell:
    chosen: dict[str, Any] = {"order": order, "variant": variant, **options}
    config = HORSTConfig(in_channels=c_in, hidden=(c,), stride=(stride,), **chosen)
    cell = HORSTCell(config, c_in, c, stride).double()
    assert "no kernels" not in cell.backend(torch.device("cpu")).why
    with torch.no_grad():  # norms that do something
        for p in cell.parameters():
            p.add_(0.3 * torch.randn_like(p))
    return cell


@pytest.mark.parametrize("case", CASES)
def test_equals_the_plain_layer(case: tuple, device: str) -> None:
    variant, c_in, c, order, t, b, h, w, stride, continued, ragged = case
    torch.manual_seed(sum(case[1:-2]))
    cell = cell_of(variant, c_in, c, order, stride)
    compare(cell, (b, t, c_in, h, w), continued, ragged, device)


@pytest.mark.parametrize("form", FORMS)
def test_equals_the_plain_layer_in_every_form(form: dict[str, Any], device: str) -> None:
    torch.manual_seed(3)
    compare(cell_of(c_in=2, c=6, order=2, stride=1, **form), (1, 2, 2, 2, 3), True, False, device)


def compare(cell: HORSTCell, shape: tuple[int, ...], continued: bool, ragged: bool, device: str) -> None:
    b, t, c_in, h, w = shape
    x = torch.randn(b, t, c_in, h, w, dtype=torch.float64)
    lengths = [t - i % t if ragged else t for i in range(b)]
    state = None
    if continued:
        with torch.no_grad():
            _, state = cell(
                torch.randn(b, 2, c_in, h, w, dtype=torch.float64), None, [2 - i % 2 for i in range(b)], False
            )

    wanted, grads = plain(cell, x, state, lengths)
    cell = cell.float().to(device)
    state = (
        None
        if state is None
        else type(state)(*(cast(m, device) for m in (state.keys, state.filters, state.values, state.count)))
    )
    found, found_grads = kernels(cell, cast(x, device), state, lengths)
    for name in wanted:
        assert_near(found[name], wanted[name], name=name)
    for name in grads:
        assert_near(found_grads[name], grads[name], name=name)


def cast(x: Tensor, device: str) -> Tensor:
    return x.to(device, torch.float32 if x.is_floating_point() else None)


def plain(cell: HORSTCell, x: Tensor, state, lengths):
    x = x.clone().requires_grad_()
    held = leaves(state)
    out, after = cell(x, state if state is None else held, lengths, True)
    results = {"y": out.y, "e": out.e, "statt": out.statt, "spatial": out.spatial, "temporal": out.temporal}
    return collect(cell, x, held, results, after)


def kernels(cell: HORSTCell, x: Tensor, state, lengths):
    x = x.clone().requires_grad_()
    held = leaves(state)
    (y, e, statt, spatial, temporal), after = fused.clip(cell, x, state if state is None else held, lengths)
    results = {"y": y, "e": e, "statt": statt, "spatial": spatial, "temporal": temporal}
    return collect(cell, x, held, results, after)


def leaves(state):
    if state is None:
        return None
    maps = (m.clone().requires_grad_() for m in (state.keys, state.filters, state.values))
    return type(state)(*maps, state.count)


def collect(cell: HORSTCell, x: Tensor, state, results, after):
    results |= {"keys": after.keys, "filters": after.filters, "values": after.values, "count": after.count.double()}
    generator = torch.Generator().manual_seed(1)
    loss = x.new_zeros(())
    for name in ("y", "e", "statt", "keys", "filters", "values"):
        probe = torch.randn(results[name].shape, generator=generator, dtype=torch.float64).to(x)
        loss = loss + (results[name] * probe).sum()
    inputs = {"x": x, **dict(cell.named_parameters())}
    if state is not None:
        inputs |= {"state keys": state.keys, "state filters": state.filters, "state values": state.values}
    found = torch.autograd.grad(loss, list(inputs.values()), allow_unused=True)
    return results, {name: g for name, g in zip(inputs, found, strict=True) if g is not None}


@pytest.fixture
def poisoned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory that nobody has written is NaN: what is read before it is written shows."""
    empty, empty_like, new_empty = torch.empty, torch.empty_like, Tensor.new_empty

    def poison(make: Callable[..., Tensor]) -> Callable[..., Tensor]:
        def made(*args: Any, **kwargs: Any) -> Tensor:
            x = make(*args, **kwargs)
            return x.fill_(torch.nan) if x.is_floating_point() else x

        return made

    monkeypatch.setattr(torch, "empty", poison(empty))
    monkeypatch.setattr(torch, "empty_like", poison(empty_like))
    monkeypatch.setattr(Tensor, "new_empty", poison(new_empty))


@pytest.mark.usefixtures("poisoned")
@pytest.mark.parametrize(("variant", "heads"), [("released", 2), ("paper", 1)])
def test_nothing_is_read_before_it_is_written(variant: str, heads: int, device: str) -> None:
    torch.manual_seed(0)
    cell = cell_of(variant, 3, 4, 2, 1, heads=heads).float().to(device)
    results, grads = kernels(cell, torch.randn(1, 3, 3, 2, 3, device=device), None, [3])
    assert all(m.isfinite().all() for m in (*results.values(), *grads.values()))


@pytest.mark.parametrize("variant", ["released", "paper"])
def test_in_half_precision_the_error_is_that_of_plain_pytorch(variant: str, device: str) -> None:
    """At most twice: plain PyTorch keeps the outputs of norms in fp32, the kernels all maps in half precision."""
    torch.manual_seed(1)
    cell, x = cell_of(variant, 8, 16, 2, 1), torch.randn(1, 4, 8, 6, 5, dtype=torch.float64)
    exact = cell(x, None, [4], False)[0].y.detach()
    cell, x = cell.float().to(device), cast(x, device)
    with torch.autocast(device, torch.float16):
        plain_y = cell(x, None, [4], False)[0].y
        fused_y = fused.clip(cell, x, None, [4])[0][0]
    assert fused_y.dtype == torch.float16
    errors = [float((y.detach().cpu().double() - exact).norm() / exact.norm()) for y in (fused_y, plain_y)]
    assert errors[0] < 2 * errors[1]
    assert errors[1] > 1e-5  # it was half precision indeed


def test_a_core_of_several_layers(device: str) -> None:
    """Through the backend's choice: outputs, the attention without gradients, and what a loss sends back."""
    torch.manual_seed(2)
    core = HORST(in_channels=3, hidden=(4, 5), stride=(1, 2), order=2, variant="released").to(device)
    x, lengths = torch.randn(2, 2, 3, 4, 4, device=device), [2, 1]
    found = {}
    for name in ("reference", "triton"):
        core.use_backend(name)  # type: ignore[arg-type]
        core.zero_grad()
        out, state = core(x, None, lengths)
        (out.y.square().sum() + out.statt[0].sum()).backward()
        with torch.no_grad():
            looked, _ = core(x[:, :1], state, attention=True)
        assert looked.spatial is not None
        assert looked.temporal is not None
        results = {"y": out.y, "next": looked.y, "spatial": looked.spatial[1], "temporal": looked.temporal[1]}
        found[name] = {**results, **{n: p.grad.clone() for n, p in core.named_parameters() if p.grad is not None}}
    for name, wanted in found["reference"].items():
        assert_near(found["triton"][name], wanted, name=name)
