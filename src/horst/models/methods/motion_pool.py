"""MotionPool: features on a coarse grid and around the strongest motion. It has no weights, so few clips are enough.

With x the maps of a frame, in cells:

    E_t = max(decay E_{t-1}, blur(max(|x_t - x_{t-1}| / |x_t| - threshold, 0)))      how much moved, lately
    c_t = c_{t-1} + (centre of the peaks of E_t - c_{t-1}) / 2                       where; at first the middle
    f_t = [x_t averaged on a grid; x_t averaged on cells of a square around c_t]
    s_t = s_{t-1} + smoothing (f_t - s_{t-1}),   s_0 = f_0
    y_t = [s_t; s_t - f_0]

The grid says where things are, the square what moves, for example the shape of a hand, and the differences how the
scene changed. The camera does not move.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from horst.config import check_entries
from horst.layers import CoreConfig, CoreStep, Memory, RecurrentCore, register_core
from horst.models.predictor import PredictorConfig
from horst.models.registry import register_model
from horst.registry import Part

PEAK = 0.3  # cells with less than this part of the largest squared motion do not count for its centre
STILL = 1e-6  # below this squared motion the centre stays


@dataclass(frozen=True, kw_only=True, slots=True)
class MotionPoolConfig(CoreConfig):
    """Pooling on a grid and around the motion."""

    name, title = "motion_pool", "MotionPool"
    grid: tuple[int, int] = (3, 4)  # rows and columns
    focus: int = 3  # rows and columns of the square around the motion
    side: float = 0.4  # of the square, as a fraction of the height of the map
    motion_channels: int = 112  # the first channels of the map, in which motion is measured: those of the finest maps
    threshold: float = 0.25  # relative change of a cell that does not count as motion
    decay: float = 0.85  # of the motion, per frame
    smoothing: float = 0.4  # the weight of the newest frame

    def __post_init__(self) -> None:
        CoreConfig.__post_init__(self)
        check_entries(self.name, self, side="0..1", threshold="0..", decay="0..1", smoothing="0..1")

    @property
    def about(self) -> str:
        (rows, columns), focus = self.grid, self.focus
        return f"MotionPool, a grid of {rows} x {columns} and {focus} x {focus} around the motion"


@register_core(MotionPoolConfig)
class MotionPool(RecurrentCore):
    """y_t, a vector for each frame."""

    config: MotionPoolConfig

    def __init__(self, config: MotionPoolConfig) -> None:
        super().__init__(config)
        rows, columns = config.grid
        self.pooled = config.in_channels * (rows * columns + config.focus**2)
        self.channels = 2 * self.pooled
        # there is no parameter that has the device and precision of the core
        self.register_buffer("_like", torch.empty(0), persistent=False)

    def memory(self, height: int, width: int) -> dict[str, tuple[int, ...]]:
        moving = min(self.config.motion_channels, self.config.in_channels)
        maps = {"last": (moving, height, width), "motion": (height, width), "centre": (2,)}
        return {**maps, "smooth": (self.pooled,), "first": (self.pooled,)}

    def output_size(self, height: int, width: int) -> tuple[int, int]:
        return 1, 1

    def advance(self, x: Tensor, memory: Memory, count: Tensor) -> tuple[CoreStep, Memory]:
        config, new = self.config, (count == 0).unsqueeze(-1)
        seen = x[:, : config.motion_channels]
        last = torch.where(new[..., None, None], seen, memory["last"])
        size = seen.abs().mean((1, 2, 3)).clamp_min(torch.finfo(x.dtype).tiny)
        moved = ((seen - last).abs().mean(1) / size[:, None, None] - config.threshold).clamp_min(0)
        blurred = F.avg_pool2d(moved.unsqueeze(1), 3, 1, 1, count_include_pad=False).squeeze(1)
        motion = torch.maximum(config.decay * memory["motion"], blurred)
        centre = self._follow(motion, memory["centre"])
        grid = F.adaptive_avg_pool2d(x, config.grid).flatten(1)
        features = torch.cat([grid, self._around(x, centre).flatten(1)], 1)
        first = torch.where(new, features, memory["first"])
        before = torch.where(new, features, memory["smooth"])
        smooth = before + config.smoothing * (features - before)
        y = torch.cat([smooth, smooth - first], 1)[..., None, None]
        # a copy, so that the state does not keep the clip alive
        after = {"last": seen.clone(), "motion": motion, "centre": centre, "smooth": smooth, "first": first}
        return CoreStep({"y": y}), after

    def _follow(self, motion: Tensor, centre: Tensor) -> Tensor:
        """The next centre (B, 2), x and y in -1..1, after the motion (B, H, W)."""
        height, width = motion.shape[-2:]
        squared = motion.square()
        largest = squared.amax((-2, -1))
        weight = squared * (squared > PEAK * largest[:, None, None])
        total = weight.sum((-2, -1)).clamp_min(torch.finfo(motion.dtype).tiny)
        columns, rows = _centres(width, motion), _centres(height, motion)
        target = torch.stack([weight.sum(-2) @ columns, weight.sum(-1) @ rows], 1) / total.unsqueeze(-1)
        return torch.where((largest > STILL).unsqueeze(-1), (centre + target) / 2, centre)

    def _around(self, x: Tensor, centre: Tensor) -> Tensor:
        """The means (B, C, n, n) of the cells of a square around the centre, moved into the map where it leaves it."""
        height, width = x.shape[-2:]
        half = self.config.side * height / 2  # cells
        across = self._samples(centre[:, 0], width, half)
        return torch.einsum("bih,bchw,bjw->bcij", self._samples(centre[:, 1], height, half), x, across)

    def _samples(self, centre: Tensor, cells: int, half: float) -> Tensor:
        """(B, n, cells): the weight of each cell in the n parts of a square, by linear interpolation at two points."""
        inside = max(0.0, 1 - 2 * half / cells)
        middle = (centre.clamp(-inside, inside) + 1) / 2 * cells - 0.5
        points = (middle.unsqueeze(-1) + half * _centres(2 * self.config.focus, centre)).clamp(0, cells - 1)
        every = torch.arange(cells, device=centre.device, dtype=centre.dtype)
        weights = (1 - (points.unsqueeze(-1) - every).abs()).clamp_min(0)  # (B, 2 n, cells)
        return weights.unflatten(1, (-1, 2)).mean(2)


def _centres(cells: int, like: Tensor) -> Tensor:
    """The centres of so many cells that divide -1..1."""
    return (2 * torch.arange(cells, device=like.device, dtype=like.dtype) + 1) / cells - 1


@register_model
def motion_pool() -> PredictorConfig:
    """What `horst teach` puts a classifier on: MotionPool over EfficientNet-Lite0 with its ImageNet weights."""
    backbone = Part(name="efficientnet_lite0", options={"features_at": "s16+s32", "pretrained": True})
    head = Part(name="recognition", options={"num_classes": 2, "norm": "batch"})
    core = MotionPoolConfig(in_channels=432)
    return PredictorConfig(backbone=backbone, core=core, head=head, size=(288, 384), fps=12.0)
