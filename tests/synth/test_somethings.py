"""`somethings`: plans, clips, and that only the motion reveals the class."""

from __future__ import annotations

import time
from collections import Counter

import numpy as np
import pytest

from horst.synth.somethings import FPS, LABELS, MIRROR, TEMPLATES, ClipSpec, plan, render
from horst.synth.somethings.scene import FRAMES, sample_scene

FRACTIONS = [i / 8 for i in range(9)]
# distinguished by coarse motion: a linear classifier can learn them from a few dozen clips each
CLEAR = (
    "Moving [something] closer",
    "Moving [something] down",
    "Pushing [something] from left to right",
    "Rolling [something] to the left",
    "Turning [something] clockwise",
    "Swapping [something] and [something]",
)


def rendered(specs: list[ClipSpec], fractions: list[float]) -> np.ndarray:
    """Frames of each clip (N, T, 32, 32, 3)."""
    return np.stack([render(spec, size=32, fractions=fractions) for spec in specs]).astype(np.float32) / 255


def by_template() -> dict[str, ClipSpec]:
    return {spec.template: spec for spec in plan(len(TEMPLATES), 5)}


def test_templates_and_labels_belong_together() -> None:
    assert len(TEMPLATES) >= 16
    assert [LABELS[template] for template in TEMPLATES] == list(range(len(TEMPLATES)))
    assert all("[something]" in template for template in TEMPLATES)


def test_the_mirror_is_an_involution_that_swaps_the_sides() -> None:
    assert set(MIRROR) == set(TEMPLATES)
    assert all(MIRROR[MIRROR[template]] == template for template in TEMPLATES)
    for template, other in MIRROR.items():
        sided = any(word in template.split() for word in ("left", "right", "clockwise", "counterclockwise"))
        assert (template != other) == sided


def test_plans_are_reproducible() -> None:
    assert plan(60, 1) == plan(60, 1)
    assert [spec.seed for spec in plan(60, 1)] != [spec.seed for spec in plan(60, 2)]


@pytest.mark.parametrize("val_fraction", [0.0, 0.2, 0.5])
def test_a_smaller_plan_is_a_prefix_of_a_larger_one(val_fraction: float) -> None:
    large = plan(150, 9, val_fraction=val_fraction)
    for clips in (0, 1, 24, 77):
        assert plan(clips, 9, val_fraction=val_fraction) == large[:clips]


def test_classes_are_balanced_in_both_splits() -> None:
    specs = plan(20 * len(TEMPLATES), 4, val_fraction=0.2)
    assert set(Counter(spec.template for spec in specs).values()) == {20}
    assert set(Counter(spec.template for spec in specs if spec.split == "val").values()) == {4}


def test_entries_have_the_form_of_ssv2() -> None:
    specs = plan(200, 0)
    assert len({spec.id for spec in specs}) == len({spec.seed for spec in specs}) == 200
    for spec in specs:
        assert spec.id.isdigit()
        assert spec.split in ("train", "val")
        assert spec.template.count("[something]") == len(spec.placeholders)
        assert "[" not in spec.label
        assert all(name in spec.label for name in spec.placeholders)


def test_a_subset_of_the_templates() -> None:
    chosen = ["Dropping [something]", "Picking [something] up"]
    assert Counter(spec.template for spec in plan(10, 0, templates=chosen)) == dict.fromkeys(chosen, 5)
    with pytest.raises(ValueError, match="Juggling"):
        plan(1, 0, templates=["Juggling [something]"])
    with pytest.raises(ValueError, match="val_fraction"):
        plan(1, 0, val_fraction=1.5)


@pytest.mark.parametrize("template", TEMPLATES)
def test_every_template_renders_and_something_moves(template: str) -> None:
    spec = by_template()[template]
    clip = render(spec, size=32)
    assert clip.dtype == np.uint8
    assert clip.shape[1:] == (32, 32, 3)
    assert FRAMES[0] <= len(clip) <= FRAMES[1]
    assert 1.5 < len(clip) / FPS < 4.0
    assert clip.max() > 120
    assert clip.min() < 80
    moved = np.abs(np.diff(clip.astype(np.float32), axis=0)).mean(axis=-1)
    assert (moved > 25).any(axis=(1, 2)).mean() > 0.15


def test_rendering_is_reproducible_and_clips_differ() -> None:
    specs = plan(12, 8)
    firsts = [render(spec, size=32, fractions=[0.0])[0] for spec in specs]
    assert len({frame.tobytes() for frame in firsts}) == len(specs)
    assert (render(specs[0], size=40) == render(specs[0], size=40)).all()


def test_a_single_frame_equals_the_frame_in_the_clip() -> None:
    spec = plan(1, 2)[0]
    clip = render(spec, size=32)
    assert (render(spec, size=32, fractions=[1.0, 0.0]) == clip[[-1, 0]]).all()


def test_sizes_need_not_be_square() -> None:
    spec = plan(1, 2)[0]
    assert render(spec, size=(40, 64), fractions=[0.5]).shape == (1, 40, 64, 3)
    assert render(spec, size=(65, 33), fractions=[0.5]).shape == (1, 65, 33, 3)
    with pytest.raises(ValueError, match="size=8"):
        render(spec, size=8)


def test_the_first_frame_does_not_depend_on_the_template() -> None:
    seed = plan(1, 6)[0].seed
    frames = {}
    for template in TEMPLATES:
        spec = ClipSpec("1", "train", template, (), "", seed)
        frames[template] = render(spec, size=48, fractions=[0.0])
        # the object under the cover is there from the start, but hidden
        apart = np.abs(frames[template].astype(int) - frames[TEMPLATES[0]].astype(int)).max()
        assert apart <= (0 if not template.startswith("Uncovering") else 60), template
    assert sample_scene(seed) == sample_scene(seed)


def test_rendering_is_fast() -> None:
    specs = plan(4, 0)
    start = time.process_time()
    frames = sum(len(render(spec)) for spec in specs)
    assert (time.process_time() - start) / frames < 0.05


def ridge_accuracy(features: np.ndarray, classes: np.ndarray, penalty: float) -> float:
    """Five-fold accuracy of a linear classifier, by ridge regression in its dual form."""
    features = (features - features.mean(axis=0)) / (features.std(axis=0) + 1e-6)
    names, classes = np.unique(classes, return_inverse=True)
    targets = np.eye(len(names))[classes] - 1 / len(names)
    # each block holds every class once, so folds of whole blocks are balanced
    fold = np.arange(len(classes)) // len(names) % 5
    hits = 0
    for k in range(5):
        seen, held = features[fold != k], features[fold == k]
        weights = np.linalg.solve(seen @ seen.T + penalty * np.eye(len(seen)), targets[fold != k])
        hits += int(((held @ (seen.T @ weights)).argmax(axis=1) == classes[fold == k]).sum())
    return hits / len(classes)


def classes_of(specs: list[ClipSpec]) -> np.ndarray:
    return np.asarray([LABELS[spec.template] for spec in specs])


def thumbnails(frames: np.ndarray) -> np.ndarray:
    """Frames (N, 32, 32, 3) at 16x16."""
    return frames.reshape(-1, 16, 2, 16, 2, 3).mean(axis=(2, 4)).reshape(len(frames), -1)


def motion(frames: np.ndarray) -> np.ndarray:
    """Where and how much clips (N, T, 32, 32, 3) change from frame to frame, and the centre of the change."""
    change = np.diff(frames.mean(axis=-1), axis=1)
    change -= np.median(change, axis=(2, 3), keepdims=True)
    energy = np.maximum(np.abs(change) - 0.06, 0.0)
    y, x = np.mgrid[0:1:32j, 0:1:32j]
    total = energy.sum(axis=(2, 3)) + 1e-3
    middle = [(energy * axis).sum(axis=(2, 3)) / total for axis in (x, y)]
    coarse = np.sqrt(energy.reshape(*energy.shape[:2], 8, 4, 8, 4).mean(axis=(3, 5)))
    steps = [np.diff(m, axis=1) for m in middle]
    return np.concatenate([np.log(total), *middle, *steps, coarse.reshape(len(frames), -1)], axis=1)


def test_the_first_frame_does_not_reveal_the_class() -> None:
    specs = plan(12 * len(TEMPLATES), 3)
    frames = rendered(specs, [0.0])[:, 0]
    features, classes = thumbnails(frames), classes_of(specs)
    accuracies = [ridge_accuracy(features, classes, penalty) for penalty in (100.0, 1000.0, 10000.0)]
    assert max(accuracies) < 2 / len(TEMPLATES)


def test_the_length_does_not_reveal_the_class() -> None:
    specs = plan(600, 3)
    lengths = np.asarray([[sample_scene(spec.seed).frames] for spec in specs], float)
    features = np.concatenate([lengths, lengths**2], axis=1)
    assert ridge_accuracy(features, classes_of(specs), 1.0) < 2 / len(TEMPLATES)


def test_motion_reveals_more_than_any_single_frame() -> None:
    specs = plan(25 * len(CLEAR), 3, templates=CLEAR)
    frames, classes = rendered(specs, FRACTIONS), classes_of(specs)
    moving = ridge_accuracy(motion(frames), classes, 1000.0)
    still = max(ridge_accuracy(thumbnails(frames[:, t]), classes, 1000.0) for t in (0, 3, 4, 5, 6, 8))
    assert moving > 2.2 / len(CLEAR)
    assert moving > 1.5 * still
