"""Max pooling: values and gradients of PyTorch's, to the last bit."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from horst.errors import InputError
from horst.ops.fused.pool import max_pool


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize(("stride", "shape"), [(2, (2, 5, 6, 8)), (2, (1, 70, 7, 9)), (3, (2, 4, 7, 6))])
def test_equals_pytorch(device: str, dtype: torch.dtype, stride: int, shape: tuple[int, ...], last: bool) -> None:
    """With ties, sizes that no window fills, and both memory layouts."""
    torch.manual_seed(0)
    x = torch.randint(-2, 3, shape, device=device).to(dtype)
    if last:
        x = x.contiguous(memory_format=torch.channels_last)
    x.requires_grad_()
    wanted, found = F.max_pool2d(x, stride), max_pool(x, stride)
    assert torch.equal(found, wanted)
    probe = torch.randn(wanted.shape, device=device).to(dtype)
    assert torch.equal(*(torch.autograd.grad(y, x, probe)[0] for y in (wanted, found)))


def test_a_place_in_the_window_fits_into_a_byte(device: str) -> None:
    with pytest.raises(InputError, match="stride is 16"):
        max_pool(torch.zeros(1, 1, 16, 16, device=device), 16)


def test_nan_wins(device: str) -> None:
    x = torch.zeros(1, 3, 4, 4, device=device)
    x[0, 1, 2, 1] = torch.nan
    assert torch.equal(max_pool(x, 2).isnan(), F.max_pool2d(x, 2).isnan())
    assert max_pool(x, 2).isnan().sum() == 1
