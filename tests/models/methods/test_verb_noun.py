"""Verbs, nouns and actions that fit together, against probabilities in plain sums and products."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from horst.errors import ConfigError
from horst.models.methods.tsn import NEVER, MarginalHead, PairHead, VerbNounHead

ACTIONS, VERBS, NOUNS, CHANNELS = 7, 3, 4, 5
PAIRS = [[0, 0], [0, 1], [1, 1], [1, 3], [0, 3], [2, 0], [2, 2]]
BOTH = pytest.mark.parametrize("kind", [MarginalHead, VerbNounHead])


def made(kind: type[PairHead], seed: int = 0, **options: Any) -> PairHead:
    torch.manual_seed(seed)
    sizes = {"num_classes": ACTIONS, "num_verbs": VERBS, "num_nouns": NOUNS, "pairs": PAIRS}
    return kind(CHANNELS, **{**sizes, **options}).double()


def maps() -> Tensor:
    return 3 * torch.randn(2, 6, CHANNELS, 2, 3, dtype=torch.float64)


@given(seed=st.integers(0, 99))
@settings(max_examples=10, deadline=None)
def test_a_verb_is_the_sum_of_its_actions(seed: int) -> None:
    logits = made(MarginalHead, seed)(y=maps())
    p, verb, noun = logits.action.softmax(-1), logits["verb"].softmax(-1), logits["noun"].softmax(-1)
    for v in range(VERBS):
        torch.testing.assert_close(verb[..., v], sum(p[..., a] for a in range(ACTIONS) if PAIRS[a][0] == v))
    for n in range(NOUNS):
        torch.testing.assert_close(noun[..., n], sum(p[..., a] for a in range(ACTIONS) if PAIRS[a][1] == n))


@given(seed=st.integers(0, 99))
@settings(max_examples=10, deadline=None)
def test_an_action_is_the_product_of_verb_and_noun(seed: int) -> None:
    logits = made(VerbNounHead, seed)(y=maps())
    verb, noun = logits["verb"].softmax(-1), logits["noun"].softmax(-1)
    for a, (v, n) in enumerate(PAIRS):
        torch.testing.assert_close(logits.action[..., a].exp(), verb[..., v] * noun[..., n])


def test_cross_entropy_of_the_verbs_is_marginal_cross_entropy() -> None:
    logits = made(MarginalHead)(y=maps())
    verb, noun = torch.randint(VERBS, (2, 6)), torch.randint(NOUNS, (2, 6))
    for column, (task, label) in enumerate({"verb": verb, "noun": noun}.items()):
        has_label = torch.tensor(PAIRS)[:, column] == label[..., None]  # (2, 6, actions)
        expected = -torch.where(has_label, logits.action.softmax(-1), 0.0).sum(-1).log()
        found = F.cross_entropy(logits[task].mT, label, reduction="none")
        torch.testing.assert_close(found, expected.clamp_max(-NEVER))


@BOTH
def test_it_learns(kind: type[PairHead]) -> None:
    """Every weight from verbs and nouns alone; the pairs are in the config and not among the weights."""
    head = made(kind, norm="batch", dropout=0.5)
    assert not [name for name in head.state_dict() if "pairs" in name]
    assert (head.channels, head.classes) == (CHANNELS, {"action": ACTIONS, "verb": VERBS, "noun": NOUNS})
    logits = head(y=maps(), valid=torch.ones(2, 6, dtype=torch.bool))
    (logits["verb"].cos().sum() + logits["noun"].cos().sum()).backward()
    assert all(p.grad is not None and p.grad.any() for p in head.parameters())


@BOTH
def test_a_step_equals_a_clip(kind: type[PairHead]) -> None:
    head, y = made(kind, norm="batch").eval(), maps()
    whole, step = head(y=y), head(y=y[:, 2])
    for task in ("action", "verb", "noun"):
        torch.testing.assert_close(whole[task][:, 2], step[task])


@BOTH
def test_without_verbs_and_nouns_it_is_one_linear_layer(kind: type[PairHead]) -> None:
    head = made(kind, num_verbs=None, num_nouns=None, pairs=())
    assert head.classes == {"action": ACTIONS}
    y = maps()
    logits = head(y=y)
    assert list(logits) == ["action"]
    torch.testing.assert_close(logits.action, head.fc["action"](y.mean((-2, -1))))


@BOTH
@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"pairs": ()}, "0 entries and there are 7 actions"),
        ({"num_verbs": None}, "give both, or neither"),
        ({"num_nouns": None}, "give both, or neither"),
        ({"num_verbs": None, "num_nouns": None}, "pairs is given without num_verbs and num_nouns"),
    ],
)
def test_verb_and_noun_of_an_action_must_be_given(kind: type[PairHead], given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        made(kind, **given)


@BOTH
@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        (PAIRS[:-1], "6 entries and there are 7 actions"),
        ([*PAIRS[:-1], [3, 0]], r"pairs\[6\] has the verb 3; there are 0 to 2"),
        ([[0, -1], *PAIRS[1:]], r"pairs\[0\] has the noun -1"),
        ([[0, 1.0], *PAIRS[1:]], "noun 1.0"),
        ([[0, 1, 2], *PAIRS[1:]], r"takes \[verb, noun\]"),
        ([3, *PAIRS[1:]], r"pairs\[0\] is 3"),
        (5, "pairs is 5"),
    ],
)
def test_bad_pairs(kind: type[PairHead], pairs: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        made(kind, pairs=pairs)


@BOTH
@pytest.mark.parametrize("wrong", [{"num_verbs": 0}, {"num_nouns": 0}, {"num_classes": 0}, {"dropout": 1.0}])
def test_bad_sizes(kind: type[PairHead], wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        made(kind, **wrong)
