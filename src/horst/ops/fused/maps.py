"""Maps in the layout of the kernels, (N, P, C), and the 3x3 convolutions of the vendor's library.

Shapes: N maps, P = H * W pixels, C channels; memory is channels-last throughout, so both views are free.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

Size = Sequence[int]  # H, W


def picture(x: Tensor, size: Size) -> Tensor:
    """(..., P, C) -> (N, C, H, W), a view in torch's channels_last."""
    return x.reshape(-1, *size, x.shape[-1]).permute(0, 3, 1, 2)


def pixels(x: Tensor) -> Tensor:
    """(N, C, H, W) -> (N, P, C); a copy if it is not channels-last."""
    return x.permute(0, 2, 3, 1).contiguous().flatten(1, 2)


def conv(x: Tensor, weight: Tensor, size: Size) -> Tensor:
    """x (..., P, C) convolved with `weight` (C_out, C, k, k), k odd, zeros around: (N, P, C_out)."""
    return pixels(F.conv2d(picture(x, size), weight, padding=weight.shape[-1] // 2))


def conv_grads(grad: Tensor, x: Tensor, weight: Tensor, size: Size) -> tuple[Tensor, Tensor]:
    """The gradients of `conv` at x (N, P, C) and at its weight."""
    d_x, d_w = _backward(grad, x, weight, size, [True, True, False])
    return pixels(d_x), d_w


def conv_input_grad(grad: Tensor, x: Tensor, weight: Tensor, size: Size) -> Tensor:
    """Only the gradient at x; of x only the shape is needed."""
    return pixels(_backward(grad, x, weight, size, [True, False, False])[0])


def conv_weight_grad(grad: Tensor, x: Tensor, weight: Tensor, size: Size) -> Tensor:
    """Only the gradient at the weight; of the weight only the shape is needed."""
    return _backward(grad, x, weight, size, [False, True, False])[1]


def _backward(grad: Tensor, x: Tensor, weight: Tensor, size: Size, wanted: list[bool]) -> tuple[Tensor, Tensor]:
    pad = weight.shape[-1] // 2
    shape = ([1, 1], [pad, pad], [1, 1], False, [0, 0], 1)  # stride, padding, dilation, not transposed, groups
    return torch.ops.aten.convolution_backward(picture(grad, size), picture(x, size), weight, None, *shape, wanted)[:2]
