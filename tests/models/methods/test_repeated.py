"""A repeated convolution against autograd's own: outputs, every gradient, what is lost under autocast."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from horst.models.methods.repeated import Convolve, repeated


def recurrence(convolve: Convolve, frames: Tensor, h: Tensor) -> Tensor:
    states = []
    for x in frames.unbind(1):
        h = (x + convolve(h)).tanh()
        states.append(h)
    return torch.stack(states, 1)


def case(
    dtype: torch.dtype, *, bias: bool = True, kernel: int = 3, frames: int = 5
) -> tuple[nn.Conv2d, Tensor, Tensor]:
    torch.manual_seed(kernel)
    conv = nn.Conv2d(4, 4, kernel, padding=kernel // 2, bias=bias).to(dtype)
    return conv, torch.randn(2, frames, 4, 6, 5, dtype=dtype, requires_grad=True), torch.randn(2, 4, 6, 5, dtype=dtype)


def gradients(conv: nn.Conv2d, frames: Tensor, y: Tensor) -> list[Tensor]:
    return list(torch.autograd.grad(y.double().square().sum(), [*conv.parameters(), frames]))


@pytest.mark.parametrize("kernel", [1, 3, 5])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("frames", [1, 5])
def test_gradients_are_those_of_autograd(kernel: int, bias: bool, frames: int) -> None:
    conv, x, h = case(torch.float64, bias=bias, kernel=kernel, frames=frames)
    ours, plain = recurrence(repeated(conv.weight, conv.bias), x, h), recurrence(conv, x, h)
    torch.testing.assert_close(ours, plain)
    torch.testing.assert_close(gradients(conv, x, ours), gradients(conv, x, plain))


def test_slices_of_weights_and_learnt_states() -> None:
    conv, x, _ = case(torch.float64)
    weight = torch.randn(4, 7, 3, 3, dtype=torch.float64, requires_grad=True)
    start = torch.zeros(2, 4, 6, 5, dtype=torch.float64, requires_grad=True)
    found = []
    for convolve in (repeated(weight[:, 3:], None), lambda h: F.conv2d(h, weight[:, 3:], padding=1)):
        loss = recurrence(convolve, x, start).square().sum()
        found.append(torch.autograd.grad(loss, [weight, start, x], retain_graph=True))
        torch.testing.assert_close(torch.autograd.grad(loss, [weight, start, x]), found[-1])  # a second time
    torch.testing.assert_close(*found)
    assert conv.weight.grad is None


def test_autocast_is_as_precise_as_autograd() -> None:
    conv, x, h = case(torch.float32, frames=12)
    exact = case(torch.float64, frames=12)
    exact[0].load_state_dict(conv.state_dict())
    with torch.no_grad():
        exact[1].copy_(x)
    truth = gradients(exact[0], exact[1], recurrence(exact[0], exact[1], h.double()))
    errors = []
    for late in (True, False):
        with torch.autocast("cpu", torch.bfloat16):
            convolve = repeated(conv.weight, conv.bias) if late else conv
            assert convolve(h).dtype == torch.bfloat16
            y = recurrence(convolve, x, h)
        found = gradients(conv, x, y)
        assert [g.dtype for g in found] == [torch.float32] * 3
        errors.append(float((found[0] - truth[0]).norm() / truth[0].norm()))
    assert errors[0] < 0.01
    assert errors[0] < 1.2 * errors[1]


def test_without_gradients_it_is_the_plain_convolution() -> None:
    conv, x, h = case(torch.float64)
    with torch.no_grad():
        assert torch.equal(repeated(conv.weight, conv.bias)(h), conv(h))
    conv.requires_grad_(False)
    y = recurrence(repeated(conv.weight, conv.bias), x, h)
    torch.testing.assert_close(torch.autograd.grad(y.sum(), x), torch.autograd.grad(recurrence(conv, x, h).sum(), x))
    conv.requires_grad_(True)
    again = repeated(conv.weight, conv.bias)
    (first,) = torch.autograd.grad(again(x[:, 0]).square().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        first.sum().backward()
