"""Max pooling with windows that do not overlap, for channels-last maps.

PyTorch keeps an int64 index for each output and clears the gradient before it scatters into it. Here the index is one
byte, and the backward pass writes each input once. The result and the gradient are those of `F.max_pool2d`, to the last
bit: of equal values the first one counts, and NaN wins.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from horst.errors import InputError

BLOCK = 1024  # values of a program: 8 per thread


@triton.jit
def forward_kernel(
    x, y, index, height, width, C: tl.constexpr, STRIDE: tl.constexpr, KEEP: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    """A part of a row of y (N, H / s, W / s, C), and where in its window each value was found; x is (N, H, W, C)."""
    row = tl.program_id(0).to(tl.int64)  # of all maps
    rows, columns = height // STRIDE, width // STRIDE
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = at < columns * C
    x += (row // rows * height + row % rows * STRIDE) * width * C
    first = at // C * (STRIDE * C) + at % C
    best = tl.load(x + first, inside, 0.0).to(tl.float32)
    where = tl.zeros([BLOCK], tl.int32)
    for k in tl.static_range(1, STRIDE * STRIDE):
        v = tl.load(x + first + (k // STRIDE * width + k % STRIDE) * C, inside, 0.0).to(tl.float32)
        better = (v > best) | (v != v)
        best, where = tl.where(better, v, best), tl.where(better, k, where)
    tl.store(y + row * columns * C + at, best.to(y.dtype.element_ty), inside)
    if KEEP:
        tl.store(index + row * columns * C + at, where.to(tl.uint8), inside)


@triton.jit
def backward_kernel(dy, index, dx, height, width, C: tl.constexpr, STRIDE: tl.constexpr, BLOCK: tl.constexpr):
    """A part of a row of dx (N, H, W, C); zero in rows and columns that belong to no window."""
    row = tl.program_id(0).to(tl.int64)  # of all maps
    rows, columns = height // STRIDE, width // STRIDE
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    n, r, column = row // height, row % height, at // C
    read = (column < columns * STRIDE) & (r < rows * STRIDE)
    source = (n * rows + r // STRIDE) * columns * C + column // STRIDE * C + at % C
    hit = tl.load(index + source, read, 255).to(tl.int32) == r % STRIDE * STRIDE + column % STRIDE
    tl.store(dx + row * width * C + at, tl.load(dy + source, read & hit, 0.0), at < width * C)


class _MaxPool(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, stride: int, keep: bool) -> Tensor:
        n, c, height, width = x.shape
        x = x.contiguous(memory_format=torch.channels_last)
        shape = (n, height // stride, width // stride, c)
        y = x.new_empty(shape).permute(0, 3, 1, 2)
        index = torch.empty(shape if keep else 0, dtype=torch.uint8, device=x.device)
        rows, columns = shape[0] * shape[1], shape[2]
        forward_kernel[rows, triton.cdiv(columns * c, BLOCK)](
            x, y, index, height, width, c, STRIDE=stride, KEEP=keep, BLOCK=BLOCK
        )
        ctx.save_for_backward(index)
        ctx.stride, ctx.shape = stride, x.shape
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor, None, None]:
        (index,) = ctx.saved_tensors
        n, c, height, width = ctx.shape
        dx = dy.new_empty(n, height, width, c).permute(0, 3, 1, 2)
        backward_kernel[n * height, triton.cdiv(width * c, BLOCK)](
            dy.contiguous(memory_format=torch.channels_last),
            index,
            dx,
            height,
            width,
            c,
            STRIDE=ctx.stride,
            BLOCK=BLOCK,
        )
        return dx, None, None


def max_pool(x: Tensor, stride: int) -> Tensor:
    """x (N, C, H, W) after max pooling with windows of stride x stride, channels-last."""
    if stride > 15:  # the place in a window is stored in a byte
        raise InputError(f"the stride is {stride}; the kernel of max pooling takes at most 15")
    return _MaxPool.apply(x, stride, torch.is_grad_enabled() and x.requires_grad)
