"""The operators: against the paper's listing, the eager form against the reference, and the paper's operation count."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from horst.ops import Attended, eager, joint_ops, reference, statt_ops, temporal_ops, weighing_ops

MODES = ("spatial-temporal", "temporal", "spatial", "joint")


class Inputs:
    """Random arguments of `statt` in float64: maps, filters, and a mask with at least one state a sample."""

    def __init__(self, b: int, s: int, c: int, h: int, w: int, *, masked: bool = True, seed: int = 0) -> None:
        g = torch.Generator().manual_seed(seed)
        rand = lambda *shape: torch.randn(*shape, generator=g, dtype=torch.float64)  # noqa: E731
        self.q, self.f_q = rand(b, c, h, w), rand(b, h, w).sigmoid()
        self.keys, self.values = [rand(b, c, h, w) for _ in range(s)], [rand(b, c, h, w) for _ in range(s)]
        self.filters = [rand(b, h, w).sigmoid() for _ in range(s)]
        self.valid = None
        if masked:
            self.valid = torch.rand(b, s, generator=g) < 0.6
            self.valid[:, -1] = True
        self.scale = (c * h * w) ** -0.5

    @property
    def tensors(self) -> list[Tensor]:
        return [self.q, self.f_q, *self.keys, *self.filters, *self.values]

    def call(self, statt: Callable[..., Attended], **options: Any) -> Attended:
        args = (self.q, self.f_q, self.keys, self.filters, self.values, self.valid)
        return statt(*args, scale=self.scale, **options)


def test_reference_is_the_papers_listing() -> None:
    x = Inputs(2, 4, 5, 6, 3, masked=False)
    q, k, v = x.q.unsqueeze(0), torch.stack(x.keys), torch.stack(x.values)  # the listing's (S, B, C, H, W)
    f_q, f_k = x.f_q[None, :, None], torch.stack(x.filters).unsqueeze(2)
    q_hat = (f_k * q).mean([-1, -2])
    maps = torch.sigmoid(torch.einsum("sbc,sbcd->sbd", q_hat, k.flatten(3))).view(4, 2, 1, 6, 3)
    logits = torch.einsum("lbd,sbd->lsb", (q * f_q).flatten(2), (k * f_k).flatten(2))
    weights = F.softmax(logits * (5 * 6 * 3) ** -0.5, dim=1)
    listing = torch.einsum("lsb,sbchw->bchw", weights, v * maps)
    out, spatial, temporal = x.call(reference.statt)
    torch.testing.assert_close(out, listing)
    torch.testing.assert_close(spatial, maps.squeeze(2).transpose(0, 1))
    torch.testing.assert_close(temporal, weights[0].T)


@settings(max_examples=40, deadline=None)
@given(
    b=st.integers(1, 3),
    s=st.integers(1, 5),
    c=st.integers(1, 6),
    h=st.integers(1, 7),
    w=st.integers(1, 5),
    mode=st.sampled_from(MODES),
    masked=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_eager_equals_reference(b: int, s: int, c: int, h: int, w: int, mode: str, masked: bool, seed: int) -> None:
    """Outputs, weights, and the gradient of every argument."""
    results = []
    for statt in (reference.statt, eager.statt):
        x = Inputs(b, s, c, h, w, masked=masked, seed=seed)
        for tensor in x.tensors:
            tensor.requires_grad_()
        result = x.call(statt, mode=mode)
        loss = sum((part * torch.arange(part.numel()).view_as(part).cos()).sum() for part in result)
        results.append((result, torch.autograd.grad(loss, x.tensors, allow_unused=True, materialize_grads=True)))
    (wanted, wanted_grads), (found, found_grads) = results
    torch.testing.assert_close(found, wanted)
    torch.testing.assert_close(found_grads, wanted_grads)


@pytest.mark.parametrize("masked", [True, False])
def test_joint_without_weights_is_the_same_output(masked: bool) -> None:
    x = Inputs(3, 4, 5, 3, 6, masked=masked)
    out, spatial, temporal = x.call(eager.statt, mode="joint", need_weights=False)
    torch.testing.assert_close(out, x.call(reference.statt, mode="joint").out)
    assert spatial is None
    assert temporal is None


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("ops", [reference, eager])
def test_absent_states_do_not_count(ops: Any, mode: str) -> None:
    """What lies in a slot that is not valid changes nothing, and taking the slot away changes nothing."""
    x = Inputs(2, 4, 3, 5, 4)
    x.valid = torch.tensor([[True, False, True, True]] * 2)
    before = x.call(ops.statt, mode=mode)
    for maps in (x.keys, x.filters, x.values):
        maps[1] = torch.full_like(maps[1], 1e6)
    torch.testing.assert_close(x.call(ops.statt, mode=mode), before)
    for maps in (x.keys, x.filters, x.values):
        del maps[1]
    x.valid = None
    without = x.call(ops.statt, mode=mode)
    torch.testing.assert_close(without.out, before.out)
    torch.testing.assert_close(without.temporal, before.temporal[:, [0, 2, 3]])
    assert not before.temporal[:, 1].any()
    assert not before.spatial[:, 1].any()


def test_weights_are_what_the_equations_say() -> None:
    x = Inputs(2, 5, 4, 3, 6)
    both = x.call(eager.statt)
    torch.testing.assert_close(both.temporal.sum(1), torch.ones(2, dtype=torch.float64))
    assert both.spatial.min() >= 0
    assert both.spatial.max() <= 1
    assert torch.equal(
        x.call(eager.statt, mode="temporal").spatial, x.valid[:, :, None, None].double().expand(2, 5, 3, 6)
    )
    present = x.valid.double()
    torch.testing.assert_close(x.call(eager.statt, mode="spatial").temporal, present / present.sum(1, keepdim=True))
    order = x.call(eager.statt, mode="spatial", spatial_weight="order", order=8)
    torch.testing.assert_close(order.temporal, present / 8)
    joint = x.call(eager.statt, mode="joint")
    torch.testing.assert_close(joint.temporal.sum(1), torch.ones(2, dtype=torch.float64))
    torch.testing.assert_close(joint.spatial.sum((2, 3)), present)


def test_spatial_filter_pools_in_the_order_asked_for() -> None:
    x = torch.randn(2, 5, 6, 7)
    weight, bias = torch.randn(1, 2, 3, 3), torch.randn(1)
    maximum_first = torch.sigmoid(F.conv2d(torch.stack([x.amax(1), x.mean(1)], 1), weight, bias, padding=1))[:, 0]
    torch.testing.assert_close(reference.spatial_filter(x, weight, bias, "max,avg"), maximum_first)
    torch.testing.assert_close(reference.spatial_filter(x, weight.flip(1), bias, "avg,max"), maximum_first)


class Multiplications(TorchDispatchMode):
    """Counts the multiplications of products, matrix products and convolutions between tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__
        if name == "mul" and isinstance(args[1], Tensor):
            self.count += out.numel()
        elif name == "bmm":
            self.count += out.numel() * args[0].shape[-1]
        elif name == "convolution":
            self.count += out.numel() * args[1][0].numel()
        return out


@pytest.mark.parametrize(("s", "c", "h", "w"), [(8, 16, 6, 5), (1, 4, 3, 3), (3, 7, 1, 9)])
def test_operation_counts_are_the_papers(s: int, c: int, h: int, w: int) -> None:
    x = Inputs(1, s, c, h, w, masked=False)
    weight, bias = torch.randn(1, 2, 3, 3).double(), torch.randn(1).double()
    with Multiplications() as counter:
        x.f_q = reference.spatial_filter(x.q, weight, bias)
        x.filters = [reference.spatial_filter(k, weight, bias) for k in x.keys]
        x.call(reference.statt)
    assert counter.count == (6 * s + 1) * c * h * w + 18 * (s + 1) * h * w == statt_ops(s, c, h, w)
    with Multiplications() as counter:
        x.call(reference.statt, mode="joint")
    assert counter.count == 2 * s * (h * w) ** 2 * c == joint_ops(s, c, h, w)
    for mode in MODES:
        with Multiplications() as counter:
            x.call(reference.statt, mode=mode)
        # "temporal" multiplies by maps of ones too, which nobody needs to
        ones = s * c * h * w if mode == "temporal" else 0
        assert counter.count - ones == weighing_ops(mode, s, c, h, w), mode
    assert temporal_ops(s, c, h, w) == 2 * s * h * w * c
