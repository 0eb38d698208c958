"""Early action recognition (appendix, "Early Action Recognition"): the label of an action that has begun.

Shapes: B batch, T frames, C channels, H x W map. All heads take maps (B, T, C, H, W), or (B, C, H, W) for one frame.
"""

from __future__ import annotations

from torch import Tensor, nn

from horst.config import check_positive
from horst.heads.base import Head
from horst.heads.logits import Logits
from horst.heads.pool import Norm, Pool


class RecognitionHead(Head):
    """Global average pool of y_t, then FC: logits at every frame, of which the last observed one is trained."""

    task = "recognition"

    def __init__(self, channels: int, *, num_classes: int, norm: Norm = "none") -> None:
        super().__init__()
        check_positive(num_classes=num_classes)
        self.pool = Pool(channels, ("y",), norm)
        self.fc = nn.Linear(channels, num_classes)

    @property
    def channels(self) -> int:
        return self.fc.in_features

    @property
    def classes(self) -> dict[str, int]:
        return {"action": self.fc.out_features}

    def forward(self, *, y: Tensor, valid: Tensor | None = None) -> Logits:
        (pooled,) = self.pool(valid, y=y)
        return Logits(self.fc(pooled))
