"""E3D-LSTM: recall as plain attention, the cell's equations written anew, the way of the memory, sizes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from horst.errors import ConfigError
from horst.models.methods.e3d_lstm import E3DLSTM, E3DLSTMConfig, Recall, existing, recall


def small(**options: Any) -> E3DLSTM:
    torch.manual_seed(0)
    core = E3DLSTM(E3DLSTMConfig(**{"in_channels": 3, "hidden": (4, 4), "kernel": 3, "history": 3, **options}))
    for name, p in core.named_parameters():  # norms that do something
        if "norm" in name or ".2." in name:
            nn.init.normal_(p)
    return core.double()


def clip(frames: int, height: int = 4, width: int = 5) -> Tensor:
    return torch.randn(2, frames, 3, height, width, dtype=torch.float64)


def folded(x: Tensor) -> Tensor:
    """(..., C, D, H, W) to the maps of the core, (..., D C, H, W)."""
    return x.transpose(-4, -3).flatten(-4, -3)


def found_in(query: Tensor, history: Tensor, count: Tensor, mode: Recall) -> Tensor:
    """`recall` of the query (B, C, D, H, W) in the cells (B, S, C, D, H, W), of which the last `count` exist."""
    there = existing(count, history.shape[1])
    return recall(folded(query), folded(history).unbind(1), there, mode, query.shape[2])


def by_hand(query: Tensor, cells: list[Tensor], mode: Recall) -> Tensor:
    """Softmax over explicit lists: query and cells (C, D, H, W)."""
    if not cells:
        return torch.zeros_like(query)
    found = torch.empty_like(query)
    places = [(d, h, w) for d in range(query.shape[1]) for h in range(query.shape[2]) for w in range(query.shape[3])]
    for d, h, w in places:
        there = places if mode == "all" else [(d, h, w)]
        keys = torch.stack([cell[:, a, b, c] for cell in cells for a, b, c in there])
        found[:, d, h, w] = torch.softmax(keys @ query[:, d, h, w], 0) @ keys
    return found


@pytest.mark.parametrize("mode", ["all", "position"])
def test_recall_is_attention_over_existing_cells(mode: Recall) -> None:
    """Streams of different age side by side: none, one, some, all of the history, and more than it holds."""
    ages, slots = [0, 1, 2, 4, 9], 4
    query = torch.rand(5, 3, 2, 3, 2, dtype=torch.float64)
    history = torch.randn(5, slots, 3, 2, 3, 2, dtype=torch.float64)
    for b, age in enumerate(ages):
        history[b, : max(slots - age, 0)] = 0
    found = found_in(query, history, torch.tensor(ages), mode)
    for b, age in enumerate(ages):
        cells = list(history[b, max(slots - age, 0) :])
        torch.testing.assert_close(found[b], folded(by_hand(query[b], cells, mode)))
    assert (found[0] == 0).all()


def test_recall_of_one_cell() -> None:
    """At the same place it is that cell; from every place it is that cell if all its places are equal."""
    query, count = torch.rand(2, 3, 2, 3, 2), torch.ones(2, dtype=torch.int64)
    history = torch.zeros(2, 4, 3, 2, 3, 2)
    history[:, -1] = torch.randn(2, 3, 2, 3, 2)
    torch.testing.assert_close(found_in(query, history, count, "position"), folded(history[:, -1]))
    history[:, -1] = torch.randn(2, 3, 1, 1, 1)
    torch.testing.assert_close(found_in(query, history, count, "all"), folded(history[:, -1]))


def layer_norm(x: Tensor, norm: nn.GroupNorm) -> Tensor:
    flat = F.layer_norm(x, x.shape[1:])
    return flat * norm.weight.view(-1, 1, 1, 1) + norm.bias.view(-1, 1, 1, 1)


def convolved(x: Tensor, layer: nn.Sequential) -> Tensor:
    """3-D convolution of a window of 2 by a kernel of 2 x 3 x 3: the last frame reads both, the first a zero too."""
    conv = layer[1]
    before = torch.cat([torch.zeros_like(x[:, :, :1]), x], 2)
    pairs = [F.conv3d(before[:, :, t : t + 2], conv.weight, conv.bias, padding=(0, 1, 1)) for t in range(2)]
    out = torch.cat(pairs, 2)
    return layer_norm(out, layer[2]) if len(layer) > 2 else out


@pytest.mark.parametrize("carry", ["convolved", "plain"])
@pytest.mark.parametrize("output_gate", ["sigmoid", "tanh-sigmoid"])
@pytest.mark.parametrize("mode", ["all", "position"])
@torch.no_grad()
def test_equations(mode: Recall, output_gate: str, carry: str) -> None:
    core = small(recall=mode, output_gate=output_gate, carry=carry)
    x, s = clip(5), torch.sigmoid
    y = core(x)[0].y
    zero = torch.zeros(2, 4, 2, 4, 5, dtype=torch.float64)
    hidden, cells, m = [zero, zero], [[], []], zero
    for t in range(5):
        earlier = x[:, t - 1] if t else torch.zeros_like(x[:, 0])
        given = torch.stack([earlier, x[:, t]], 2)  # (B, C, D, H, W)
        for i, cell in enumerate(core.layers):
            xs = convolved(given, cell.from_x).chunk(7, 1)
            hs = convolved(hidden[i], cell.from_h).chunk(4, 1)
            ms = convolved(m, cell.from_m).chunk(4 if carry == "convolved" else 3, 1)
            past: list[Tensor] = cells[i][-3:]
            query = s(xs[2] + hs[2])
            found = torch.stack([by_hand(query[b], [c[b] for c in past], mode) for b in range(2)])
            last = past[-1] if past else zero
            c = layer_norm(last + found, cell.norm) + s(xs[0] + hs[0]) * torch.tanh(xs[1] + hs[1])
            kept = torch.tanh(ms[3]) if carry == "convolved" else m
            m = s(xs[6] + ms[2] + 1) * kept + s(xs[4] + ms[0]) * torch.tanh(xs[5] + ms[1])
            o = xs[3] + hs[3] + convolved(c, cell.gate_c) + convolved(m, cell.gate_m)
            o = s(torch.tanh(o)) if output_gate == "tanh-sigmoid" else s(o)
            hidden[i] = given = o * torch.tanh(F.conv3d(torch.cat([c, m], 1), cell.merge.weight, cell.merge.bias))
            cells[i].append(c)
        torch.testing.assert_close(y[:, t], given[:, :, -1])


@torch.no_grad()
def test_the_memory_passes_through_the_layers_to_the_next_frame() -> None:
    """What a layer made of it, not what it was given; pooled on the way up, spread out on the way back."""
    core = small(hidden=(4, 4, 4), stride=(1, 2, 1))
    seen: list[tuple[Tensor, Tensor]] = []
    for cell in core.layers:
        cell.register_forward_hook(lambda _, given, out: seen.append((given[4], out[2])))
    _, state = core(clip(2, 5, 7))
    given, made = ([pair[k] for pair in seen] for k in (0, 1))
    assert (given[0] == 0).all()
    assert all(not torch.equal(before, after) for before, after in seen if before.shape == after.shape)
    for frame in (0, 3):
        assert torch.equal(given[frame + 1], F.max_pool2d(made[frame], 2))
        assert torch.equal(given[frame + 2], made[frame + 1])
    rows, columns = torch.arange(5) * 2 // 5, torch.arange(7) * 3 // 7
    assert torch.equal(given[3], made[2][..., rows, :][..., columns])
    assert torch.equal(state.memory["m"], made[5])


def test_the_history_has_a_fixed_size() -> None:
    core = small(hidden=(4,), history=2)
    with torch.no_grad():
        _, before = core(clip(2))
        _, after = core(clip(7), before)
    assert before.nbytes == after.nbytes == core.init_state(2, 4, 5).nbytes
    cells = core(clip(3))[1].memory["c0"].detach().requires_grad_()
    state = core.init_state(2, 4, 5)
    state.memory["c0"] = cells
    for age, read in ((1, [False, True]), (2, [True, True])):
        state.count.fill_(age)
        (gradient,) = torch.autograd.grad(core.step(clip(1)[:, 0], state)[0].y.sum(), cells)
        assert (gradient.abs().amax((0, 2, 3, 4)) > 0).tolist() == read


@pytest.mark.parametrize(
    "options", [{}, {"recall": "position", "stride": (1, 2)}, {"carry": "plain"}, {"window": 1, "depth": 1}]
)
def test_gradients_of_the_last_output_reach_every_weight(options: dict[str, Any]) -> None:
    core = small(**options)
    core(clip(3))[0].y[:, -1].square().sum().backward()
    for name, p in core.named_parameters():
        assert p.grad is not None, name
        assert (p.grad != 0).all(), name


@pytest.mark.parametrize(("width", "wanted"), [(64, 12_898_832), (128, 50_848_784)])
def test_parameters_of_the_public_networks(width: int, wanted: int) -> None:
    """4 layers on patches of 4 x 4 pixels, and a convolution of 2 x 1 x 1 back to these."""
    with torch.device("meta"):
        core = E3DLSTM(E3DLSTMConfig(in_channels=16, hidden=(width,) * 4))
    assert sum(p.numel() for p in core.parameters()) + 2 * width * 16 + 16 == wanted


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"hidden": (4, 6)}, "give them the same width"),
        ({"depth": 3}, "depth is 3 and the window has 2 frames"),
        ({"window": 0}, "window is 0"),
        ({"history": 0}, "history is 0"),
        ({"recall": "time"}, "recall is 'time'; choose from 'all', 'position'"),
        ({"output_gate": "relu"}, "output_gate is 'relu'"),
        ({"carry": "old"}, "carry is 'old'"),
    ],
)
def test_bad_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        E3DLSTMConfig(**{"in_channels": 3, "hidden": (4,), **options})
