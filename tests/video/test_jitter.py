"""Random variations of clips."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from horst.video.jitter import jitter_clip, resample_clip

TIMES = np.arange(24) / 12


@pytest.fixture
def frames() -> NDArray[np.uint8]:
    return np.random.default_rng(0).integers(0, 256, (24, 30, 40, 3), np.uint8)


def test_size_and_rate(frames: NDArray[np.uint8]) -> None:
    same = resample_clip(frames, TIMES, 12, (30, 40))
    np.testing.assert_array_equal(same.permute(0, 2, 3, 1).numpy(), frames)
    rng = np.random.default_rng(0)
    for _ in range(10):
        other = jitter_clip(frames, TIMES, 6, (20, 25), rng)
        assert other.dtype == torch.uint8
        assert other.shape[1:] == (3, 20, 25)
        assert 0.6 * len(frames) / 2 <= len(other) <= 1.2 * len(frames) / 2 + 1
    short = frames[:1], TIMES[:1], 6, (20, 25)
    assert len(resample_clip(*short)) == len(jitter_clip(*short, rng)) == 1
