"""Early recognition of known actions and of "nothing", the last class: an unknown action, or a scene that is still.

    z = the normalized mean of y_t,   l = FC(z)
    near  = max over actions k of cos(z, p_k)              p_k: the prototype of an action
    moved = |c (z - still)|                                c: 1 for channels that are constant while a scene is still
    values = [near - rise min(moved, typical); moved]      a frame in which less has moved is less near
    l_nothing = max(l_nothing, max over k of l_k + max(slope (threshold - values)))

A linear layer alone is sure of its answer for features that are far from all that it was trained on.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from horst.heads.base import Logits, register_head
from horst.heads.linear import RecognitionHead
from horst.heads.pool import Norm

NEVER = -1e4  # a threshold that no value is below


class Rejection(nn.Module):
    """What decides that a frame shows none of the actions. It is not trained: `horst.finetune` sets it."""

    prototypes: Tensor  # (actions, C), of length 1
    still: Tensor  # (C,)
    constant: Tensor  # (C,), 1 or 0
    rise: Tensor  # of near, for each unit of moved
    typical: Tensor  # of moved
    threshold: Tensor  # (2,), of the values
    slope: Tensor  # (2,)

    def __init__(self, channels: int, actions: int) -> None:
        super().__init__()
        shapes = {"prototypes": (actions, channels), "still": (channels,), "constant": (channels,)}
        for name, shape in {**shapes, "rise": (), "typical": ()}.items():
            self.register_buffer(name, torch.zeros(shape))
        self.register_buffer("threshold", torch.full((2,), NEVER))
        self.register_buffer("slope", torch.ones(2))

    def measure(self, z: Tensor) -> Tensor:
        """(..., 2): near and moved of features z (..., C)."""
        near = (F.normalize(z, dim=-1) @ self.prototypes.mT).amax(-1)
        return torch.stack([near, ((z - self.still) * self.constant).norm(dim=-1)], -1)

    def values(self, measured: Tensor) -> Tensor:
        """(..., 2), which the thresholds apply to."""
        near, moved = measured.unbind(-1)
        return torch.stack([near - self.rise * torch.minimum(moved, self.typical), moved], -1)

    def forward(self, logits: Tensor, measured: Tensor) -> Tensor:
        """The logits (..., actions + 1) after rejection."""
        actions, nothing = logits[..., :-1], logits[..., -1:]
        rejected = (self.slope * (self.threshold - self.values(measured))).amax(-1, keepdim=True)
        return torch.cat([actions, torch.maximum(nothing, actions.amax(-1, keepdim=True) + rejected)], -1)


@register_head("open_recognition")
class OpenRecognitionHead(RecognitionHead):
    """`RecognitionHead` whose last class is "nothing"."""

    classifiers = ("fc", "rejection")

    def __init__(self, channels: int, *, num_classes: int, norm: Norm = "none") -> None:
        super().__init__(channels, num_classes=num_classes, norm=norm)
        self.rejection = Rejection(channels, num_classes - 1)

    def forward(self, *, y: Tensor, valid: Tensor | None = None) -> Logits:
        (z,) = self.pool(valid, y=y)
        return Logits(self.rejection(self.fc(z), self.rejection.measure(z)))
