"""The LSTM's kernels against autograd through plain PyTorch in float64: h, c, every gradient, of slices of clips."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from near import assert_near
from torch import Tensor

from horst.models.methods import conv_lstm
from horst.models.methods.conv_lstm import ConvLSTM, ConvLSTMConfig, ConvTTLSTM, ConvTTLSTMConfig
from horst.ops.fused.lstm import lstm

SIZES = [(1, 1, 1, 1), (2, 3, 4, 5), (3, 24, 5, 7), (2, 64, 3, 1)]  # B, C, H, W


def case(size: tuple[int, ...], device: str) -> list[Tensor]:
    """A frame of a channels-last clip of gates, one of another layout, c, and the gradients at h and c."""
    b, c, h, w = size
    torch.manual_seed(c)
    clip = torch.randn(b, 3, h, w, 4 * c, device=device)
    full, one = (b, 4 * c, h, w), (b, c, h, w)
    shapes = (full, one, one, one)
    return [clip.permute(0, 1, 4, 2, 3)[:, 1], *(torch.randn(shape, device=device) for shape in shapes)]


def exact(observed: Tensor, recurrent: Tensor, c: Tensor, dh: Tensor, dc: Tensor) -> list[Tensor]:
    given = [x.detach().double().requires_grad_() for x in (observed, recurrent, c)]
    out = conv_lstm.lstm_step(*given)
    return [*out, *torch.autograd.grad(out, given, [dh.double(), dc.double()])]


def ours(observed: Tensor, recurrent: Tensor, c: Tensor, dh: Tensor, dc: Tensor) -> list[Tensor]:
    given = [x.detach().requires_grad_() for x in (observed, recurrent, c)]
    out = lstm(*given)
    return [*out, *torch.autograd.grad(out, given, [dh.to(out[0].dtype), dc])]


@pytest.mark.parametrize("size", SIZES)
def test_outputs_and_gradients(size: tuple[int, ...], device: str) -> None:
    tensors = case(size, device)
    for found, wanted in zip(ours(*tensors), exact(*tensors), strict=True):
        torch.testing.assert_close(found.double(), wanted, rtol=1e-5, atol=1e-6)


def test_half_precision_of_the_gates_leaves_c_as_it_is(device: str) -> None:
    observed, recurrent, *rest = case(SIZES[2], device)
    halves = [observed.half(), recurrent.half(), *rest]
    found = ours(*halves)
    assert [x.dtype for x in found] == [torch.float16, torch.float32, torch.float16, torch.float16, torch.float32]
    for one, wanted in zip(found, exact(*halves), strict=True):
        torch.testing.assert_close(one.double(), wanted, rtol=2e-3, atol=2e-3)


SIZE: dict[str, Any] = {"in_channels": 3, "stride": (1, 2), "kernel": 3}
STACKS = {
    "conv_lstm": lambda: ConvLSTM(ConvLSTMConfig(**SIZE, hidden=(4, 5))),
    "conv_tt_lstm": lambda: ConvTTLSTM(ConvTTLSTMConfig(**SIZE, hidden=(4, 5), order=2, steps=3, ranks=2)),
}


@pytest.mark.parametrize("name", STACKS)
def test_a_stack_by_kernels_is_the_plain_one(name: str, device: str) -> None:
    torch.manual_seed(0)
    core = STACKS[name]().to(device)
    x = torch.randn(2, 4, 3, 6, 8, device=device, requires_grad=True)
    found = []
    for backend in ("reference", "triton"):
        core.use_backend(backend)
        assert core.backend(x.device).name == backend
        out, state = core(x)
        more, state = core.step(x[:, 0], state)
        loss = out.y.square().sum() + more.y.sum() + sum(t.sum() for _, t in state.tensors() if t.is_floating_point())
        found.append([out.y, more.y, *torch.autograd.grad(loss, [x, *core.parameters()])])
    for plain, kernels in zip(*found, strict=True):
        assert_near(kernels, plain)


def test_what_has_no_kernels(device: str) -> None:
    core = ConvLSTM(ConvLSTMConfig(in_channels=3, hidden=(4,), peepholes=True)).to(device)
    assert "peepholes" in core.backend(torch.device(device)).why
    assert core(torch.randn(1, 2, 3, 4, 4, device=device))[0].y.shape == (1, 2, 4, 4, 4)
