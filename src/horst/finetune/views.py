"""What a model is shown of a recorded clip: the clip as it is, and copies that differ as a second try would.

A copy is a little faster or slower, begins and ends a little later or sooner, and is seen from a little nearer, in
another light. It is never mirrored: whoever teaches "left" means left.

Shapes: T frames, H x W pixels.
"""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from horst.data.clips import Clip
from horst.video.resizing import resize_image
from horst.video.sampling import frames_at, resample, ticks

NEAREST = 0.8
"""The part of a frame's height and width that a copy shows at least."""
HASTE = 0.15
"""Copies are faster or slower by up to this, as a logarithm."""
CUT = 0.12
"""The part of a clip that a copy leaves out at most, at either end."""
LIGHT = 0.25
"""How much a copy's brightness and contrast differ at most."""
TINT = 0.06


def plain(clip: Clip, fps: float, size: tuple[int, int]) -> Tensor:
    """(T, 3, H, W) uint8: the frames that a stream asks the model about."""
    chosen = resample(clip.times, fps)
    return torch.from_numpy(np.stack([resize_image(clip.frames[i], size) for i in chosen])).permute(0, 3, 1, 2)


def copy(clip: Clip, fps: float, size: tuple[int, int], rng: np.random.Generator) -> Tensor:
    """(T, 3, H, W) uint8: one that might have been recorded."""
    begin, end = float(clip.times[0]), float(clip.times[-1])
    speed = float(np.exp(rng.uniform(-HASTE, HASTE)))
    cut = rng.uniform(0, CUT * (end - begin), size=2)
    wanted = begin + cut[0] + speed * ticks(0.0, max(0.0, end - begin - cut.sum()) / speed, fps)
    frames = torch.from_numpy(clip.frames[frames_at(clip.times, wanted)]).permute(0, 3, 1, 2)
    height, width = frames.shape[-2:]
    part = rng.uniform(NEAREST, 1) * np.exp(rng.uniform(-0.05, 0.05, size=2))
    shown = [max(1, min(side, round(side * share))) for side, share in zip((height, width), part, strict=True)]
    top, left = (int(rng.integers(side - seen + 1)) for side, seen in zip((height, width), shown, strict=True))
    frames = frames[..., top : top + shown[0], left : left + shown[1]].float()
    pixels = F.interpolate(frames, size, mode="bilinear", antialias=True, align_corners=False)
    gain, contrast = rng.uniform(1 - LIGHT, 1 + LIGHT, size=2)
    tint = torch.from_numpy(rng.uniform(1 - TINT, 1 + TINT, size=(3, 1, 1))).float()
    middle = pixels.mean()
    return (((pixels - middle) * contrast + middle) * (gain * tint)).round().clamp(0, 255).to(torch.uint8)
