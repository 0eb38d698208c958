"""Normalised frames: the bits of the module that they replace, and zeros beyond the channels."""

from __future__ import annotations

import pytest
import torch

from horst.backbones.base import IMAGENET_MEAN, IMAGENET_STD, Normalise
from horst.ops.fused.normalise import normalise


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("channels", [3, 8])
def test_equals_the_module(device: str, dtype: torch.dtype, last: bool, channels: int) -> None:
    torch.manual_seed(0)
    frames = torch.arange(3 * 256, dtype=torch.int64).view(3, 256).T.to(torch.uint8)  # all levels of each channel
    frames = frames[torch.randperm(256)].view(1, 16, 16, 3).expand(2, -1, -1, -1).permute(0, 3, 1, 2)[:, :, :13]
    frames = (frames if last else frames.contiguous()).to(device)
    module = Normalise(IMAGENET_MEAN, IMAGENET_STD, scale=255.0).to(device)
    found = normalise(frames, module.mean, module.std, dtype, channels)
    assert torch.equal(found[:, :3], module(frames).to(dtype))
    assert found.is_contiguous(memory_format=torch.channels_last)
    assert (found[:, 3:] == 0).all()
