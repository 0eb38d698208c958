"""TeSTra: the recursion is the sum over all past frames, in one clip, in chunks, and over a long stream."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from horst.errors import ConfigError
from horst.models.methods.testra import BLOCK, TeSTra, TeSTraConfig, smooth

SMALL: dict[str, Any] = {"in_channels": 5, "hidden": 8, "heads": 2, "context": 3, "tokens": [2, 3]}


def small_testra(**options: Any) -> TeSTra:
    torch.manual_seed(0)
    core = TeSTra(TeSTraConfig.from_dict({**SMALL, **options})).double().eval()
    for parameter in core.parameters():
        nn.init.normal_(parameter, std=0.5)
    return core


def clip(frames: int, batch: int = 2) -> Tensor:
    return torch.randn(batch, frames, 5, 1, 1, dtype=torch.float64)


def direct(scores: Tensor, values: Tensor, rate: float) -> tuple[Tensor, Tensor]:
    """phi / psi (D,) and log psi after the last frame of scores (T,) and values (T, D)."""
    weights = [math.exp(s.item() - rate * (len(scores) - 1 - n)) for n, s in enumerate(scores)]
    psi = sum(weights)
    phi = sum((w * v for w, v in zip(weights, values, strict=True)), torch.zeros_like(values[0]))
    return phi / psi, torch.tensor(math.log(psi), dtype=values.dtype)


@given(
    frames=st.integers(1, 12),
    cut=st.integers(0, 12),
    absent=st.integers(0, 4),
    decay=st.floats(0.05, 1.0),
    seed=st.integers(0, 9),
)
@settings(max_examples=60, deadline=None)
def test_the_recursion_is_the_sum_over_all_past_frames(
    frames: int, cut: int, absent: int, decay: float, seed: int
) -> None:
    """Of a stream whose first `absent` frames do not exist, in two blocks."""
    random, rate = torch.Generator().manual_seed(seed), -math.log(decay)
    scores = 3 * torch.randn(1, 2, 3, frames, generator=random, dtype=torch.float64)
    values = torch.randn(1, 2, frames, 4, generator=random, dtype=torch.float64)
    exists = torch.arange(frames)[None] >= absent
    mean, total = torch.zeros(1, 2, 3, 4, dtype=torch.float64), torch.zeros(1, 2, 3, dtype=torch.float64)
    means, totals = [], []
    for part in (slice(0, min(cut, frames)), slice(min(cut, frames), frames)):
        if part.start == part.stop:
            continue
        given = scores[..., part], values[:, :, part], exists[:, part], mean, total
        found = smooth(*given, torch.tensor([part.start > absent]), rate)
        means.append(found[0])
        totals.append(found[1])
        mean, total = found[0][..., -1, :], found[1][..., -1]
    all_means, all_totals = torch.cat(means, -2), torch.cat(totals, -1)
    for t in range(frames):
        for head in range(2):
            for query in range(3):
                a, log_psi = all_means[0, head, query, t], all_totals[0, head, query, t]
                if t < absent:
                    assert not a.any()
                    assert log_psi == 0
                else:
                    seen = slice(absent, t + 1)
                    wanted = direct(scores[0, head, query, seen], values[0, head, seen], rate)
                    torch.testing.assert_close((a, log_psi), wanted, rtol=1e-9, atol=1e-10)


@torch.no_grad()
def test_stage_1_attends_to_the_frames_that_left_the_short_memory() -> None:
    core, x, decay = small_testra(decay=0.8), clip(9), 0.8
    state = core(x)[1]
    u = core.embed(x.mean((-2, -1)))[:, : 9 - 3]
    attention, q = core.stage1.cross, core.stage1.norm2(core.stage1.before(core.queries))
    query, key, value = (
        layer(y).unflatten(-1, (2, 4)) for layer, y in ((attention.query, q), (attention.key, u), (attention.value, u))
    )
    for b in range(2):
        for head in range(2):
            for m in range(2):
                scores = key[b, :, head] @ query[m, head] / 4**0.5
                wanted = direct(scores, value[b, :, head], -math.log(decay))
                found = state.memory["mean"][b, head, m], state.memory["log_weight"][b, head, m]
                torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize("chunk", [1, 7, BLOCK, BLOCK + 1])
def test_a_stream_in_chunks_is_the_whole_stream(chunk: int) -> None:
    core, x = small_testra(), clip(2 * BLOCK + 9, batch=1)
    with torch.no_grad():
        whole, end = core(x)
        state, parts = core.init_state(1, 1, 1), []
        for part in x.split(chunk, 1):
            out, state = core(part, state)
            parts.append(out.y)
    torch.testing.assert_close(torch.cat(parts, 1), whole.y, rtol=1e-9, atol=1e-10)
    for (name, found), (_, wanted) in zip(state.tensors(), end.tensors(), strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-10, msg=name)


def test_hours_of_stream_in_single_precision() -> None:
    """20,000 frames, over an hour at 5 fps, whose weights overflow or vanish: finite, exact and of constant size."""
    core = small_testra(decay=0.97).float()
    random = torch.Generator().manual_seed(1)
    with torch.no_grad():
        core.stage1.cross.key.bias.mul_(1000)  # scores far from 0, but alike, so that 0.97^1000 outweighs their gaps
        state = core.init_state(1, 1, 1)
        empty = state.nbytes
        for _ in range(20):
            out, state = core(torch.randn(1, 1000, 5, 1, 1, generator=random), state)
            assert torch.isfinite(out.y).all()
            assert state.nbytes == empty
        assert state.memory["log_weight"].abs().min() > 89  # their exponentials are no float32
        # the last frames again, in double precision, from an empty state: older ones weigh 0.97^1000 or less
        random = torch.Generator().manual_seed(1)
        for _ in range(18):
            torch.randn(1, 1000, 5, 1, 1, generator=random)
        late = torch.cat([torch.randn(1, 1000, 5, 1, 1, generator=random) for _ in range(2)], 1)
        again = core.double()(late.double())[1]
    for name in ("mean", "log_weight"):
        torch.testing.assert_close(state.memory[name].double(), again.memory[name], rtol=1e-4, atol=1e-4)


def test_the_first_frame_is_never_forgotten() -> None:
    core, x = small_testra(decay=0.9), clip(40)
    other = x.clone()
    other[:, 0] += 1
    a, b = core(x)[0].y, core(other)[0].y
    gaps = (a - b).abs().amax((0, 2, 3, 4))
    assert (gaps > 0).all()
    assert gaps[-1] < gaps[5] / 2


@pytest.mark.parametrize("wrong", [{"decay": 0.0}, {"decay": 1.1}, {"heads": 3}, {"tokens": [2]}, {"context": 0}])
def test_bad_options(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        small_testra(**wrong)
