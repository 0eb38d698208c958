"""Maps pass through unchanged, in the model's dtype."""

from __future__ import annotations

import pytest
import torch

from horst.backbones import PrecomputedMaps
from horst.errors import InputError


def test_identity() -> None:
    maps = torch.randn(3, 7, 4, 5)
    backbone = PrecomputedMaps(channels=7)
    assert torch.equal(backbone(maps), maps)
    assert backbone.channels == backbone.input_channels == 7
    assert backbone.output_size(4, 5) == (4, 5)
    assert not backbone.state_dict()


@pytest.mark.parametrize("stored", [torch.float16, torch.bfloat16, torch.float64, torch.int16])
def test_stored_maps_are_read_in_the_models_dtype(stored: torch.dtype) -> None:
    maps = torch.arange(8).view(1, 2, 2, 2).to(stored)
    assert PrecomputedMaps(channels=2)(maps).dtype == torch.float32
    assert PrecomputedMaps(channels=2).double()(maps).dtype == torch.float64


def test_gradients_reach_the_maps() -> None:
    maps = torch.zeros(1, 2, 3, 3, requires_grad=True)
    PrecomputedMaps(channels=2)(maps).sum().backward()
    assert maps.grad is not None


def test_wrong_channels() -> None:
    with pytest.raises(InputError, match=r"\(N, 1024, H, W\).*\(1, 512, 8, 14\)"):
        PrecomputedMaps(channels=1024)(torch.zeros(1, 512, 8, 14))
