"""The gates of an LSTM in one kernel forward and one backward, instead of about twenty small ones per frame.

Shapes: B batch, C channels, H x W map; memory is channels-last.
"""

from typing import Any

import torch
import triton
from torch import Tensor
from torch.autograd.function import once_differentiable

from horst.ops.fused import lstm_kernels as kernels
from horst.ops.fused.tuning import LAUNCHES


def lstm(observed: Tensor, recurrent: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    """The next h and c (B, C, H, W), from the two parts of [i, f, o, g] (B, 4 C, H, W), and c.

    h has the dtype of the gates, c keeps its own.
    """
    h, c = _FusedGates.apply(observed, recurrent, c)
    return h, c


class _FusedGates(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, observed: Tensor, recurrent: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        observed, recurrent, c = _channels_last(observed), _channels_last(recurrent), _dense(c)
        h, c_next = torch.empty_like(c, dtype=recurrent.dtype), torch.empty_like(c)
        kernels.forward_kernel[_grid(c)](*_maps(observed), *_maps(recurrent), c, h, c_next, *_sizes(c), **_launch())
        ctx.save_for_backward(observed, recurrent, c)
        return h, c_next

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dh: Tensor, dc_next: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        observed, recurrent, c = ctx.saved_tensors
        dgates = torch.empty_like(recurrent, memory_format=torch.channels_last)
        dc = torch.empty_like(c)
        kernels.backward_kernel[_grid(c)](
            *_maps(observed), *_maps(recurrent), c, _dense(dh), _dense(dc_next), dgates, dc, *_sizes(c), **_launch()
        )
        return dgates.to(observed.dtype), dgates, dc


def _dense(x: Tensor) -> Tensor:
    return x.contiguous(memory_format=torch.channels_last)


def _channels_last(x: Tensor) -> Tensor:
    """Unchanged if its pixels are contiguous with adjacent channels, for example a frame of a clip."""
    channels, width = x.shape[1], x.shape[3]
    fits = x.stride(1) == 1 and x.stride(3) == channels and x.stride(2) == width * channels
    return x if fits else _dense(x)


def _maps(x: Tensor) -> tuple[Tensor, int, int]:
    return x, x.stride(0), x.shape[1]


def _tile(c: Tensor) -> int:
    return LAUNCHES["lstm"].pixels(c.shape[1])


def _grid(c: Tensor) -> tuple[int]:
    return (triton.cdiv(c.numel() // c.shape[1], _tile(c)),)


def _sizes(c: Tensor) -> tuple[int, ...]:
    channels, pixels = c.shape[1], c.shape[2] * c.shape[3]
    return c.shape[0] * pixels, pixels, channels, _tile(c), triton.next_power_of_2(channels)


def _launch() -> dict[str, int]:
    return {"num_warps": LAUNCHES["lstm"].warps}
