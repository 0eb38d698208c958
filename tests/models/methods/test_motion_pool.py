"""MotionPool finds where the motion is, and needs nothing but frames."""

import torch
import torch.nn.functional as F
from torch import Tensor

from horst.layers import create_core
from horst.models.methods.motion_pool import MotionPool, MotionPoolConfig


def pool(**options: object) -> MotionPool:
    core = create_core(MotionPoolConfig(in_channels=2, motion_channels=2, **options))  # type: ignore[arg-type]
    assert isinstance(core, MotionPool)
    return core


def moving_square(column: int, row: int, frames: int = 12) -> Tensor:
    """A textured map (1, T, 2, 18, 24) in which a square of 4 x 4 cells around a place changes in every frame."""
    noise = torch.Generator().manual_seed(3)
    still = torch.rand(1, 1, 2, 18, 24, generator=noise).repeat(1, frames, 1, 1, 1)
    still[..., row - 2 : row + 2, column - 2 : column + 2] += 4 * torch.rand(1, frames, 2, 4, 4, generator=noise)
    return still


def test_the_centre_follows_the_motion() -> None:
    for column, row in ((4, 4), (18, 13), (12, 9)):
        _, state = pool()(moving_square(column, row))
        x, y = state.memory["centre"][0]
        assert abs((x + 1) / 2 * 24 - column) < 1.5
        assert abs((y + 1) / 2 * 18 - row) < 1.5


def test_without_motion_the_square_is_in_the_middle() -> None:
    still = torch.rand(1, 1, 2, 18, 24).expand(1, 5, 2, 18, 24)
    out, state = pool()(still)
    assert state.memory["centre"].tolist() == [[0.0, 0.0]]
    assert out.y[0, 1:, pool().pooled :].abs().max() < 1e-6  # nothing changed since the first frame


def test_the_square_is_sampled_as_grid_sample_does() -> None:
    core, x = pool(side=0.5), torch.rand(1, 2, 18, 24, dtype=torch.float64)
    centre = torch.tensor([[0.2, -0.3]], dtype=torch.float64)
    box = torch.tensor([[[0.5 * 18 / 24, 0, 0.2], [0, 0.5, -0.3]]], dtype=torch.float64)
    grid = F.affine_grid(box, (1, 2, 6, 6), align_corners=False)
    wanted = F.avg_pool2d(F.grid_sample(x, grid, align_corners=False, padding_mode="border"), 2)
    torch.testing.assert_close(core._around(x, centre), wanted)


def test_the_square_stays_inside_the_map() -> None:
    core, x = pool(), torch.rand(1, 2, 18, 24)
    corner, beyond = torch.tensor([[0.7, 0.6]]), torch.tensor([[1.0, 1.0]])
    torch.testing.assert_close(core._around(x, corner), core._around(x, beyond))
