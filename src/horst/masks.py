"""Lengths of the clips in padded batches, and masks of their frames."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from horst.errors import InputError

Lengths = Tensor | Sequence[int] | None  # frames of each sample of a batch; None: all have the same number


def length_mask(lengths: Tensor | Sequence[int], steps: int) -> Tensor:
    """(B, T) bool, on the device of `lengths`: True at the first `lengths[b]` of `steps` positions."""
    lengths = torch.as_tensor(lengths)
    return torch.arange(steps, device=lengths.device) < lengths[:, None]


def check_lengths(lengths: Lengths, batch: int, frames: int) -> list[int]:
    """The lengths of a batch of clips as numbers from 1 to `frames`; by default all frames."""
    if lengths is None:
        return [frames] * batch
    values: Any = lengths.tolist() if hasattr(lengths, "tolist") else lengths
    if not isinstance(values, Sequence) or len(values) != batch:
        raise InputError(f"lengths is {values}; it must have one length for each of the {batch} samples")
    for value in values:
        if not isinstance(value, int | float) or not 1 <= value <= frames or value != int(value):
            raise InputError(f"lengths holds {value}; a clip of {frames} frames takes whole numbers from 1 to {frames}")
    return [int(value) for value in values]
