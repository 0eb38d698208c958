"""State: the ring against a plain queue, streams that share a model, streams that share a batch, constant memory."""

from __future__ import annotations

import gc
from dataclasses import FrozenInstanceError, fields
from pathlib import Path

import pytest
import torch
from cases import random_clip, small_core
from hypothesis import given, settings
from hypothesis import strategies as st

from horst.layers import HORST, HORSTState, LayerState
from horst.layers.state import Entry


@settings(max_examples=60, deadline=None)
@given(order=st.integers(1, 5), pushes=st.integers(0, 12))
def test_ring_is_a_queue(order: int, pushes: int) -> None:
    def entry(value: float) -> Entry:
        return Entry(*(torch.full(shape, value) for shape in ((1, 2, 1, 1), (1, 1, 1), (1, 2, 1, 1))))

    state, queue = LayerState.start(entry(-1.0), 1, order), [-1.0]
    for n in range(pushes):
        state = state.push(entry(float(n)))
        queue = ([] if n == 0 else queue) + [float(n)]  # the zero state goes when the first real one comes
        queue = queue[-order:]
    assert state.count.tolist() == [pushes]
    ordered = state.chronological()
    there = state.valid.gather(1, state.oldest_first)[0]
    assert there.tolist() == [False] * (order - len(queue)) + [True] * len(queue)
    for tensor in (ordered.keys, ordered.filters, ordered.values):
        assert tensor[0].flatten(1)[:, 0][there].tolist() == queue


def test_a_step_does_not_change_its_state() -> None:
    core = small_core("released")
    x = random_clip(1, 2)
    _, state = core(x)
    before = state.map(torch.clone)
    core.step(x[:, 0], state)
    core(x, state)
    for old, new in zip(before.layers, state.layers, strict=True):
        for f in fields(LayerState):
            assert torch.equal(getattr(old, f.name), getattr(new, f.name))
    with pytest.raises(FrozenInstanceError):
        state.layers = ()  # type: ignore[misc]


def test_interleaved_streams_are_independent() -> None:
    core = small_core("paper")
    a, b = random_clip(1, 8, seed=1), random_clip(1, 8, seed=2)
    alone = [core(x)[0].y for x in (a, b)]
    states = [core.init_state(1, 7, 5) for _ in range(2)]
    found: list[list[torch.Tensor]] = [[], []]
    for t in range(8):
        for i, x in enumerate((a, b)):
            out, states[i] = core.step(x[:, t], states[i])
            found[i].append(out.y)
    for ys, wanted in zip(found, alone, strict=True):
        torch.testing.assert_close(torch.stack(ys, 1), wanted)


def test_streams_of_different_age_share_a_batch() -> None:
    """One stream has seen 5 frames, one 1, one none: stepped together and as a clip, each is what it is alone."""
    core = small_core("position encoding", order=3)
    ages, more = (5, 1, 0), 4
    clips = [random_clip(1, age + more, seed=age) for age in ages]
    states = [core(c[:, :age])[1] if age else core.init_state(1, 7, 5) for c, age in zip(clips, ages, strict=True)]
    together = HORSTState(
        tuple(
            LayerState(*(torch.cat([getattr(layer, f.name) for layer in layers]) for f in fields(LayerState)))
            for layers in zip(*(s.layers for s in states), strict=True)
        ),
        core.config,
    )
    x = torch.cat([c[:, age:] for c, age in zip(clips, ages, strict=True)])
    wanted = torch.cat([core(c)[0].y[:, age:] for c, age in zip(clips, ages, strict=True)])
    out, after_clip = core(x, together)
    torch.testing.assert_close(out.y, wanted)
    state, ys = together, []
    for t in range(more):
        step, state = core.step(x[:, t], state)
        ys.append(step.y)
    torch.testing.assert_close(torch.stack(ys, 1), wanted)
    assert state.layers[0].count.tolist() == after_clip.layers[0].count.tolist() == [9, 5, 4]


@pytest.mark.parametrize("inside", [True, False])
def test_a_state_keeps_its_dtype_under_autocast(inside: bool) -> None:
    """However a stream began: a step's shapes and dtypes never change."""
    core = HORST(in_channels=3, hidden=(4, 6), order=2)
    x = torch.randn(1, 3, 3, 8, 8)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=inside):
        started = core.init_state(1, 8, 8)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        _, stepped = core.step(x[:, 0], started)
        _, clip = core(x)
        _, continued = core(x, stepped)
    for state in (started, stepped, clip, continued):
        assert {t.dtype for layer in state.layers for t in (layer.keys, layer.filters, layer.values)} == {torch.float32}
    core.step(x[:, 0], clip)  # it goes on without autocast


def test_detach() -> None:
    core = small_core("paper")
    _, state = core(random_clip(1, 3))
    assert state.layers[0].keys.requires_grad
    assert not state.detach().layers[0].keys.requires_grad


def test_memory_of_a_stream_is_constant() -> None:
    """Over 1,500 steps neither the state nor the process grows."""

    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

    core = HORST(in_channels=8, hidden=(8,), stride=(2,), order=8, variant="released").eval()
    with torch.inference_mode():
        x, state = torch.randn(1, 8, 16, 16), core.init_state(1, 16, 16)
        size = state.nbytes
        for step in range(1_500):
            if step == 300:
                gc.collect()
                start = resident()
            _, state = core.step(x, state)
        gc.collect()
        grown = resident() - start
    assert state.nbytes == size
    assert state.layers[0].count.item() == 1_500
    assert grown < 2**19, f"{grown} bytes in 1,200 steps"
