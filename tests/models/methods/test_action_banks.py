"""ActionBanks: snippets against a plain loop, its blocks against their equations, and its size."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from horst.errors import ConfigError
from horst.models.methods.action_banks import (
    ActionBanks,
    ActionBanksConfig,
    CouplingBlock,
    NonLocalBlock,
    TemporalAggregate,
    snippets,
)

SMALL = {"in_channels": 5, "memory": 6, "spanning": [2, 3], "recent": [1, 2, 4], "hidden": 4}


def banks(**options: object) -> ActionBanks:
    torch.manual_seed(0)
    return awake(ActionBanks(ActionBanksConfig.from_dict({**SMALL, **options})))


def awake(module: nn.Module) -> nn.Module:
    """In double precision, with weights so large that every part of it counts."""
    for parameter in module.double().eval().parameters():
        nn.init.normal_(parameter, std=0.7)
    return module


@given(age=st.integers(1, 9), span=st.integers(1, 9), parts=st.integers(1, 6))
@settings(max_examples=60, deadline=None)
def test_snippets_are_maxima_of_their_frames(age: int, span: int, parts: int) -> None:
    window = torch.randn(9, 3, dtype=torch.float64)
    found = snippets(window, torch.tensor(age), span, parts)
    frames = window[9 - min(age, span) :]  # those that were seen
    for k in range(parts):
        first = math.floor(k * len(frames) / parts)
        after = max(math.floor((k + 1) * len(frames) / parts), first + 1)
        torch.testing.assert_close(found[:, k], frames[first:after].max(0).values)


def test_snippets_cover_all_frames_once() -> None:
    """Where there are as many frames as snippets or more, the snippets are a division of the span."""
    for frames in range(3, 9):
        window = torch.eye(9)
        held = snippets(window, torch.tensor(frames), 9, 3).sum(-1)
        assert held.tolist() == [0] * (9 - frames) + [1] * frames


def test_streams_of_any_age_are_pooled_at_once() -> None:
    window, age = torch.randn(2, 4, 7, 3), torch.randint(1, 8, (2, 4))
    found = snippets(window, age, 5, 3)
    for b in range(2):
        for t in range(4):
            assert torch.equal(found[b, t], snippets(window[b, t], age[b, t], 5, 3))


def non_local(block: NonLocalBlock, a: Tensor, b: Tensor) -> Tensor:
    """Of one A (K_A, D) and one B (K_B, D), snippets first, as in the paper."""
    queries, keys, values = (
        layer.weight @ x + layer.bias[:, None] for layer, x in ((block.theta, b), (block.phi, a), (block.g, a))
    )  # (d, D)
    hidden, features = queries.shape
    likeness = torch.stack([(queries[:, [i]] * keys).sum(0) for i in range(features)]) / hidden**0.5
    weights = likeness.exp() / likeness.exp().sum(1, keepdim=True)  # (D, D)
    t = values @ weights.T
    t = (t - t.mean()) / (t.var(correction=0) + 1e-5).sqrt() * block.norm.weight.T + block.norm.bias.T
    return b + block.out.weight @ torch.relu(t) + block.out.bias[:, None]


def mlp(layers: nn.Sequential, x: Tensor) -> Tensor:
    """x (K, D)"""
    first, _, _, second = layers
    return second.weight @ torch.relu(first.weight @ x.T.flatten() + first.bias) + second.bias


def coupling(block: CouplingBlock, s: Tensor, r: Tensor) -> tuple[Tensor, Tensor]:
    past = torch.relu(non_local(block.past, s, s))
    informed = torch.relu(non_local(block.recent, past, r))
    return mlp(block.mlp_r, torch.cat([informed, r])), mlp(block.mlp_s, torch.cat([past, informed, r]))


def test_the_non_local_block() -> None:
    block = awake(NonLocalBlock(5, 3, 2, 4, 0.3))
    a, b = torch.randn(2, 5, 3, dtype=torch.float64), torch.randn(2, 5, 2, dtype=torch.float64)
    found = block(a, b)
    for i in range(2):
        torch.testing.assert_close(found[i].T, non_local(block, a[i].T, b[i].T))


def test_coupling_and_aggregate() -> None:
    config = ActionBanksConfig.from_dict(SMALL)
    block = awake(TemporalAggregate(config))
    pasts = [torch.randn(1, 5, k, dtype=torch.float64) for k in config.spanning]
    recent = torch.randn(1, 5, config.recent_snippets, dtype=torch.float64)
    r, s = zip(*(coupling(c, p[0].T, recent[0].T) for c, p in zip(block.couplings, pasts, strict=True)), strict=True)
    joined = block.join.weight @ torch.cat(r) + block.join.bias
    torch.testing.assert_close(block(pasts, recent)[0], torch.cat([joined, torch.maximum(*s)]))


def test_it_reads_the_configured_spans() -> None:
    core, x = banks(), torch.randn(1, 9, 5, 1, 1, dtype=torch.float64)
    y = core(x)[0].y.flatten(2)[0]
    for t in (0, 2, 8):
        seen = x[0, max(0, t - 5) : t + 1, :, 0, 0]
        age = torch.tensor(len(seen))
        pasts = [snippets(seen, age, 6, k) for k in (2, 3)]
        expected = [a(pasts, snippets(seen, age, n, 2)) for a, n in zip(core.aggregates, (1, 2, 4), strict=True)]
        torch.testing.assert_close(y[t], torch.cat(expected))


def test_later_and_forgotten_frames_have_no_influence() -> None:
    core, x = banks(), torch.randn(1, 9, 5, 2, 3, dtype=torch.float64)
    other = x.clone()
    other[:, [0, 1, 8]] += 1
    a, b = core(x)[0].y, core(other)[0].y
    assert torch.equal(a[:, 7], b[:, 7])  # it reads frames 2 to 7
    assert not torch.equal(a[:, 6], b[:, 6])
    assert not torch.equal(a[:, 8], b[:, 8])


def test_as_many_parameters_as_the_authors_network() -> None:
    """Their code for features of 1024, with its classifiers of actions, verbs and nouns, has 118,376,184 parameters."""
    with torch.device("meta"):
        core = ActionBanks(ActionBanksConfig(in_channels=1024))
    classes = 2513 + 125 + 352
    classifiers = (core.channels + len(core.config.recent)) * classes
    assert sum(p.numel() for p in core.parameters()) + classifiers == 118_376_184


@pytest.mark.parametrize(
    "wrong", [{"memory": 3}, {"recent": []}, {"spanning": [0]}, {"hidden": 0}, {"dropout": 1.0}, {"recent_snippets": 0}]
)
def test_bad_options(wrong: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        banks(**wrong)
