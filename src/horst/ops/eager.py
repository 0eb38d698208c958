"""STATT state by state: equal to `reference`, without stacking the queue or keeping S products of maps.

On a CPU this is several times faster than the stacked form: each product of two maps stays in cache, and the states
are read in place (slices of a ring, or the maps of a clip). Shapes as in `reference`.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from horst.ops import reference
from horst.ops.reference import Attended, Mode, SpatialWeight


def spatial_branch(q: Tensor, keys: Sequence[Tensor], filters: Sequence[Tensor]) -> Tensor:
    """Eq. (5), (B, S, H, W). The pooled products of all S filters with Q are one matrix product."""
    h, w = q.shape[-2:]
    f_k = torch.stack(tuple(filters), 1).flatten(2)  # (B, S, HW)
    q_hat = torch.bmm(f_k, q.flatten(2).mT) / (h * w)  # (B, S, C)
    dots = [torch.bmm(q_hat[:, s : s + 1], k.flatten(2)) for s, k in enumerate(keys)]
    return torch.sigmoid(torch.cat(dots, 1)).unflatten(2, (h, w))


def temporal_branch(
    q: Tensor, f_q: Tensor, keys: Sequence[Tensor], filters: Sequence[Tensor], valid: Tensor | None, scale: float
) -> Tensor:
    """Eq. (6), (B, S). The key's filter is the same for all channels, so it multiplies the sum over them."""
    filtered = f_q.unsqueeze(1) * q
    dots = [((filtered * k).sum(1) * f_k).sum((1, 2)) for k, f_k in zip(keys, filters, strict=True)]
    logits = torch.stack(dots, 1) * scale
    if valid is not None:
        logits = logits.masked_fill(~valid, float("-inf"))
    return logits.softmax(1)


def joint(q: Tensor, keys: Sequence[Tensor], values: Sequence[Tensor], valid: Tensor | None) -> Tensor:
    """Joint space-time attention, (B, C, H, W), without its weights: they need S (HW)^2 numbers per sample."""
    h, w = q.shape[-2:]
    k, v = (torch.cat([m.flatten(2) for m in maps], 2).mT.unsqueeze(1) for maps in (keys, values))  # (B, 1, SHW, C)
    mask = None if valid is None else valid.repeat_interleave(h * w, 1)[:, None, None]
    out = F.scaled_dot_product_attention(q.flatten(2).mT.unsqueeze(1), k, v, attn_mask=mask)
    return out.squeeze(1).mT.unflatten(2, (h, w))


def statt(
    q: Tensor,
    f_q: Tensor | None,
    keys: Sequence[Tensor],
    filters: Sequence[Tensor],
    values: Sequence[Tensor],
    valid: Tensor | None = None,
    *,
    scale: float,
    mode: Mode = "spatial-temporal",
    order: int | None = None,
    spatial_weight: SpatialWeight = "present",
    need_weights: bool = True,
) -> Attended:
    """Eq. (7) and its ablations, as in `reference.statt`."""
    if mode == "joint":
        if need_weights:
            return reference.joint(q, keys, values, valid)
        return Attended(joint(q, keys, values, valid), None, None)
    if mode == "spatial":
        temporal = reference.uniform_weights(q, order or len(keys), valid, spatial_weight, len(keys))
    else:
        assert f_q is not None
        temporal = temporal_branch(q, f_q, keys, filters, valid, scale)
    if mode == "temporal":
        spatial = q.new_ones(q.shape[0], len(keys), *q.shape[-2:])
    else:
        spatial = spatial_branch(q, keys, filters)
    if valid is not None:
        spatial = spatial * valid[:, :, None, None]
    weights = temporal[:, :, None, None] * spatial  # (B, S, H, W)
    out = values[0] * weights[:, 0, None]
    for s in range(1, len(values)):
        out = torch.addcmul(out, values[s], weights[:, s, None])
    return Attended(out, spatial, temporal)
