"""STATT on a stacked queue, equal to `reference`: few large operations, for graphs that a runtime optimises.

Shapes as in `reference`, but keys and values are one tensor (B, S, C, H, W) and filters one of (B, S, H, W).
"""

import torch
from torch import Tensor

from horst.ops import reference
from horst.ops.reference import Mode, SpatialWeight


def statt(
    q: Tensor,
    f_q: Tensor | None,
    keys: Tensor,
    filters: Tensor,
    values: Tensor,
    valid: Tensor,
    *,
    scale: float,
    mode: Mode,
    order: int,
    spatial_weight: SpatialWeight,
) -> Tensor:
    """Eq. (7) and its ablations, without their weights: (B, C, H, W)."""
    if mode == "joint":
        return reference.joint(q, keys.unbind(1), values.unbind(1), valid).out
    height, width = q.shape[-2:]
    q, keys, filters, values = q.flatten(2), keys.flatten(3), filters.flatten(2), values.flatten(3)
    if mode == "spatial":
        weights = reference.uniform_weights(q, order, valid, spatial_weight, keys.shape[1]).unsqueeze(2)
    else:
        assert f_q is not None
        filtered = f_q.flatten(1).unsqueeze(1) * q  # (B, C, HW)
        dots = ((filtered.unsqueeze(1) * keys).sum(2) * filters).sum(2) * scale
        weights = dots.masked_fill(~valid, float("-inf")).softmax(1).unsqueeze(2)
    if mode != "temporal":  # all S products with Q are one matrix product
        q_hat = torch.matmul(filters, q.mT) / (height * width)  # (B, S, C)
        spatial = torch.sigmoid(torch.matmul(q_hat.unsqueeze(2), keys)).squeeze(2)  # (B, S, HW)
        weights = weights * spatial * valid.unsqueeze(2)
    return (weights.unsqueeze(2) * values).sum(1).unflatten(2, (height, width))
