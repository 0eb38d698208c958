"""The operations equal torchvision's on one frame; statistics are those of the whole clip."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Sequence
from types import ModuleType

import numpy as np
import pytest
import torch
from PIL import Image, ImageOps
from torch import Tensor

from horst.extras import import_torchvision
from horst.video.augment import OPERATIONS, AugmentPlan, ClipGroup, _equalizing_table, apply_plan

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


def plan_of(*rows: Sequence[tuple[str, float]]) -> AugmentPlan:
    operation = torch.tensor([[NAMES.index(name) for name, _ in row] for row in rows])
    return AugmentPlan(operation, torch.tensor([[float(magnitude) for _, magnitude in row] for row in rows]))


def run(clips: Tensor, name: str, magnitude: float) -> Tensor:
    return apply_plan(clips, plan_of(*[[(name, magnitude)]] * len(clips)))


def reference(torchvision: ModuleType, image: Tensor, name: str, magnitude: int) -> Tensor:
    """torchvision's operator at torchvision's own level for this magnitude."""
    table, signed = torchvision.RandAugment()._augmentation_space(31, tuple(image.shape[-2:]))[name]
    assert signed == (name in SIGNED)
    level = float(table[abs(magnitude)]) if table.ndim else 0.0
    mode = torchvision.InterpolationMode("nearest")
    return torchvision._apply_op(image, name, math.copysign(1, magnitude) * level, mode, None)


def difference(a: Tensor, b: Tensor) -> float:
    assert a.shape == b.shape
    return float((a.double() - b.double()).abs().max())


def positions(name: str, magnitude: float, height: int, width: int) -> tuple[Tensor, Tensor]:
    """Where an operation reads each pixel, (2, H, W) for x and y, in float64, and what float32 may add to it."""
    level = magnitude / 30
    x, y = torch.arange(width).double() - (width - 1) / 2, (torch.arange(height).double() - (height - 1) / 2)[:, None]
    angle = math.radians(30 * level)
    terms = {
        "Rotate": ((math.cos(angle) * x, -math.sin(angle) * y), (math.sin(angle) * x, math.cos(angle) * y)),
        "ShearX": ((x, 0.3 * level * (y + height / 2)), (y,)),
        "ShearY": ((x,), (y, 0.3 * level * (x + width / 2))),
        "TranslateX": ((x, torch.tensor(-math.trunc(level * 150 / 331 * width + 1e-9 * level))), (y,)),
        "TranslateY": ((x,), (y, torch.tensor(-math.trunc(level * 150 / 331 * height + 1e-9 * level)))),
    }[name]
    zero = torch.zeros(height, width, dtype=torch.float64)
    centre = ((width - 1) / 2, (height - 1) / 2)
    found = [sum(row, zero) + c for row, c in zip(terms, centre, strict=True)]
    # A dozen roundings, each of half a unit of 2**-23 of at most the sum of the terms and of the size.
    sizes = [sum((term.abs() for term in row), zero) + size for row, size in zip(terms, (width, height), strict=True)]
    return torch.stack(found), 12 * 2**-24 * torch.stack(sizes)


def assert_warped(out: Tensor, image: Tensor, name: str, magnitude: float) -> None:
    """Each pixel (3,) of `out` is the nearest one in `image` (3, H, W), black outside.

    At a tie it is either neighbour: which one depends on how the processor rounds. A position is a tie only if it is
    as close to the middle between two pixels as float32 can be wrong.
    """
    height, width = image.shape[-2:]
    at, error = positions(name, magnitude, height, width)
    framed = torch.nn.functional.pad(image, (1, 1, 1, 1))
    limit = torch.tensor([width, height])[:, None, None]
    low, high = (((at + sign * error).round().clamp(min=-1).minimum(limit) + 1).long() for sign in (-1, 1))
    matches = [(framed[:, y, x] == out).all(0) for x in (low[0], high[0]) for y in (low[1], high[1])]
    assert torch.stack(matches).any(0).all()


def assert_same_operation(out: Tensor, expected: Tensor, image: Tensor, name: str, magnitude: float) -> None:
    """`expected` is torchvision's result for the same image."""
    if name in WARPS:
        assert_warped(expected, image, name, magnitude)
        assert_warped(out, image, name, magnitude)
    else:  # torchvision's float32 mean of an image depends on the order of its sum; all else is exact
        assert difference(out, expected) <= (name == "Contrast")


# torchvision's operators


@pytest.mark.parametrize("size", [(17, 33), (64, 48), (2, 9), (1, 1)])
@pytest.mark.parametrize(("name", "magnitude"), EVERY_DRAW)
def test_one_frame_equals_torchvision(
    torchvision: ModuleType, name: str, magnitude: int, size: tuple[int, int]
) -> None:
    clips = random_clips(3, 1, 3, *size)
    out = run(clips, name, magnitude)
    for clip, image in zip(out, clips, strict=True):
        expected = reference(torchvision, image[0], name, magnitude)
        assert_same_operation(clip[0], expected, image[0], name, magnitude)


@pytest.mark.parametrize("magnitude", range(1, 31))
def test_every_magnitude_equals_torchvision(torchvision: ModuleType, magnitude: int) -> None:
    clips = random_clips(len(NAMES), 1, 3, 31, 44)
    out = apply_plan(clips, plan_of(*[[(name, magnitude)] for name in NAMES]))
    for name, clip, image in zip(NAMES, out, clips, strict=True):
        expected = reference(torchvision, image[0], name, magnitude)
        assert_same_operation(clip[0], expected, image[0], name, magnitude)


def test_nearest_pixels_are_told_from_their_neighbours() -> None:
    """The check of warps fails for a shift by a pixel, and allows either neighbour at ties only."""
    image = torch.full((3, 31, 44), 255.0)  # every pixel is another one
    image[0], image[1] = torch.arange(44), torch.arange(31)[:, None]
    for name in WARPS:
        at, error = positions(name, 20, 31, 44)
        assert ((at - at.floor() - 0.5).abs() < error).any() == (name in ("ShearX", "ShearY"))
        out = run(image[None, None], name, 20)[0, 0]
        assert_warped(out, image, name, 20)
        for wrong in (out.roll(1, -1), out.roll(1, -2)):
            with pytest.raises(AssertionError):
                assert_warped(wrong, image, name, 20)


@pytest.mark.parametrize("name", NAMES)
def test_extreme_images_equal_torchvision(torchvision: ModuleType, name: str) -> None:
    flat = torch.tensor([0, 255, 128], dtype=torch.uint8).view(3, 1, 1).expand(3, 9, 20)
    two = flat.clone()
    two[..., :3] = 7
    full = torch.arange(180, dtype=torch.uint8).view(1, 9, 20) * torch.tensor([[[1]], [[3]], [[0]]], dtype=torch.uint8)
    for image in (flat, two, full):
        expected = reference(torchvision, image, name, 17)
        assert_same_operation(run(image[None, None], name, 17)[0, 0], expected, image, name, 17)


# whole clips


@pytest.mark.parametrize(("name", "magnitude"), EVERY_DRAW)
def test_equal_frames_stay_equal(name: str, magnitude: int) -> None:
    frame = random_clips(1, 1, 3, 19, 26)
    out = run(frame.expand(-1, 5, -1, -1, -1), name, magnitude)
    assert torch.equal(out, out[:, :1].expand_as(out))
    if name != "Equalize":  # its integer step between levels is finer the more pixels it counts
        assert torch.equal(out[:, :1], run(frame, name, magnitude))


@pytest.mark.parametrize("name", [name for name in NAMES if name not in MEASURED])
def test_operations_without_statistics_treat_each_frame_alone(name: str) -> None:
    clips = random_clips(2, 4, 3, 21, 18)
    out = run(clips, name, 13)
    assert torch.equal(out, run(clips.view(8, 1, 3, 21, 18), name, 13).view_as(out))


@pytest.mark.parametrize("name", sorted(MEASURED))
def test_statistics_are_those_of_the_clip(torchvision: ModuleType, name: str) -> None:
    """The frames side by side are one image with the statistics of the clip."""
    clip = random_clips(1, 4, 3, 20, 25)
    wide = clip.permute(0, 2, 3, 1, 4).reshape(3, 20, 100)
    expected = reference(torchvision, wide, name, 21).view(3, 20, 4, 25).permute(2, 0, 1, 3)
    assert difference(run(clip, name, 21)[0], expected) <= (name == "Contrast")


def test_each_clip_gets_its_own_operations_in_order() -> None:
    clips = random_clips(4, 3, 3, 24, 17)
    rows = [
        [("Rotate", -9.0), ("Equalize", 9.0)],
        [("Equalize", 9.0), ("Rotate", -9.0)],
        [("Rotate", 20.0), ("Posterize", 30.0)],
        [("Identity", 9.0), ("Identity", 9.0)],
    ]
    out = apply_plan(clips, plan_of(*rows))
    for clip, row, result in zip(clips, rows, out, strict=True):
        for name, magnitude in row:
            clip = run(clip[None], name, magnitude)[0]
        assert torch.equal(clip, result)
    assert torch.equal(out[3], clips[3])


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
@pytest.mark.parametrize("name", NAMES)
def test_padding_is_unchanged_and_enters_no_statistics(name: str, dtype: torch.dtype) -> None:
    clips = random_clips(3, 5, 3, 15, 22).to(dtype)
    lengths = [5, 2, 1]
    for b, length in enumerate(lengths):
        clips[b, length:] = 255.0 * torch.rand(5 - length, 3, 15, 22, generator=torch.Generator().manual_seed(b))
    before = clips.clone()
    plan = plan_of(*[[(name, 11), (name, 4)]] * 3)
    out = apply_plan(clips, plan, torch.tensor(lengths))
    assert torch.equal(clips, before)
    for b, length in enumerate(lengths):
        alone = apply_plan(clips[b : b + 1, :length], AugmentPlan(plan.operation[:1], plan.magnitude[:1]))
        assert torch.equal(out[b, :length], alone[0])
        assert torch.equal(out[b, length:], before[b, length:])
    assert torch.equal(out, apply_plan(clips, plan, lengths))


@pytest.mark.parametrize(("name", "magnitude"), EVERY_DRAW)
def test_float_agrees_with_uint8_within_rounding(name: str, magnitude: int) -> None:
    clips = random_clips(2, 3, 3, 23, 30)
    whole = run(clips, name, magnitude)
    real = run(clips.float(), name, magnitude)
    assert real.dtype == torch.float32
    assert whole.dtype == torch.uint8
    assert difference(whole, real) == 0 if name in WARPS else difference(whole, real) < 1  # uint8 truncates
    assert difference(run(clips.double(), name, magnitude), real) == 0
    assert float(real.min()) >= 0
    assert float(real.max()) <= 255


def test_half_precision_and_strides() -> None:
    clips = random_clips(2, 3, 3, 12, 16)
    plan = plan_of([("Color", 9), ("Rotate", 9)], [("Equalize", 9), ("Sharpness", -9)])
    assert apply_plan(clips.bfloat16(), plan).dtype == torch.bfloat16
    last = clips.permute(0, 1, 3, 4, 2).contiguous().permute(0, 1, 4, 2, 3)  # as decoders return them
    assert torch.equal(apply_plan(last, plan), apply_plan(clips, plan))


def test_levels_of_fractional_magnitudes_are_interpolated() -> None:
    """Linear from start to end, with the sign of the magnitude."""
    magnitude = torch.tensor([-30.0, -1.5, -0.5, 0.0, 0.5, 7.25, 30.0], dtype=torch.float64)
    group = ClipGroup(torch.zeros(7, 1, 3, 1, 1), magnitude, None)
    assert group.level(0.0, 60.0).tolist() == pytest.approx((2 * magnitude).tolist())
    assert group.level(8.0, 5.0).tolist() == pytest.approx([-5.0, -7.85, -7.95, 8.0, 7.95, 7.275, 5.0])


@pytest.mark.parametrize(("brightest", "share"), [(200, 0.5), (255, 0.3), (90, 0.9), (1, 0.5)])
def test_equalization_is_that_of_pillow(brightest: int, share: float) -> None:
    levels = np.random.default_rng(0).integers(0, brightest, 64 * 64)
    levels[: int(share * levels.size)] = brightest
    image = levels.astype(np.uint8).reshape(64, 64)
    table = _equalizing_table(torch.from_numpy(np.bincount(levels, minlength=256))[None])[0].numpy()
    np.testing.assert_array_equal(table[image], np.asarray(ImageOps.equalize(Image.fromarray(image))))
