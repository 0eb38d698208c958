"""Frames of bytes to normalised channels-last maps in one pass, with the bits of `horst.backbones.base.Normalise`."""

import torch
import triton
import triton.language as tl
from torch import Tensor

PIXELS = 1024  # of a program


@triton.jit
def normalise_kernel(
    x, y, mean, std, x_n, x_c, x_h, x_w, P, width,
    C: tl.constexpr, OUT: tl.constexpr, CP: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """A block of pixels of one frame: y (N, P, OUT) has zeros in the channels from C on. CP: OUT as a power of two."""
    n = tl.program_id(0).to(tl.int64)
    p, c = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK), tl.arange(0, CP)
    inside, there = p[:, None] < P, c[None, :] < C
    at = (p // width * x_h + p % width * x_w)[:, None] + (c * x_c)[None, :]
    v = tl.load(x + n * x_n + at, inside & there, 0).to(tl.float32)
    m, s = tl.load(mean + c, c < C, 0.0)[None, :], tl.load(std + c, c < C, 1.0)[None, :]
    v = tl.where(there, tl.div_rn(v - m, s), 0.0)
    out = n * P * OUT + p[:, None] * OUT + c[None, :]
    tl.store(y + out, v.to(y.dtype.element_ty), inside & (c[None, :] < OUT))


def normalise(frames: Tensor, mean: Tensor, std: Tensor, dtype: torch.dtype, channels: int) -> Tensor:
    """(frames - mean) / std of frames (N, C, H, W) uint8, in `dtype`, channels-last; zeros up to `channels` channels.

    More channels than the frames have suit convolutions: with 3, libraries have no kernels for the matrix units.
    """
    n, c, height, width = frames.shape
    y = torch.empty(n, height, width, channels, dtype=dtype, device=frames.device)
    normalise_kernel[n, triton.cdiv(height * width, PIXELS)](
        frames, y, mean.flatten().float(), std.flatten().float(), *frames.stride(), height * width, width,
        C=c, OUT=channels, CP=triton.next_power_of_2(channels), BLOCK=PIXELS,
    )  # fmt: skip
    return y.permute(0, 3, 1, 2)
