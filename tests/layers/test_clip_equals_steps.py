"""Whole clip == single steps == prefix, then steps: outputs, attention, final state and every gradient."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest
import torch
from cases import CASES, random_clip, small_core
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from horst.layers import HORST, CoreOutput, HORSTState, LayerState


def flat(out: CoreOutput) -> list[Tensor]:
    return [out.y, *out.e, *out.statt, *(out.spatial or ()), *(out.temporal or ())]


def tensors(state: HORSTState) -> list[Tensor]:
    return [getattr(layer, f.name) for layer in state.layers for f in fields(LayerState)]


def fold(core: HORST, x: Tensor, state: HORSTState) -> tuple[list[Tensor], HORSTState]:
    """Single steps over a clip."""
    outputs = []
    for frame in x.unbind(1):
        out, state = core.step(frame, state, attention=True)
        outputs.append(flat(out))
    return [torch.stack(column, 1) for column in zip(*outputs, strict=True)], state


def run(core: HORST, x: Tensor, prefix: int | None) -> tuple[list[Tensor], HORSTState]:
    """The clip whole (prefix None), in steps (0), or its first `prefix` frames and then steps."""
    if prefix is None:
        out, state = core(x, attention=True)
        return flat(out), state
    if prefix == 0:
        return fold(core, x, core.init_state(x.shape[0], *x.shape[-2:]))
    out, state = core(x[:, :prefix], attention=True)
    outputs = flat(out)
    if prefix < x.shape[1]:
        rest, state = fold(core, x[:, prefix:], state)
        outputs = [torch.cat(pair, 1) for pair in zip(outputs, rest, strict=True)]
    return outputs, state


def with_gradients(core: HORST, x: Tensor, prefix: int | None) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
    x = x.clone().requires_grad_()
    outputs, state = run(core, x, prefix)
    kept = tensors(state)
    parts = [*outputs, *(s for s in kept if s.is_floating_point())]
    loss = sum((p * torch.arange(p.numel()).view_as(p).cos()).sum() for p in parts)
    grads = torch.autograd.grad(loss, [x, *core.parameters()])
    return outputs, kept, list(grads)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(("order", "frames"), [(3, 7), (3, 2), (3, 1), (1, 4)])
def test_whole_clip_equals_steps_equals_prefix_then_steps(case: str, order: int, frames: int) -> None:
    core = small_core(case, order=order)
    x = random_clip(2, frames)
    wanted = with_gradients(core, x, None)
    for prefix in {0, 1, frames // 2, frames}:
        found = with_gradients(core, x, prefix)
        torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-10)


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_any_cut_of_any_clip(data: st.DataObject) -> None:
    """Clips cut into any pieces, with a state of any age, at any size."""
    order, frames = data.draw(st.integers(1, 4)), data.draw(st.integers(2, 9))
    core = small_core(data.draw(st.sampled_from(sorted(CASES))), order=order)
    x = random_clip(data.draw(st.integers(1, 3)), frames, data.draw(st.integers(2, 6)), data.draw(st.integers(2, 6)))
    wanted, wanted_state = run(core, x, None)
    state, pieces, start = None, [], 0
    while start < frames:
        end = data.draw(st.integers(start + 1, frames))
        out, state = core(x[:, start:end], state, attention=True)
        pieces.append(flat(out))
        start = end
    torch.testing.assert_close([torch.cat(c, 1) for c in zip(*pieces, strict=True)], wanted, rtol=1e-9, atol=1e-10)
    torch.testing.assert_close(tensors(state), tensors(wanted_state), rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("case", CASES)
def test_lengths_equal_separate_clips(case: str) -> None:
    """A sample of a padded batch is what it would be alone: outputs, state and gradients; the padding may be NaN."""
    core = small_core(case)
    x = random_clip(3, 6)
    lengths = [6, 4, 1]
    padded = x.clone()
    for b, length in enumerate(lengths):
        padded[b, length:] = float("nan")
    padded.requires_grad_()
    out, state = core(padded, lengths=torch.tensor(lengths), attention=True)
    parameters = list(core.parameters())
    batch_grads = torch.autograd.grad(sum(p.square().sum() for p in flat(out)), [padded, *parameters])
    alone_grads: list[Any] = []
    for b, length in enumerate(lengths):
        clip = x[b : b + 1, :length].clone().requires_grad_()
        alone, after = core(clip, attention=True)
        for batched, single in zip(flat(out), flat(alone), strict=True):
            torch.testing.assert_close(batched[b : b + 1, :length], single)
            assert not batched[b, length:].any()
        torch.testing.assert_close([t[b : b + 1] for t in tensors(state)], tensors(after))
        loss = sum(p.square().sum() for p in flat(alone))
        # a clip of one frame never reads the keys and values that it stores
        alone_grads.append(torch.autograd.grad(loss, [clip, *parameters], materialize_grads=True))
        torch.testing.assert_close(batch_grads[0][b : b + 1, :length], alone_grads[-1][0])
        assert not batch_grads[0][b, length:].any()
    for i in range(len(parameters)):
        torch.testing.assert_close(batch_grads[i + 1], sum(g[i + 1] for g in alone_grads))


def test_attention_is_aligned_to_the_frames_it_looks_at() -> None:
    """Entry j of the S at time t looks at frame t - S + j: changing what that frame stored changes that entry alone."""
    core = small_core("temporal only", order=4)
    x = random_clip(1, 7)
    out, _ = core(x, attention=True)
    assert out.temporal is not None
    assert out.spatial is not None
    for t in range(7):
        there = max(1, min(t, 4))  # at t = 0 the all-zero state alone
        weights = out.temporal[0][0, t]
        assert (weights > 0).tolist() == [False] * (4 - there) + [True] * there
        assert (out.spatial[0][0, t].flatten(1).amax(1) > 0).tolist() == (weights > 0).tolist()
    state = core.init_state(1, 7, 5)
    for t in range(6):
        _, state = core.step(x[:, t], state)
    baseline, _ = core.step(x[:, 6], state, attention=True)
    for frame in (2, 3, 4, 5):
        keys = state.layers[0].keys.clone()
        keys[:, frame % 4] *= -3  # the entry of frame n lies in slot n % S
        layer = LayerState(keys, state.layers[0].filters, state.layers[0].values, state.layers[0].count)
        changed, _ = core.step(x[:, 6], HORSTState((layer, *state.layers[1:]), core.config), attention=True)
        moved = (changed.temporal[0] / baseline.temporal[0]).log()[0]  # softmax: the others keep their proportions
        others = [j for j in range(4) if j != frame - 2]
        torch.testing.assert_close(moved[others], moved[others[0]].expand(3))
        assert abs(moved[frame - 2] - moved[others[0]]) > 1e-3
