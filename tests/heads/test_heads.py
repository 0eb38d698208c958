"""Heads: the appendix's equations, unrolling against a plain loop, and what they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from horst.errors import ConfigError, InputError
from horst.heads import Logits, RecognitionHead, UnrollingHead, VerbNounActionHead, create_head

SIZES = {"num_classes": 7, "num_verbs": 3, "num_nouns": 5}


def maps(frames: int = 14, batch: int = 2, channels: int = 6) -> dict[str, Tensor]:
    torch.manual_seed(0)
    return {name: torch.randn(batch, frames, channels, 3, 4) for name in ("y", "e", "statt")}


def pooled(m: dict[str, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    return tuple(m[name].mean((-2, -1)) for name in ("y", "e", "statt"))  # type: ignore[return-value]


def test_recognition() -> None:
    head, m = RecognitionHead(6, num_classes=4), maps()
    logits = head(y=m["y"])
    torch.testing.assert_close(logits.action, head.fc(pooled(m)[0]))
    assert logits.keys() == ["action"]
    with pytest.raises(KeyError, match="verb"):
        logits["verb"]


def test_verb_noun_action_of_the_paper() -> None:
    head, m = VerbNounActionHead(6, **SIZES), maps()
    y, e, statt = pooled(m)
    logits = head(**m)
    action = head.fc_a(torch.cat([e, y, statt], -1))
    torch.testing.assert_close(logits.action, action)
    torch.testing.assert_close(logits.verb, head.fc_v(statt + head.fc_a2v(action)))
    torch.testing.assert_close(logits.noun, head.fc_n(e + head.fc_a2n(action)))
    assert head.classes == {"action": 7, "verb": 3, "noun": 5}


def unrolled(head: UnrollingHead, m: dict[str, Tensor], t: int, steps: int) -> Tensor:
    """The appendix for one frame, as a loop."""
    y, e, statt = (a[:, t] for a in pooled(m))
    xi_v, xi_n = torch.relu(head.fc_xi_v(e + statt)), torch.relu(head.fc_xi_n(e + statt))
    feat = torch.relu(head.fc_feat(torch.cat([xi_v, xi_n], -1)))
    h, c = head.fc_h(feat), head.fc_c(feat)
    for _ in range(steps):
        h, c = head.lstm(y, (h, c))
    return h


def test_unrolling_is_a_loop_from_every_frame() -> None:
    head, m = UnrollingHead(6, **SIZES), maps()
    logits = head(**m)
    for t in range(14):
        torch.testing.assert_close(logits.action[:, t], head.fc_a(unrolled(head, m, t, 14 - t)))
    assert logits.verb.shape == (2, 14, 3)


@pytest.mark.parametrize("form", ["paper", "released"])
def test_horizons(form: str) -> None:
    """One number for all, one a frame, several a frame, and single frames agree."""
    head, m = UnrollingHead(6, **SIZES, form=form).eval(), maps(frames=3)
    each = head(**m, unroll=[4, 2, 9])
    several = head(**m, unroll=[[4, 1], [2, 2], [9, 12]])
    for task in ("action", "verb", "noun"):
        assert several[task].shape == (2, 3, 2, head.classes[task])
        torch.testing.assert_close(several[task][:, :, 0], each[task])
        torch.testing.assert_close(several[task][:, 1, 0], several[task][:, 1, 1])
        torch.testing.assert_close(head(**m, unroll=4)[task][:, 0], each[task][:, 0])
        for t, steps in enumerate([4, 2, 9]):
            frame = {name: a[:, t] for name, a in m.items()}
            torch.testing.assert_close(head(**frame, unroll=steps)[task], each[task][:, t])
            torch.testing.assert_close(head(**frame, unroll=[steps, 12])[task][:, 0], each[task][:, t])
    for same in (torch.tensor([4, 2, 9]), np.array([4, 2, 9]), [np.int64(4), 2, 9]):
        torch.testing.assert_close(head(**m, unroll=same).action, each.action)


@pytest.mark.parametrize("unroll", [0, -1, 1.5, True, [1, 2], [1, 0, 2], [[1], [1, 2], [1]], [[], [], []], [1, [2], 3]])
def test_bad_unroll(unroll: Any) -> None:
    with pytest.raises(InputError, match="unroll"):
        UnrollingHead(6, **SIZES)(**maps(frames=3), unroll=unroll)


def test_unknown_horizons_raise() -> None:
    head = UnrollingHead(6, **SIZES)
    with pytest.raises(InputError, match="pass unroll"):
        head(**{name: a[:, 0] for name, a in maps().items()})
    with pytest.raises(InputError, match="15 frames and the head unrolls over 14"):
        head(**maps(frames=15))


@pytest.mark.parametrize("form", ["paper", "released"])
@pytest.mark.parametrize("name", ["verb_noun_action", "unrolling"])
def test_every_parameter_is_used(name: str, form: str) -> None:
    head = create_head(name, 6, **SIZES, form=form)
    logits = head(**maps())
    sum(logits[task].square().sum() for task in logits).backward()
    assert all(p.grad is not None and p.grad.any() for p in head.parameters())


def test_heads_by_name() -> None:
    assert isinstance(create_head("recognition", 4, num_classes=2), RecognitionHead)
    with pytest.raises(ConfigError, match="no head 'recognitn', did you mean 'recognition'"):
        create_head("recognitn", 4)
    with pytest.raises(ConfigError, match="no option 'num_class', did you mean 'num_classes'"):
        create_head("recognition", 4, num_class=2)
    with pytest.raises(ConfigError, match="needs the option 'num_classes'"):
        create_head("recognition", 4)
    with pytest.raises(ConfigError, match="takes a whole number"):
        create_head("recognition", 4, num_classes="2")
    with pytest.raises(ConfigError, match=r"'form'.*choose from 'paper', 'released'"):
        create_head("unrolling", 4, **SIZES, form="official")
    with pytest.raises(ConfigError, match="num_classes is 0"):
        create_head("recognition", 4, num_classes=0)


@pytest.mark.parametrize("name", ["recognition", "verb_noun_action", "unrolling"])
def test_maps_of_other_channels(name: str) -> None:
    head = create_head(name, 5, **({"num_classes": 2} if name == "recognition" else SIZES))
    with pytest.raises(InputError, match=r"y has shape \(2, 14, 6, 3, 4\); this head takes \(B, T, 5, H, W\)"):
        head(**{key: m for key, m in maps().items() if key in head.reads})


def test_logits_by_name() -> None:
    a, v = torch.zeros(1), torch.ones(1)
    logits = Logits(a, verb=v)
    assert logits["verb"] is logits.verb is v
    assert {task: logits[task] for task in logits} == {"action": a, "verb": v}


@pytest.mark.parametrize("form", ["paper", "released"])
@pytest.mark.parametrize("kind", [VerbNounActionHead, UnrollingHead])
def test_without_verbs_and_nouns_the_action_is_the_same(kind: Any, form: str) -> None:
    whole, m = kind(6, **SIZES, form=form).eval(), maps(frames=4)
    alone = kind(6, num_classes=SIZES["num_classes"], form=form).eval()
    left_out = {name for name in whole.state_dict() if name not in alone.state_dict()}
    assert {name.partition(".")[0] for name in left_out} == {"fc_v", "fc_n", "fc_a2v", "fc_a2n"}
    alone.load_state_dict(whole.state_dict(), strict=False)
    options = {"unroll": [4, 3, 2, 1]} if kind is UnrollingHead else {}
    torch.testing.assert_close(alone(**m, **options).action, whole(**m, **options).action)
    assert alone(**m, **options).keys() == ["action"]
    assert alone.classes == {"action": 7}
    with pytest.raises(ConfigError, match="give both, or neither"):
        kind(6, num_classes=7, num_verbs=3, form=form)
