"""The spatial filter (Eq. 4) from maps that `norm` has pooled, and the gradient of its weight.

Shapes: N maps, P = H * W pixels. The gradient at the pooled maps is part of `norm_backward` (`PooledGrad`).
"""

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch import Tensor

from horst.ops.fused.maps import Size

PIXELS = 512  # a program: few enough for several programs a map, 4 a thread


@triton.jit
def filter_kernel(pooled, weight, bias, out, height, width, BLOCK: tl.constexpr):
    """A block of pixels of one map, each by its 3x3 neighbours; zeros lie around the map."""
    pixels = height * width
    blocks = tl.cdiv(pixels, BLOCK)
    n = (tl.program_id(0) // blocks).to(tl.int64)
    p = tl.program_id(0) % blocks * BLOCK + tl.arange(0, BLOCK)
    row, column = p // width, p % width
    top, mean = pooled + n * 3 * pixels, pooled + n * 3 * pixels + pixels
    pre = tl.zeros([BLOCK], tl.float32) + tl.load(bias).to(tl.float32)
    for k in tl.static_range(9):
        r, q = row + (k // 3 - 1), column + (k % 3 - 1)
        there = (r >= 0) & (r < height) & (q >= 0) & (q < width)
        pre += tl.load(top + r * width + q, mask=there, other=0.0) * tl.load(weight + k)
        pre += tl.load(mean + r * width + q, mask=there, other=0.0) * tl.load(weight + 9 + k)
    tl.store(out + n * pixels + p, tl.sigmoid(pre), mask=p < pixels)


def spatial_filter(pooled: Tensor, weight: Tensor, bias: Tensor, out: Tensor, size: Size) -> None:
    """The filter (N, P) in 0..1 into `out`, from `pooled` (N, 3, P): maximum and mean over the channels (and a count).

    `weight` (2, 3, 3) is in the order max, mean. All are contiguous float32.
    """
    blocks = triton.cdiv(size[0] * size[1], PIXELS)
    filter_kernel[out.shape[0] * blocks,](pooled, weight, bias, out, *size, PIXELS, num_warps=4)


def filter_weight_grad(dpre: Tensor, pooled: Tensor, size: Size) -> tuple[Tensor, Tensor]:
    """The gradients (2, 3, 3) and (1,) at weight and bias, from dpre (N, P), that before the sigmoid.

    A product and a sum rather than a matrix product, whose precision autocast and the TF32 switch would decide.
    """
    wide = F.pad(pooled[:, :2].unflatten(2, size), (1, 1, 1, 1))
    seen = wide.unfold(2, size[0], 1).unfold(3, size[1], 1).flatten(4)  # (N, 2, 3, 3, P)
    return (seen * dpre[:, None, None, None]).sum((0, 4)), torch.sum(dpre).view(1)
