"""Conv-TT-LSTM: the tensor-train against an explicit sum over its cores; which states it reads; sizes."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from horst.errors import ConfigError
from horst.models.methods.conv_lstm import ConvTTLSTM, ConvTTLSTMCell, ConvTTLSTMConfig, tensor_train

TRAINS = [(1, 1), (1, 3), (2, 2), (3, 3), (3, 5), (4, 6)]


def cell_of(order: int, steps: int, kernel: int = 3) -> ConvTTLSTMCell:
    torch.manual_seed(order * 10 + steps)
    return ConvTTLSTMCell(3, 4, kernel, order=order, steps=steps, ranks=2).double()


def states_of(steps: int) -> list[Tensor]:
    return list(torch.randn(steps, 2, 4, 5, 6, dtype=torch.float64))


@pytest.mark.parametrize(("order", "steps"), TRAINS)
def test_the_tensor_train_is_a_sum_over_paths(order: int, steps: int) -> None:
    """z = sum over l of B_{M-2} .. B_l A_l w_l, each without biases, and what the biases alone give."""
    cell, states = cell_of(order, steps), states_of(steps)
    depth = steps - order + 1
    nothing = [torch.zeros_like(s) for s in states]
    z = tensor_train(nothing, cell.windows, cell.chain)
    for first in range(order):
        for lag in range(depth):  # state by state: the slice of A_l that reads it
            weight = cell.windows[first].weight[:, 4 * lag : 4 * (lag + 1)]
            path = F.conv2d(states[first + lag], weight, padding=1)
            for link in cell.chain[first:]:
                path = F.conv2d(path, link.weight, padding=1)
            z = z + path
    torch.testing.assert_close(tensor_train(states, cell.windows, cell.chain), z)
    # the biases: a_l and b_{l-1} enter with z_l and go down the rest of the chain
    alone = torch.zeros_like(z)
    for first in range(order):
        bias = cell.windows[first].bias + (cell.chain[first - 1].bias if first else 0)
        path = bias[:, None, None].expand_as(z)
        for link in cell.chain[first:]:
            path = F.conv2d(path, link.weight, padding=1)
        alone = alone + path
    torch.testing.assert_close(tensor_train(nothing, cell.windows, cell.chain), alone)


@pytest.mark.parametrize(("order", "steps"), TRAINS)
def test_with_kernels_of_one_it_is_a_sum_over_cores_and_ranks(order: int, steps: int) -> None:
    """z_r = sum over l, lags and ranks r_l .. r_{M-2} of A_l[r_l, c, lag] h[l + lag, c] B_l[r_{l+1}, r_l] .. ."""
    cell, states = cell_of(order, steps, kernel=1), states_of(steps)
    with torch.no_grad():
        for conv in (*cell.windows, *cell.chain):
            conv.bias.zero_()
    depth, ranks = steps - order + 1, 2
    h = torch.stack(states)  # (N, B, C, H, W)
    cores = [conv.weight[..., 0, 0].unflatten(1, (depth, 4)) for conv in cell.windows]  # (R, L, C)
    links = [conv.weight[..., 0, 0] for conv in cell.chain]  # (R, R)
    z = torch.zeros(2, ranks, 5, 6, dtype=torch.float64)
    for first in range(order):
        for path in product(range(ranks), repeat=order - first):  # the rank after core l, after link l, ...
            strength = torch.ones((), dtype=torch.float64)
            for link, before, after in zip(links[first:], path, path[1:], strict=False):
                strength = strength * link[after, before]
            read = torch.einsum("lc,lbchw->bhw", cores[first][path[0]], h[first : first + depth])
            z[:, path[-1]] += strength * read
    torch.testing.assert_close(tensor_train(states, cell.windows, cell.chain), z)


def test_gates_and_cell() -> None:
    """One convolution of [x; z], in the order i, f, o, g; the queue ends with the newest state."""
    core = ConvTTLSTM(ConvTTLSTMConfig(in_channels=3, hidden=(4,), order=2, steps=3, ranks=2)).double()
    cell = core.layers[0]
    x = torch.randn(2, 5, 3, 5, 6, dtype=torch.float64)
    states = [torch.zeros(2, 4, 5, 6, dtype=torch.float64)] * 3
    c = states[0]
    out, state = core(x)
    for t in range(5):
        gates = cell.gates(torch.cat([x[:, t], tensor_train(states[-3:], cell.windows, cell.chain)], 1)).unflatten(
            1, (4, 4)
        )
        i, f, o = gates[:, :3].sigmoid().unbind(1)
        c = f * c + i * gates[:, 3].tanh()
        states.append(o * c.tanh())
        torch.testing.assert_close(out.y[:, t], states[-1])
    torch.testing.assert_close(state.memory["h0"], torch.stack(states[-3:], 1))
    torch.testing.assert_close(state.memory["c0"], c)


def test_every_state_of_the_queue_is_read_and_the_newest_comes_last() -> None:
    core = ConvTTLSTM(ConvTTLSTMConfig(in_channels=3, hidden=(4,), order=2, steps=4)).double()
    state = core(torch.randn(1, 6, 3, 5, 5, dtype=torch.float64))[1]
    past = state.memory["h0"]
    out, after = core.step(torch.randn(1, 3, 5, 5, dtype=torch.float64), state)
    (gradient,) = torch.autograd.grad(out.y.sum(), past)
    assert (gradient.abs().amax((0, 2, 3, 4)) > 0).all()
    assert torch.equal(after.memory["h0"], torch.cat([past[:, 1:], out.y.unsqueeze(1)], 1))


def test_parameters_of_the_networks_for_video_prediction() -> None:
    """4 blocks of 3 layers; a block's output is joined by that of two blocks before; a 1 x 1 convolution to pixels."""
    total, inputs, outputs = 0, 1, []
    for block, width in enumerate((32, 48, 48, 32)):
        for _ in range(3):
            cell = ConvTTLSTMCell(inputs, width, 5, order=3, steps=3, ranks=8)
            total += sum(p.numel() for p in cell.parameters())
            inputs = width
        outputs.append(width)
        inputs = width + (outputs[block - 2] if block >= 2 else 0)
    assert total + inputs + 1 == 2_687_281


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"order": 4}, "steps is 3 and order 4"),
        ({"order": 0}, "order is 0"),
        ({"ranks": 0}, "ranks is 0"),
        ({"kernel": 2}, "odd"),
    ],
)
def test_bad_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ConvTTLSTMConfig(in_channels=3, hidden=(4,), **options)
