"""Equalization is that of Pillow, whatever the share of the brightest level; lengths are as many as clips."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image, ImageOps

from horst.errors import InputError
from horst.video.augment import _valid_frames
from horst.video.augment_ops import _equalizing_table


@pytest.mark.parametrize(("brightest", "share"), [(200, 0.5), (255, 0.3), (90, 0.9), (1, 0.5)])
def test_the_table_is_pillows(brightest: int, share: float) -> None:
    rng = np.random.default_rng(0)
    levels = rng.integers(0, brightest, 64 * 64)
    levels[: int(share * levels.size)] = brightest
    picture = levels.astype(np.uint8).reshape(64, 64)
    table = _equalizing_table(torch.from_numpy(np.bincount(levels, minlength=256))[None])[0].numpy()
    np.testing.assert_array_equal(table[picture], np.asarray(ImageOps.equalize(Image.fromarray(picture))))


@pytest.mark.parametrize("count", [1, 3])
def test_lengths_are_as_many_as_clips(count: int) -> None:
    with pytest.raises(InputError, match="one for each clip"):
        _valid_frames([1] * count, torch.zeros(2, 4, 3, 8, 8))
