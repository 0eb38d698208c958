"""Equality up to rounding, as a share of a tensor's norm: entries that cancel differ by more than their own size."""

from __future__ import annotations

from torch import Tensor


def assert_near(found: Tensor, wanted: Tensor, share: float = 1e-4, name: str = "") -> None:
    assert found.shape == wanted.shape, f"{name}: {tuple(found.shape)}, not {tuple(wanted.shape)}"
    found, wanted = (tensor.detach().cpu().double() for tensor in (found, wanted))
    error = (found - wanted).norm() / wanted.norm().clamp_min(1e-9)
    assert error < share, f"{name}: {error:.1e} of the norm"
