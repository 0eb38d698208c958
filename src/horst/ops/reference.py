"""STATT as in the paper: the specification for all other implementations.

It is readable, not fast. It computes in the dtype of its arguments: in fp32 or fp64 it is the reference.

Shapes: B batch, S past states, C channels, H x W map. A query `q` is (B, C, H, W); `keys` and `values` are S maps
(B, C, H, W) each, `filters` S maps (B, H, W); `valid` (B, S) says which of the S states exist (None: all).
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

Mode = Literal["spatial-temporal", "temporal", "spatial", "joint"]
PooledPair = Literal["max,avg", "avg,max"]
SpatialWeight = Literal["present", "order"]


class Attended(NamedTuple):
    """The result of attention. Weights are None if they were not requested and cost extra."""

    out: Tensor  # (B, C, H, W), the weighted sum of the values
    spatial: Tensor | None  # (B, S, H, W), S(Q, K): the weight of each pixel of a state, 0 if that does not exist
    temporal: Tensor | None  # (B, S), T(Q, K): the weight of each state


def spatial_filter(x: Tensor, weight: Tensor, bias: Tensor, pooled_pair: PooledPair = "max,avg") -> Tensor:
    """Eq. (4): where to look in x (N, C, H, W), as a map (N, H, W) in 0..1."""
    pair = [x.amax(1), x.mean(1)]
    if pooled_pair == "avg,max":
        pair.reverse()
    return torch.sigmoid(F.conv2d(torch.stack(pair, 1), weight, bias, padding=1)).squeeze(1)


def spatial_branch(q: Tensor, keys: Sequence[Tensor], filters: Sequence[Tensor]) -> Tensor:
    """Eq. (5): S(Q, K), a weight map (B, S, H, W) in 0..1 for every state."""
    k, f_k = torch.stack(tuple(keys), 1), torch.stack(tuple(filters), 1)
    q_hat = (f_k.unsqueeze(2) * q.unsqueeze(1)).mean((-2, -1))  # (B, S, C)
    return torch.sigmoid(torch.einsum("bsc,bschw->bshw", q_hat, k))


def temporal_branch(
    q: Tensor, f_q: Tensor, keys: Sequence[Tensor], filters: Sequence[Tensor], valid: Tensor | None, scale: float
) -> Tensor:
    """Eq. (6): T(Q, K), a weight (B, S) for every state; the weights of existing states sum to 1."""
    k, f_k = torch.stack(tuple(keys), 1), torch.stack(tuple(filters), 1)
    logits = torch.einsum("bchw,bschw->bs", f_q.unsqueeze(1) * q, f_k.unsqueeze(2) * k) * scale
    if valid is not None:
        logits = logits.masked_fill(~valid, float("-inf"))
    return logits.softmax(1)


def uniform_weights(like: Tensor, order: int, valid: Tensor | None, weight: SpatialWeight, states: int) -> Tensor:
    """T(Q, K) of spatial-only attention, (B, S): 1 / (states present), or 1 / order as the paper prints it."""
    there = like.new_ones(like.shape[0], states) if valid is None else valid.to(like.dtype)
    return there / (there.sum(1, keepdim=True) if weight == "present" else order)


def joint(q: Tensor, keys: Sequence[Tensor], values: Sequence[Tensor], valid: Tensor | None) -> Attended:
    """Joint space-time attention: every pixel of the query attends to every pixel of every state.

    The weights are means over the query's pixels, factored so that temporal * spatial is the weight of a pixel:
    temporal is the share of a state, spatial the distribution within it.
    """
    k, v = torch.stack(tuple(keys), 1), torch.stack(tuple(values), 1)
    s, c, h, w = k.shape[1:]
    logits = torch.einsum("bcp,bscr->bpsr", q.flatten(2), k.flatten(3)) * c**-0.5
    if valid is not None:
        logits = logits.masked_fill(~valid[:, None, :, None], float("-inf"))
    weights = logits.flatten(2).softmax(2).unflatten(2, (s, h * w))  # (B, HW of the query, S, HW of the key)
    out = torch.einsum("bpsr,bscr->bcp", weights, v.flatten(3)).unflatten(2, (h, w))
    mean = weights.mean(1)
    temporal = mean.sum(2)
    spatial = (mean / temporal.clamp_min(torch.finfo(mean.dtype).tiny).unsqueeze(2)).unflatten(2, (h, w))
    return Attended(out, spatial, temporal)


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
    """Eq. (7): STATT(Q, K, V) = (S(Q, K) x T(Q, K)) . V, and the paper's ablations of it.

    `f_q` is not read (and may be None) in the modes "spatial" and "joint"; `order` is S if fewer states are passed;
    without `need_weights` an implementation may omit the weights.
    """
    if mode == "joint":
        return joint(q, keys, values, valid)
    if mode == "temporal":
        spatial = torch.ones_like(torch.stack(tuple(filters), 1))
    else:
        spatial = spatial_branch(q, keys, filters)
    if mode == "spatial":
        temporal = uniform_weights(q, order or len(keys), valid, spatial_weight, len(keys))
    else:
        assert f_q is not None
        temporal = temporal_branch(q, f_q, keys, filters, valid, scale)
    if valid is not None:
        spatial = spatial * valid[:, :, None, None]
    v = spatial.unsqueeze(2) * torch.stack(tuple(values), 1)
    return Attended(torch.einsum("bs,bschw->bchw", temporal, v), spatial, temporal)


# Operations (multiplications) of one step of attention, as the paper counts them.


def statt_ops(order: int, channels: int, height: int, width: int) -> int:
    """Spatial-temporal attention: (6S + 1) CHW + 18 (S + 1) HW, the filters of all S keys among them."""
    return weighing_ops("spatial-temporal", order, channels, height, width) + 18 * (order + 1) * height * width


def joint_ops(order: int, channels: int, height: int, width: int) -> int:
    """Joint space-time attention: 2 S (HW)^2 C."""
    return 2 * order * (height * width) ** 2 * channels


def temporal_ops(order: int, channels: int, height: int, width: int) -> int:
    """Full temporal attention: 2 S HW C."""
    return 2 * order * height * width * channels


def weighing_ops(mode: Mode, order: int, channels: int, height: int, width: int) -> int:
    """A step without the cached filters: comparing the query with S keys and weighting S values."""
    if mode == "joint":
        return joint_ops(order, channels, height, width)
    maps = {"spatial-temporal": 6 * order + 1, "temporal": 3 * order + 1, "spatial": 4 * order}[mode]
    return maps * channels * height * width
