"""RandAugment on whole clips is torchvision's on each image; what a clip shares it shares over all its frames."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from horst.errors import ConfigError, InputError
from horst.extras import import_torchvision
from horst.video.augment import MirrorFlip, Plan, RandAugment, apply
from horst.video.augment_ops import OPERATIONS

NAMES = [operation.name for operation in OPERATIONS]
SIGNED = {operation.name for operation in OPERATIONS if operation.signed}
MEASURED = {"AutoContrast", "Equalize", "Contrast"}
WARPS = ("Rotate", "ShearX", "ShearY", "TranslateX", "TranslateY")
EVERY_DRAW = [(n, m * s) for n in NAMES for m in (0, 9, 30) for s in ((1, -1) if n in SIGNED and m else (1,))]


@pytest.fixture(scope="session")
def torchvision() -> ModuleType:
    import_torchvision()
    return importlib.import_module("torchvision.transforms.autoaugment")


def random_clips(*shape: int, seed: int = 0) -> Tensor:
    """Gradients with noise in part of the range, different in each frame and channel."""
    generator = torch.Generator().manual_seed(seed)
    *lead, height, width = shape
    slope = 50 * torch.rand(*lead, 2, 1, 1, generator=generator)
    down, across = torch.linspace(-1, 1, height)[:, None], torch.linspace(-1, 1, width)
    picture = slope[..., 0, :, :] * down + slope[..., 1, :, :] * across
    noise = 20 * torch.rand(*shape, generator=generator)
    offset = 110 + 40 * torch.rand(*lead, 1, 1, generator=generator)
    return (picture + noise + offset).clamp(0, 255).to(torch.uint8)


def plan_of(*rows: Sequence[tuple[str, float]]) -> Plan:
    operation = torch.tensor([[NAMES.index(name) for name, _ in row] for row in rows])
    return Plan(operation, torch.tensor([[float(magnitude) for _, magnitude in row] for row in rows]))


def run(clips: Tensor, name: str, magnitude: float, **options: Any) -> Tensor:
    return apply(clips, plan_of(*[[(name, magnitude)]] * len(clips)), **options)


def reference(
    torchvision: ModuleType, image: Tensor, name: str, magnitude: int, interpolation: str, fill: list[float] | None
) -> Tensor:
    """torchvision's operator at torchvision's own level for this magnitude."""
    table, signed = torchvision.RandAugment()._augmentation_space(31, tuple(image.shape[-2:]))[name]
    assert signed == (name in SIGNED)
    level = float(table[abs(magnitude)]) if table.ndim else 0.0
    mode = torchvision.InterpolationMode(interpolation)
    return torchvision._apply_op(image, name, math.copysign(1, magnitude) * level, mode, fill)


def difference(a: Tensor, b: Tensor) -> float:
    assert a.shape == b.shape
    return float((a.double() - b.double()).abs().max())


# torchvision's operators


@pytest.mark.parametrize("size", [(17, 33), (64, 48), (5, 7), (2, 9), (1, 1), (112, 112)])
@pytest.mark.parametrize(("name", "magnitude"), EVERY_DRAW)
def test_one_frame_equals_torchvision(
    torchvision: ModuleType, name: str, magnitude: int, size: tuple[int, int]
) -> None:
    clips = random_clips(3, 1, 3, *size)
    out = run(clips, name, magnitude)
    # torchvision's float32 mean of a picture depends on the order of its sum; all else is exact
    allowed = 1 if name == "Contrast" else 0
    for clip, image in zip(out, clips, strict=True):
        assert difference(clip[0], reference(torchvision, image[0], name, magnitude, "nearest", None)) <= allowed


@pytest.mark.parametrize("magnitude", range(1, 31))
def test_every_magnitude_equals_torchvision(torchvision: ModuleType, magnitude: int) -> None:
    clips = random_clips(len(NAMES), 1, 3, 31, 44)
    out = apply(clips, plan_of(*[[(name, magnitude)] for name in NAMES]))
    for name, clip, image in zip(NAMES, out, clips, strict=True):
        expected = reference(torchvision, image[0], name, magnitude, "nearest", None)
        assert difference(clip[0], expected) <= (name == "Contrast")


@pytest.mark.parametrize("magnitude", [9, -30])
@pytest.mark.parametrize("name", WARPS)
def test_warps_with_fill_and_bilinear_equal_torchvision(torchvision: ModuleType, name: str, magnitude: int) -> None:
    clips = random_clips(1, 1, 3, 33, 47)
    fill = (124.0, 116.0, 3.0)
    out = run(clips, name, magnitude, fill=fill)[0, 0]
    assert torch.equal(out, reference(torchvision, clips[0, 0], name, magnitude, "nearest", list(fill)))
    out = run(clips, name, magnitude, interpolation="bilinear")[0, 0]
    assert difference(out, reference(torchvision, clips[0, 0], name, magnitude, "bilinear", None)) <= 1
    # With a fill, torchvision weighs a border pixel by its share twice; away from the border there is no difference.
    out = run(clips, name, magnitude, fill=fill, interpolation="bilinear")[0, 0]
    inside = run(torch.full_like(clips, 255), name, magnitude, interpolation="bilinear")[0, 0]
    far = (inside == 0) | (inside == 255)
    expected = reference(torchvision, clips[0, 0], name, magnitude, "bilinear", list(fill))
    assert far.float().mean() > 0.8
    assert difference(out[far], expected[far]) <= 1


@pytest.mark.parametrize("name", NAMES)
def test_extreme_pictures_equal_torchvision(torchvision: ModuleType, name: str) -> None:
    flat = torch.tensor([0, 255, 128], dtype=torch.uint8).view(3, 1, 1).expand(3, 9, 20)
    two = flat.clone()
    two[..., :3] = 7
    full = torch.arange(180, dtype=torch.uint8).view(1, 9, 20) * torch.tensor([[[1]], [[3]], [[0]]], dtype=torch.uint8)
    for image in (flat, two, full):
        expected = reference(torchvision, image, name, 17, "nearest", None)
        assert difference(run(image[None, None], name, 17)[0, 0], expected) <= (name == "Contrast")


# a clip is one thing


@pytest.mark.parametrize(("name", "magnitude"), EVERY_DRAW)
def test_equal_frames_stay_equal(name: str, magnitude: int) -> None:
    frame = random_clips(1, 1, 3, 19, 26)
    out = run(frame.expand(-1, 5, -1, -1, -1), name, magnitude)
    assert torch.equal(out, out[:, :1].expand_as(out))
    if name != "Equalize":  # whose whole step between levels is finer the more pixels it counts
        assert torch.equal(out[:, :1], run(frame, name, magnitude))


@pytest.mark.parametrize("interpolation", ["nearest", "bilinear"])
@pytest.mark.parametrize("name", [name for name in NAMES if name not in MEASURED])
def test_what_measures_nothing_treats_each_frame_alone(name: str, interpolation: str) -> None:
    clips = random_clips(2, 4, 3, 21, 18)
    out = run(clips, name, 13, interpolation=interpolation)
    frames = run(clips.view(8, 1, 3, 21, 18), name, 13, interpolation=interpolation)
    assert torch.equal(out, frames.view_as(out))


@pytest.mark.parametrize("name", sorted(MEASURED))
def test_what_measures_does_so_over_the_clip(torchvision: ModuleType, name: str) -> None:
    """The frames side by side are one picture with the clip's statistics."""
    clip = random_clips(1, 4, 3, 20, 25)
    wide = clip.permute(0, 2, 3, 1, 4).reshape(3, 20, 100)
    expected = reference(torchvision, wide, name, 21, "nearest", None).view(3, 20, 4, 25).permute(2, 0, 1, 3)
    assert difference(run(clip, name, 21)[0], expected) <= (name == "Contrast")


def test_each_clip_gets_its_own_operations_in_order() -> None:
    clips = random_clips(4, 3, 3, 24, 17)
    rows = [
        [("Rotate", -9.0), ("Equalize", 9.0)],
        [("Equalize", 9.0), ("Rotate", -9.0)],
        [("Rotate", 20.0), ("Posterize", 30.0)],
        [("Identity", 9.0), ("Identity", 9.0)],
    ]
    out = apply(clips, plan_of(*rows))
    for clip, row, result in zip(clips, rows, out, strict=True):
        for name, magnitude in row:
            clip = run(clip[None], name, magnitude)[0]
        assert torch.equal(clip, result)
    assert torch.equal(out[3], clips[3])


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
@pytest.mark.parametrize("name", NAMES)
def test_padding_stays_and_is_not_measured(name: str, dtype: torch.dtype) -> None:
    clips = random_clips(3, 5, 3, 15, 22).to(dtype)
    lengths = [5, 2, 1]
    for b, length in enumerate(lengths):
        clips[b, length:] = 255.0 * torch.rand(5 - length, 3, 15, 22, generator=torch.Generator().manual_seed(b))
    before = clips.clone()
    plan = plan_of(*[[(name, 11), (name, 4)]] * 3)
    out = apply(clips, plan, torch.tensor(lengths))
    assert torch.equal(clips, before)
    for b, length in enumerate(lengths):
        alone = apply(clips[b : b + 1, :length], Plan(plan.operation[:1], plan.magnitude[:1]))
        assert torch.equal(out[b, :length], alone[0])
        assert torch.equal(out[b, length:], before[b, length:])
    assert torch.equal(out, apply(clips, plan, lengths))


@pytest.mark.parametrize("interpolation", ["nearest", "bilinear"])
@pytest.mark.parametrize(("name", "magnitude"), EVERY_DRAW)
def test_float_agrees_with_uint8_within_rounding(name: str, magnitude: int, interpolation: str) -> None:
    clips = random_clips(2, 3, 3, 23, 30)
    whole = run(clips, name, magnitude, interpolation=interpolation)
    real = run(clips.float(), name, magnitude, interpolation=interpolation)
    assert real.dtype == torch.float32
    assert whole.dtype == torch.uint8
    assert difference(whole, real) < (0.501 if name in WARPS else 1)  # which round; the others truncate, as torchvision
    assert difference(run(clips.double(), name, magnitude, interpolation=interpolation), real) == 0
    assert float(real.min()) >= 0
    assert float(real.max()) <= 255


def test_half_precision_and_strides_come_back() -> None:
    clips = random_clips(2, 3, 3, 12, 16)
    plan = plan_of([("Color", 9), ("Rotate", 9)], [("Equalize", 9), ("Sharpness", -9)])
    assert apply(clips.bfloat16(), plan).dtype == torch.bfloat16
    last = clips.permute(0, 1, 3, 4, 2).contiguous().permute(0, 1, 4, 2, 3)  # as a decoder gives them
    assert torch.equal(apply(last, plan), apply(clips, plan))


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
