"""Augmented batches: flipped clips get flipped labels, and random numbers depend on the clip alone."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from small_sets import pair

from horst.data.augmenter import NO_AUGMENT, Augment, Augmenter, clip_chances, mirror_table
from horst.data.batches import Item, collate
from horst.data.example import Annotations
from horst.errors import ConfigError, DataError
from horst.video.augment import apply_plan


def drawn_items(annotations: Annotations) -> list[Item]:
    items = []
    for i, example in enumerate(annotations.examples):
        frames = torch.zeros(2, 3, 4, 6, dtype=torch.uint8)
        frames[..., 0] = i + 1
        items.append(Item(frames, torch.zeros(2), torch.ones(2).bool(), dict(example.labels), example.id, i))
    return items


def test_mirrored_clips_have_mirrored_labels() -> None:
    annotations = pair((1, 0, -1))
    augmenter = Augmenter(Augment(operations=0), annotations, seed=0)
    before = collate(drawn_items(annotations))
    after = augmenter(before, epoch=0)
    flipped = (after.frames[:, 0, 0, 0, -1] > 0).tolist()
    for i, is_flipped in enumerate(flipped):
        old = int(before.labels["action"][i])
        assert int(after.labels["action"][i]) == ((1, 0)[old] if is_flipped else old)
        assert torch.equal(after.frames[i], before.frames[i].flip(-1) if is_flipped else before.frames[i])
        assert not (is_flipped and old not in (0, 1))
    assert 10 <= sum(flipped) <= 30  # of 40
    assert torch.equal(augmenter(before, epoch=0).frames, after.frames)
    assert not torch.equal(augmenter(before, epoch=1).frames, after.frames)
    for off in (NO_AUGMENT, Augment(operations=0, mirror=False)):
        assert Augmenter(off, annotations, seed=0)(before, 0) is before
    assert Augmenter(Augment(operations=0), pair(()), seed=0)(before, 0) is before
    with pytest.raises(DataError, match="mirror is for 2 actions and there are 3"):
        mirror_table(pair((1, 0)))
    for table in ((1, 0, 3), (-2, 1, 2), (1, -1, 2)):
        with pytest.raises(DataError, match="must map back"):
            mirror_table(pair(table))


def test_mirrored_verbs_follow_their_actions() -> None:
    annotations = pair((1, 0, 2), action_parts=((0, 0), (1, 0), (2, 0)))
    after = Augmenter(Augment(operations=0), annotations, seed=0)(collate(drawn_items(annotations)), 0)
    assert torch.equal(after.labels["verb"], after.labels["action"])
    assert mirror_table(pair((1, 0, 2), verbs=True)) == (-1, -1, 2)  # nobody says which verb the other action has


def test_augmentation_does_not_depend_on_the_batch() -> None:
    """Each clip has its own draw, whatever batch it lies in: so do resumed runs and replicas."""
    annotations = pair((1, 0, -1))
    items = drawn_items(annotations)
    augmenter = Augmenter(Augment(operations=2, magnitude=25), annotations, seed=5)
    together, alone = augmenter(collate(items), 2), augmenter(collate(items[7:12]), 2)
    assert torch.equal(alone.frames, together.frames[7:12])
    assert len({f.numpy().tobytes() for f in together.frames}) > 50


def test_zoom_is_of_the_clip_and_within_its_limits() -> None:
    annotations = pair((1, 0, 2))
    frames = torch.zeros(1, 3, 64, 64, dtype=torch.uint8)
    frames[..., 16:48, 16:48] = 255  # a square of 32 pixels
    items = [Item(frames, torch.zeros(1), torch.ones(1).bool(), {"action": 0}, str(i), i) for i in range(40)]
    augmenter = Augmenter(Augment(operations=0, mirror=False, zoom=0.5), annotations, seed=5)
    found = augmenter(collate(items), 2)
    sides = [int(one[0, 0].any(0).sum()) for one in found.frames]
    assert min(sides) >= 32 * np.exp(-0.5) - 2
    assert max(sides) <= 32 * np.exp(0.5) + 2
    assert min(sides) < 26 < 40 < max(sides)
    assert torch.equal(augmenter(collate(items[3:5]), 2).frames, found.frames[3:5])
    assert not torch.equal(augmenter(collate(items), 3).frames, found.frames)


def test_maps_are_mirrored_only() -> None:
    annotations = pair((1, 0, 2))
    maps = torch.arange(4).half().expand(2, 5, 2, 4)
    examples = annotations.examples[:16]
    items = [
        Item(maps, torch.zeros(2), torch.ones(2).bool(), dict(e.labels), str(i), i) for i, e in enumerate(examples)
    ]
    batch = collate(items)
    assert Augmenter(NO_AUGMENT, annotations, seed=0)(batch, 0) is batch
    with pytest.raises(ConfigError, match="maps can only be mirrored"):
        Augmenter(Augment(), annotations, seed=0)(batch, 0)
    with pytest.raises(ConfigError, match="maps can only be mirrored"):
        Augmenter(Augment(operations=0, zoom=0.1), annotations, seed=0)(batch, 0)
    mirrored = Augmenter(Augment(operations=0), annotations, seed=0)(batch, 0)
    flipped = [torch.equal(frames, maps.flip(-1)) for frames in mirrored.frames]
    assert 0 < sum(flipped) < 16
    for i, example in enumerate(examples):
        action = example.labels["action"]
        assert mirrored.labels["action"][i] == (annotations.mirror[action] if flipped[i] else action)


def test_random_numbers_depend_on_the_clip_and_are_uniform() -> None:
    drawn = clip_chances(7, 3, range(20_000), 4)
    assert (clip_chances(7, 3, [9, 4], 4) == drawn[[9, 4]]).all()
    assert (clip_chances(7, 3, range(5), 2) == drawn[:5, :2]).all()
    assert drawn.min() >= 0
    assert drawn.max() < 1
    for other in (clip_chances(8, 3, range(20_000), 4), clip_chances(7, 4, range(20_000), 4), drawn[::-1]):
        assert abs(np.corrcoef(drawn.ravel(), other.ravel())[0, 1]) < 0.02
    shares = np.histogram(drawn, bins=14, range=(0, 1))[0] / drawn.size
    assert np.abs(14 * shares - 1).max() < 0.05
    assert np.abs(np.corrcoef(drawn.T) - np.eye(4)).max() < 0.03


def test_random_numbers_are_splitmix64() -> None:
    """The published numbers of seed 0, and those of a clip by arithmetic on Python's integers."""
    golden, mask = 0x9E3779B97F4A7C15, 2**64 - 1
    published = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F, 0xF88BB8A8724C81EC, 0x1B39896A51A8749B]

    def mix(z: int) -> int:
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & mask
        z = (z ^ z >> 27) * 0x94D049BB133111EB & mask
        return z ^ z >> 31

    assert [mix(i * golden & mask) for i in range(1, 6)] == published
    for seed, epoch, index in ((0, 0, 0), (7, 3, 41), (2**40, 1, 5), (-1, 2, 9)):
        state = mix(mix(mix(seed & mask) ^ epoch) ^ index)
        wanted = [(mix(state + i * golden & mask) >> 11) / 2**53 for i in range(1, 5)]
        assert clip_chances(seed, epoch, [index], 4)[0].tolist() == wanted


@pytest.mark.parametrize("operations", [1, 2, 3])
def test_any_number_of_operations_and_the_flip(operations: int) -> None:
    """A clip is flipped by the first chance; the next three decide the first operation, and so on."""
    annotations = pair((1, 0, 2))
    batch = collate(drawn_items(annotations))
    augmenter = Augmenter(Augment(operations=operations, magnitude=25), annotations, seed=5)
    after = augmenter(batch, 0)
    chances = clip_chances(5, 0, batch.indices, 1 + 3 * operations)
    flipped = [
        bool(drawn) and bool(example.labels)
        for drawn, example in zip(chances[:, 0] < 0.5, annotations.examples, strict=True)
    ]
    assert [bool(n) for n in after.labels["action"] != batch.labels["action"]] == [
        flip and example.labels["action"] != 2 for flip, example in zip(flipped, annotations.examples, strict=True)
    ]
    frames = torch.stack([f.flip(-1) if flip else f for f, flip in zip(batch.frames, flipped, strict=True)])
    plan = augmenter.options.plan(torch.from_numpy(chances[:, 1:].reshape(-1, operations, 3)))
    assert torch.equal(after.frames, apply_plan(frames, plan, batch.lengths))
    other = Augmenter(Augment(operations=operations, magnitude=25, magnitude_std=3.0), annotations, seed=5)
    assert not torch.equal(other(batch, 0).frames, after.frames)
    other = Augmenter(Augment(operations=operations, magnitude=5), annotations, seed=5)
    assert not torch.equal(other(batch, 0).frames, after.frames)
