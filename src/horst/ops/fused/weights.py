"""The weights and the options of a fused layer.

The release convolves the concatenation [x; m] for its output. The convolution of a concatenation is the sum of two, so
the kernels read its weight as two: nothing is concatenated, and neither gradient needs a copy.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Self

import torch
from torch import Tensor

from horst.ops.fused.norm import Act
from horst.ops.fused.statt import AttentionForm


class LayerForm(NamedTuple):
    """The options of a layer, and the size of its maps."""

    size: tuple[int, int]  # H, W
    how: AttentionForm
    act: Act
    max_first: bool  # the order of the pooled pair in the filters' weights


class LayerWeights(NamedTuple):
    """The parameters of a layer, as its modules have them; None where it has none."""

    x: Tensor
    x_norm: Tensor
    x_bias: Tensor
    q: Tensor
    q_norm: Tensor
    q_bias: Tensor
    filter_q: Tensor
    filter_q_bias: Tensor
    observed: Tensor
    recurrent: Tensor  # (2C, C, 3, 3), of keys and values
    kv_norm: Tensor
    kv_bias: Tensor
    filter_k: Tensor
    filter_k_bias: Tensor
    h: Tensor | None  # (C, C, 3, 3) of FF_h in Eq. (8); None if the queue keeps STATT itself
    h_norm: Tensor | None
    h_bias: Tensor | None
    y: Tensor  # over the memory (with x added to it, in Eq. (8)); in the release over [x; m] until `split_output`
    y_norm: Tensor
    y_bias: Tensor
    project: Tensor | None
    squeeze: Tensor | None
    squeeze_bias: Tensor | None
    excite: Tensor | None
    excite_bias: Tensor | None
    of_x: Tensor | None  # (C, C_in, 3, 3): the part of the release's convolution that reads x

    def cast(self, dtype: torch.dtype, form: LayerForm) -> Self:
        """Convolutions in the maps' dtype and channels-last; the filters as (2, 3, 3), max first; the rest float32."""
        w = self._asdict()
        for name, p in w.items():
            if p is None:
                continue
            if name in ("filter_q", "filter_k"):
                p = p.squeeze(0) if form.max_first else p.squeeze(0).flip(0)
            if p.ndim == 4 and name not in ("squeeze", "excite"):
                w[name] = p.to(dtype).contiguous(memory_format=torch.channels_last)
            else:
                w[name] = p.float().contiguous()
        return self._replace(**w)

    def split_output(self) -> Self:
        """With `of_x` apart from `y`, if the layer has the output block of the release."""
        if self.squeeze is None:
            return self
        parts = self.y.split([self.x.shape[1], self.x.shape[0]], 1)
        of_x, y = (part.contiguous(memory_format=torch.channels_last) for part in parts)
        return self._replace(y=y, of_x=of_x)


def uncast(grads: Mapping[str, Tensor], dtypes: Sequence[torch.dtype | None], form: LayerForm) -> list[Tensor | None]:
    """The gradients of cast weights, by name, as those of a `LayerWeights` of these dtypes."""
    found = dict(grads)
    for name in ("filter_q", "filter_k"):
        found[name] = (found[name] if form.max_first else found[name].flip(0)).unsqueeze(0)
    pairs = zip(LayerWeights._fields, dtypes, strict=True)
    return [None if dtype is None or name not in found else found[name].to(dtype) for name, dtype in pairs]
