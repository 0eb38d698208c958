"""STATT's kernels against autograd through the specification: outputs, weights and every gradient."""

from __future__ import annotations

import pytest
import torch
from near import assert_near
from torch import Tensor

from horst.ops import reference
from horst.ops.fused import statt
from horst.ops.fused.statt import AttentionForm, AttentionGrads, AttentionWeights, KVCache

SIZES = [  # T, B, S, C, H, W, entries before the clip, heads
    (5, 2, 3, 5, 3, 4, 1, 1),
    (3, 1, 1, 16, 1, 1, 1, 1),
    (2, 2, 8, 48, 5, 7, 8, 1),
    (3, 2, 2, 130, 2, 3, 2, 1),
    (2, 1, 4, 16, 23, 25, 4, 2),  # more pixels than one chunk of q_hat, or one program, has
]


def windows(t: int, b: int, order: int, before: int, generator: torch.Generator) -> Tensor:
    """(T, B, S) uint8: what is there, at random but for what cannot be; at least one each."""
    valid = torch.rand(t, b, order, generator=generator) < 0.7
    for i in range(t):
        valid[i, :, : max(0, order - before - i)] = False
    valid[..., -1] = True
    return valid.to(torch.uint8)


def expected(q: Tensor, f_q: Tensor, memory: KVCache, valid: Tensor, before: int, scale: float, size: tuple[int, int]):
    """By the reference, frame by frame, sample by sample: each has its own window."""
    t, b, order = valid.shape
    out = []
    for i in range(t):
        rows = []
        for j in range(b):
            chosen = [i + before - order + s for s in range(order) if valid[i, j, s]]

            def maps(x: Tensor, j: int = j, chosen: list[int] = chosen) -> list[Tensor]:
                return [x[e, j].T.unflatten(-1, size).unsqueeze(0) for e in chosen]

            filters = [memory.filters[e, j].view(1, *size) for e in chosen]
            query = q[i, j].T.unflatten(-1, size).unsqueeze(0)
            look = f_q[i, j].view(1, *size)
            rows.append(reference.statt(query, look, maps(memory.keys), filters, maps(memory.values), scale=scale).out)
        out.append(torch.cat(rows).flatten(2).mT)
    return torch.stack(out)


@pytest.mark.parametrize("sizes", SIZES)
def test_forward_and_backward(sizes: tuple[int, ...], device: str) -> None:
    t, b, order, c, h, w, before, heads = sizes
    p, generator = h * w, torch.Generator().manual_seed(sum(sizes[:-1]))

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator)

    q, f_q = draw(t, b, p, c), draw(t, b, p).sigmoid()
    memory = KVCache(draw(before + t, b, p, c), draw(before + t, b, p).sigmoid(), draw(before + t, b, p, c))
    valid = windows(t, b, order, before, generator)
    grad, how = draw(t, b, p, c), AttentionForm((c // heads * p) ** -0.5, heads)

    leaves = [x.double().requires_grad_() for x in (q, f_q, *memory)]
    q_heads, k_heads, v_heads = (leaves[i].chunk(heads, -1) for i in (0, 2, 4))
    each = [
        expected(one, leaves[1], KVCache(k, leaves[3], v), valid, before, how.scale, (h, w))
        for one, k, v in zip(q_heads, k_heads, v_heads, strict=True)
    ]
    want = torch.cat(each, -1)
    wanted = torch.autograd.grad(want, leaves, grad.double(), allow_unused=True)
    wanted = [torch.zeros_like(x) if g is None else g for g, x in zip(wanted, leaves, strict=True)]

    q, f_q, valid, grad = (x.to(device) for x in (q, f_q, valid, grad))
    memory = KVCache(*(x.to(device) for x in memory))
    weights = AttentionWeights.empty(q, order, heads)
    out = torch.full_like(q, torch.nan)
    for x in weights:
        x.fill_(torch.nan)
    for i in range(t):
        statt.attend(q[i], f_q[i], memory, valid[i], i, i + before - order, how, weights, out[i])
    assert_near(out, want)

    grads, total = AttentionGrads.like(weights), torch.full_like(grad, torch.nan)
    found = KVCache(*(torch.full_like(x, torch.nan) for x in memory))
    for x in grads:
        x.fill_(torch.nan)
    for i in reversed(range(t)):
        entry = KVCache(*(x[before + i] for x in found))
        statt.entry_backward(before + i, total, q, f_q, memory, before, valid, weights, grads, entry, slope=False)
        half = grad[i] / 2
        statt.attend_backward(half, half, total[i], memory, valid[i], i, i + before - order, how, weights, grads)
    for i in range(before):
        entry = KVCache(*(x[i] for x in found))
        statt.entry_backward(i, total, q, f_q, memory, before, valid, weights, grads, entry, slope=False)
    d_q, d_f = statt.query_backward(f_q, memory, before, valid, weights, grads)
    assert_near(d_q, wanted[0])
    assert_near(d_f / (f_q * (1 - f_q)), wanted[1])
    for x, y in zip(found, wanted[2:], strict=True):
        assert_near(x, y)
