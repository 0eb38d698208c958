"""Sums and functions that round as another processor might: no test may depend on the last bits of this one.

The error of an entry follows from its bits alone. So the same computation still gives the same bits, in any process and
whatever else is in the tensor.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

aten = torch.ops.aten
# The error of a sum is a share of the sum of its terms' sizes, which the same operation on sizes gives.
SUMS = {
    aten.addmm, aten.addmv, aten.avg_pool2d, aten.baddbmm, aten.bmm, aten.convolution, aten.convolution_backward,
    aten.linear, aten.mean, aten.mm, aten.mv, aten.sum,
}  # fmt: skip
FUNCTIONS = {
    aten._log_softmax, aten._softmax, aten._softmax_backward_data, aten.exp, aten.gelu, aten.log,
    aten.native_batch_norm, aten.native_batch_norm_backward, aten.native_group_norm, aten.native_group_norm_backward,
    aten.native_layer_norm, aten.native_layer_norm_backward, aten.norm, aten.sigmoid, aten.silu, aten.std, aten.tanh,
    aten.var, aten.var_mean,
}  # fmt: skip
UNITS = {torch.float32: (2**-21, torch.int32), torch.float64: (2**-50, torch.int64)}  # some times what was seen


def is_rounded(entry: Any) -> bool:
    if type(entry) is not Tensor or entry.dtype not in UNITS or entry.device.type != "cpu" or not entry.numel():
        return False
    return not torch.equal(entry * 256, (entry * 256).round())  # sums of whole numbers are exact anywhere


def sizes(value: Any) -> Any:
    return value.abs() if isinstance(value, Tensor) and value.dtype in UNITS else value


class OtherRounding(TorchDispatchMode):
    def __init__(self, seed: int) -> None:
        super().__init__()
        self.seed = seed

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out, operation = func(*args, **(kwargs or {})), func.overloadpacket
        if operation not in SUMS and operation not in FUNCTIONS:
            return out
        several = isinstance(out, (tuple, list))
        entries = list(out) if several else [out]
        if not any(map(is_rounded, entries)):
            return out
        of_sizes = out
        if operation in SUMS:
            of_sizes = func(*map(sizes, args), **{key: sizes(value) for key, value in (kwargs or {}).items()})
        scales = list(of_sizes) if several else [of_sizes]
        entries = [
            self.rounded(entry, scale.abs()) if is_rounded(entry) else entry
            for entry, scale in zip(entries, scales, strict=True)
        ]
        return type(out)(entries) if several else entries[0]

    def rounded(self, exact: Tensor, scale: Tensor) -> Tensor:
        """Each entry off by up to some units in the last place of `scale`; a zero stays."""
        unit, bits = UNITS[exact.dtype]
        mixed = (exact.contiguous().view(bits).long() * 2654435761 + 40503 * self.seed) % 65_521
        draw = mixed.to(exact.dtype) / 32_760 - 1
        return torch.where((exact == 0) | ~exact.isfinite(), exact, exact + draw * unit * scale)
