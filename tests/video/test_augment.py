"""Random plans of augmentation, and rejected input."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from horst.errors import ConfigError, InputError
from horst.video.augment import CHANCES, OPERATIONS, AugmentPlan, RandAugment, apply_plan, zoom


def draw(options: RandAugment, batch: int, seed: int = 0) -> AugmentPlan:
    generator = torch.Generator().manual_seed(seed)
    return options.plan(torch.rand(batch, options.operations, CHANCES, dtype=torch.float64, generator=generator))


def random_clips(*shape: int) -> Tensor:
    return torch.randint(0, 256, shape, dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


def test_plans_are_uniform() -> None:
    plan = draw(RandAugment(operations=3, magnitude=30, magnitude_std=math.inf), 20_000, seed=3)
    assert plan.operation.shape == plan.magnitude.shape == (20_000, 3)
    signed = torch.tensor([o.signed for o in OPERATIONS])[plan.operation]
    negative = plan.magnitude[signed] < 0
    bins = (plan.magnitude.abs() / 3).long().clamp(max=9)
    pairs = plan.operation[:, 0] * 14 + plan.operation[:, 1]  # a clip's operations are independent
    for values, count in ((plan.operation, 14), (bins, 10), (negative.long(), 2), (pairs, 196)):
        expected = values.numel() / count
        chi_square = float(((values.flatten().bincount(minlength=count) - expected) ** 2 / expected).sum())
        freedom = count - 1
        assert chi_square < freedom + 4 * math.sqrt(2 * freedom)
    assert (plan.magnitude[~signed] >= 0).all()


def test_operations_are_drawn_from_those_that_are_chosen() -> None:
    chosen = ("TranslateX", "Rotate", "Brightness")
    plan = draw(RandAugment(operations=2, choose=chosen), 6000)
    names = [OPERATIONS[i].name for i in plan.operation.flatten().tolist()]
    assert set(names) == set(chosen)
    assert all(names.count(name) == pytest.approx(4000, rel=0.1) for name in chosen)


def test_zoom_enlarges_about_the_centre() -> None:
    clips = torch.zeros(3, 2, 3, 8, 12, dtype=torch.uint8)
    clips[..., 3:5, 5:7] = 200  # the centre, a quarter of the height and a sixth of the width
    clips = clips.permute(0, 1, 3, 4, 2).contiguous().permute(0, 1, 4, 2, 3)  # channels last in memory
    found = zoom(clips, torch.tensor([1.0, 2.0, 0.5]))
    assert torch.equal(found[0], clips[0])
    expected = torch.zeros(8, 12, dtype=torch.uint8)
    expected[2:6, 4:8] = 200
    assert (found[1] == expected).all()
    assert (found[2] > 0).sum((-2, -1)).unique().tolist() == [1]  # 2 x 2 pixels at half the size
    assert found.stride() == clips.stride()
    for wrong in ([1.0, 2.0], [1.0, 0.0, 1.0], [1.0, math.nan, 1.0]):
        with pytest.raises(InputError, match="above 0, one for each of 3 clips"):
            zoom(clips, torch.tensor(wrong))


def test_magnitude_is_fixed_or_spread() -> None:
    assert draw(RandAugment(magnitude=9), 500).magnitude.abs().unique().tolist() == [9.0]
    spread = draw(RandAugment(magnitude=9, magnitude_std=2.0), 5000).magnitude.abs()
    assert float(spread.mean()) == pytest.approx(9, abs=0.1)
    assert float(spread.std()) == pytest.approx(2, abs=0.1)
    assert float(draw(RandAugment(magnitude=30, magnitude_std=9.0), 500).magnitude.abs().max()) == 30


def test_clips_of_a_batch_differ() -> None:
    clips = random_clips(1, 2, 3, 16, 16).expand(16, -1, -1, -1, -1)
    out = apply_plan(clips, draw(RandAugment(magnitude=15), 16))
    assert len({bytes(clip.flatten().tolist()) for clip in out}) > 8
    assert torch.equal(apply_plan(clips, draw(RandAugment(operations=0), 16)), clips)


@pytest.mark.parametrize(
    ("clips", "says"),
    [
        (torch.zeros(2, 3, 8, 8), r"\(2, 3, 8, 8\); it must be \(B, T, 3, H, W\)"),
        (torch.zeros(2, 4, 1, 8, 8), r"\(2, 4, 1, 8, 8\)"),
        (torch.zeros(2, 0, 3, 8, 8), r"\(2, 0, 3, 8, 8\).*empty"),
        (torch.zeros(2, 4, 3, 8, 8, dtype=torch.int32), r"\(2, 4, 3, 8, 8\) of int32; they must be uint8"),
    ],
)
def test_bad_clips(clips: Tensor, says: str) -> None:
    with pytest.raises(InputError, match=says):
        apply_plan(clips, draw(RandAugment(), 2))


@pytest.mark.parametrize("lengths", [[0, 2], [2, 4], [2], [1, 1, 1], [1.5, 2], [math.nan, 2], torch.tensor(2)])
def test_bad_lengths(lengths: Any) -> None:
    with pytest.raises(InputError, match=r"lengths (is .* each of the 2 samples|holds .* from 1 to 3)"):
        apply_plan(torch.zeros(2, 3, 3, 8, 8), draw(RandAugment(), 2), lengths)


def plan(operation: Any, magnitude: Any) -> AugmentPlan:
    return AugmentPlan(torch.tensor(operation), torch.tensor(magnitude))


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: plan([[0], [0]], [[0.0, 0.0], [0.0, 0.0]]), r"\(2, 1\) of int64 and magnitudes \(2, 2\)"),
        (lambda: plan([[0.0]], [[0.0]]), r"\(1, 1\) of float32"),
        (lambda: plan([[14]], [[0.0]]), r"operations \[14\]; 0..13"),
        (lambda: plan([[3]], [[31.0]]), "magnitude 31 for Rotate"),
        (lambda: plan([[3]], [[math.nan]]), "magnitude nan for Rotate"),
        (lambda: plan([[6]], [[-1.0]]), "magnitude -1 for Posterize"),
        (lambda: apply_plan(torch.zeros(1, 3, 3, 8, 8), draw(RandAugment(), 2)), r"2 clips; .* \(1, 3, 3, 8, 8\)"),
    ],
)
def test_bad_plans(call: Callable[[], Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        call()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"operations": -1}, "operations is -1"),
        ({"magnitude": 31}, "magnitude is 31"),
        ({"magnitude_std": -1.0}, "magnitude_std is -1"),
        ({"magnitude_std": math.nan}, "magnitude_std is nan"),
        ({"choose": ("Rotated",)}, r"augment.choose has 'Rotated'.*Rotate"),
        ({"choose": ()}, "augment.choose is empty"),
        ({"choose": "Rotate"}, r"it takes a list, such as \[Rotate\]"),
    ],
)
def test_bad_options(options: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        RandAugment(**options)
