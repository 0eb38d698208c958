"""Single clips at a model's size and frame rate, and random variations of them for training on few clips.

Shapes: T frames, H x W pixels.
"""

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from horst.video.decode import resize_image
from horst.video.frame import Size
from horst.video.sampling import frames_at, resample, ticks

CROP = 0.8  # smallest part of the height and width that a crop keeps
SPEED = 0.15  # largest change of speed, as a logarithm
TRIM = 0.12  # largest part of a clip that is cut off, at either end
LIGHT = 0.25  # largest change of brightness and contrast
TINT = 0.06


def resample_clip(frames: NDArray[np.uint8], times: NDArray[np.float64], fps: float, size: Size) -> Tensor:
    """(T, 3, H, W) uint8: the frames that a stream at `fps` would show to a model."""
    chosen = resample(times, fps)
    return torch.from_numpy(np.stack([resize_image(frames[i], size) for i in chosen])).permute(0, 3, 1, 2)


def jitter_clip(
    frames: NDArray[np.uint8], times: NDArray[np.float64], fps: float, size: Size, rng: np.random.Generator
) -> Tensor:
    """(T, 3, H, W) uint8: another recording of the same action, as it were.

    Speed, start, end, crop and light vary a little. A clip is never mirrored: left and right may be different labels.
    """
    begin, end = float(times[0]), float(times[-1])
    speed = float(np.exp(rng.uniform(-SPEED, SPEED)))
    trim = rng.uniform(0, TRIM * (end - begin), size=2)
    wanted = begin + trim[0] + speed * ticks(0.0, max(0.0, end - begin - trim.sum()) / speed, fps)
    clip = torch.from_numpy(frames[frames_at(times, wanted)]).permute(0, 3, 1, 2)
    height, width = clip.shape[-2:]
    part = rng.uniform(CROP, 1) * np.exp(rng.uniform(-0.05, 0.05, size=2))
    kept = [max(1, min(side, round(side * share))) for side, share in zip((height, width), part, strict=True)]
    top, left = (int(rng.integers(side - seen + 1)) for side, seen in zip((height, width), kept, strict=True))
    clip = clip[..., top : top + kept[0], left : left + kept[1]].float()
    pixels = F.interpolate(clip, size, mode="bilinear", antialias=True, align_corners=False)
    gain, contrast = rng.uniform(1 - LIGHT, 1 + LIGHT, size=2)
    tint = torch.from_numpy(rng.uniform(1 - TINT, 1 + TINT, size=(3, 1, 1))).float()
    mean = pixels.mean()
    return (((pixels - mean) * contrast + mean) * (gain * tint)).round().clamp(0, 255).to(torch.uint8)
