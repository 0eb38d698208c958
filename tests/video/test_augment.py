"""What is drawn for clips, what a flip does to clip and label, and what is refused."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from horst.errors import ConfigError, InputError
from horst.video.augment import MirrorFlip, Plan, RandAugment, apply
from horst.video.augment_ops import OPERATIONS


def random_clips(*shape: int, seed: int = 0) -> Tensor:
    return torch.randint(0, 256, shape, dtype=torch.uint8, generator=torch.Generator().manual_seed(seed))


# the draw


def test_draws_are_uniform() -> None:
    module = RandAugment(operations=3, magnitude=30, magnitude_std=math.inf)
    plan = module.draw(20_000, torch.Generator().manual_seed(3))
    assert plan.operation.shape == plan.magnitude.shape == (20_000, 3)
    signed = torch.tensor([o.signed for o in OPERATIONS])[plan.operation]
    negative = plan.magnitude[signed] < 0
    bins = (plan.magnitude.abs() / 3).long().clamp(max=9)
    pairs = plan.operation[:, 0] * 14 + plan.operation[:, 1]  # a clip's operations do not depend on each other
    for values, count in ((plan.operation, 14), (bins, 10), (negative.long(), 2), (pairs, 196)):
        expected = values.numel() / count
        chi_square = float(((values.flatten().bincount(minlength=count) - expected) ** 2 / expected).sum())
        freedom = count - 1
        assert chi_square < freedom + 4 * math.sqrt(2 * freedom)
    assert (plan.magnitude[~signed] >= 0).all()


def test_magnitude_is_fixed_or_spread() -> None:
    generator = torch.Generator().manual_seed(0)
    assert RandAugment(magnitude=9).draw(500, generator).magnitude.abs().unique().tolist() == [9.0]
    spread = RandAugment(magnitude=9, magnitude_std=2.0).draw(5000, generator).magnitude.abs()
    assert float(spread.mean()) == pytest.approx(9, abs=0.1)
    assert float(spread.std()) == pytest.approx(2, abs=0.1)
    assert float(RandAugment(magnitude=30, magnitude_std=9.0).draw(500, generator).magnitude.abs().max()) == 30


def test_same_generator_same_clips() -> None:
    clips = random_clips(6, 2, 3, 16, 16)
    module = RandAugment(magnitude_std=1.0, interpolation="bilinear")
    first, again, other = (module(clips, generator=torch.Generator().manual_seed(s)) for s in (5, 5, 6))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    plan = module.draw(6, torch.Generator().manual_seed(5))
    assert torch.equal(first, apply(clips, plan, interpolation="bilinear"))
    torch.manual_seed(5)
    assert torch.equal(first, module(clips))


def test_clips_of_a_batch_differ() -> None:
    clips = random_clips(1, 2, 3, 16, 16).expand(16, -1, -1, -1, -1)
    out = RandAugment(magnitude=15)(clips, generator=torch.Generator().manual_seed(0))
    assert len({bytes(clip.flatten().tolist()) for clip in out}) > 8


def test_evaluation_leaves_clips_alone() -> None:
    clips = random_clips(2, 2, 3, 8, 8)
    assert RandAugment().eval()(clips) is clips
    assert torch.equal(RandAugment(operations=0)(clips), clips)


# flips


@st.composite
def mirrors(draw: st.DrawFn) -> list[int]:
    """Any table that is its own inverse: some labels stay, some change places, some forbid a flip."""
    kinds = draw(st.lists(st.sampled_from(["same", "pair", "never"]), min_size=1, max_size=6))
    table: list[int] = []
    for kind in kinds:
        here = len(table)
        table += {"same": [here], "pair": [here + 1, here], "never": [-1]}[kind]
    order = draw(st.permutations(range(len(table))))
    shuffled = [-1] * len(table)
    for label, other in enumerate(table):
        shuffled[order[label]] = order[other] if other >= 0 else -1
    return shuffled


@settings(max_examples=60, deadline=None)
@given(mirrors(), st.data(), st.sampled_from([torch.uint8, torch.float32]), st.integers(0, 2**31))
def test_flip_mirrors_clip_and_label_together(
    mirror: list[int], data: st.DataObject, dtype: torch.dtype, seed: int
) -> None:
    labels = torch.tensor(data.draw(st.lists(st.integers(0, len(mirror) - 1), min_size=1, max_size=8)))
    clips = random_clips(len(labels), 2, 3, 4, 5, seed=seed).to(dtype)
    before = clips.clone(), labels.clone()
    out, after = MirrorFlip(mirror)(clips, labels, torch.Generator().manual_seed(seed))
    assert (out.dtype, after.dtype) == (dtype, labels.dtype)
    for clip, label, result, new in zip(clips, labels.tolist(), out, after.tolist(), strict=True):
        if torch.equal(result, clip):
            assert new == label
        else:
            assert torch.equal(result, clip.flip(-1))
            assert new == mirror[label] >= 0
    always = MirrorFlip(mirror, probability=1.0)
    twice = always(*always(clips, labels))
    assert torch.equal(twice[0], clips)
    assert torch.equal(twice[1], labels)
    kept = always.eval()(clips, labels)
    assert kept[0] is clips
    assert kept[1] is labels
    assert torch.equal(clips, before[0])
    assert torch.equal(labels, before[1])


def test_half_of_the_clips_flip() -> None:
    clips = torch.arange(2.0).expand(4000, 1, 3, 1, 2)
    labels = torch.arange(4).repeat(1000)
    out, after = MirrorFlip([1, 0, 2, -1])(clips, labels, torch.Generator().manual_seed(0))
    flipped = (out[:, 0, 0, 0, 0] == 1).view(1000, 4).float().mean(0)
    assert flipped.tolist() == [pytest.approx(0.5, abs=0.06)] * 3 + [0.0]
    assert torch.equal(flipped[0], after.view(1000, 4)[:, 0].float().mean())


# what is refused


def mirror_flip(mirror: Any, labels: Sequence[float] = (0, 0)) -> Any:
    return MirrorFlip(mirror)(torch.zeros(2, 1, 3, 4, 4), torch.tensor(labels))


def plan(operation: Any, magnitude: Any) -> Plan:
    return Plan(torch.tensor(operation), torch.tensor(magnitude))


@pytest.mark.parametrize(
    ("clips", "says"),
    [
        (torch.zeros(2, 3, 8, 8), r"\(2, 3, 8, 8\); \(B, T, 3, H, W\)"),
        (torch.zeros(2, 4, 1, 8, 8), r"\(2, 4, 1, 8, 8\)"),
        (torch.zeros(2, 0, 3, 8, 8), r"\(2, 0, 3, 8, 8\).*empty"),
        (torch.zeros(2, 4, 3, 8, 8, dtype=torch.int32), r"\(2, 4, 3, 8, 8\) of int32; uint8"),
    ],
)
def test_bad_clips(clips: Tensor, says: str) -> None:
    two = RandAugment().draw(2)
    flip = MirrorFlip([0])
    for call in (
        RandAugment(),
        RandAugment().eval(),
        lambda x: apply(x, two),
        lambda x: flip(x, torch.zeros(2).long()),
    ):
        with pytest.raises(InputError, match=says):
            call(clips)


@pytest.mark.parametrize("lengths", [[0, 2], [2, 4], [2], [1.5, 2], [math.nan, 2], torch.tensor(2)])
def test_bad_lengths(lengths: Any) -> None:
    with pytest.raises(InputError, match=r"lengths .*\(2, 3, 3, 8, 8\)"):
        RandAugment()(torch.zeros(2, 3, 3, 8, 8), lengths)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: plan([[0], [0]], [[0.0, 0.0], [0.0, 0.0]]), r"\(2, 1\) of int64 and magnitudes \(2, 2\)"),
        (lambda: plan([[0.0]], [[0.0]]), r"\(1, 1\) of float32"),
        (lambda: plan([[14]], [[0.0]]), r"operations \[14\]; 0..13"),
        (lambda: plan([[3]], [[31.0]]), "magnitude 31 for Rotate"),
        (lambda: plan([[3]], [[math.nan]]), "magnitude nan for Rotate"),
        (lambda: plan([[6]], [[-1.0]]), "magnitude -1 for Posterize"),
        (lambda: apply(torch.zeros(1, 3, 3, 8, 8), RandAugment().draw(2)), r"2 clips; .* \(1, 3, 3, 8, 8\)"),
        (lambda: mirror_flip([1, 0], [0]), r"\(1,\) of int64"),
        (lambda: mirror_flip([1, 0], [0.0, 1.0]), r"\(2,\) of float32"),
        (lambda: mirror_flip([1, 0], [0, 2]), "labels hold 2; mirror has 2"),
        (lambda: mirror_flip([1, 0], [0, -1]), "labels hold -1"),
    ],
)
def test_bad_input(call: Callable[[], Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        call()


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: RandAugment(operations=-1), "operations is -1"),
        (lambda: RandAugment(magnitude=31), "magnitude is 31"),
        (lambda: RandAugment(magnitude_std=-1.0), "magnitude_std is -1"),
        (lambda: RandAugment(magnitude_std=math.nan), "magnitude_std is nan"),
        (lambda: RandAugment(fill=(1.0, 2.0)), r"fill is \(1.0, 2.0\)"),  # type: ignore[arg-type]
        (lambda: RandAugment(fill=256), "fill is 256"),
        (lambda: RandAugment(interpolation="bicubic"), "nearest, bilinear"),  # type: ignore[arg-type]
        (lambda: mirror_flip([0, 2]), "maps 1 to 2"),
        (lambda: mirror_flip([-2]), "maps 0 to -2"),
        (lambda: mirror_flip([1, -1]), "maps 0 to 1, but 1 to -1"),
        (lambda: mirror_flip([[0]]), r"\(1, 1\)"),
        (lambda: MirrorFlip([0], probability=1.5), "probability is 1.5"),
    ],
)
def test_bad_options(call: Callable[[], Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        call()
