"""Masks of padded batches."""

from collections.abc import Sequence

import torch
from torch import Tensor


def length_mask(lengths: Tensor | Sequence[int], steps: int) -> Tensor:
    """(B, T) bool, on the device of `lengths`: True at the first `lengths[b]` of `steps` positions."""
    lengths = torch.as_tensor(lengths)
    return torch.arange(steps, device=lengths.device) < lengths[:, None]
