"""A model over whole clips, tensors in and tensors out: what training compiles, captures and differentiates.

No lengths are passed: a model is causal, so what stands in the padding after a clip's end cannot change what was said
before it. It is left out of the loss and of the heads' batch norms by `valid`; those of a backbone see it, black.
"""

from __future__ import annotations

from contextlib import nullcontext

import torch
from torch import Tensor, nn

from horst.models import Predictor
from horst.training.config import Loss
from horst.training.losses import feature_loss


class Network(nn.Module):
    """(frames (B, T, 3, H, W), valid (B, T)) -> the tensors of `Logits`, and last the loss of foretold features."""

    def __init__(
        self,
        model: Predictor,
        *,
        freeze_backbone: bool = False,
        autocast: torch.dtype | None = None,
        foretold: Loss | None = None,
    ) -> None:
        """`autocast`: the precision of a captured graph, which cannot take it from around it.

        `foretold`: how far foretold features are from the real ones, (B,) behind the logits; None: nobody asks.
        """
        super().__init__()
        self.model, self.freeze_backbone, self.autocast, self.foretold = model, freeze_backbone, autocast, foretold
        self.complete = False
        """Sequence completion: in training, an unrolling head reads the frames that really follow."""
        if freeze_backbone:
            model.backbone.requires_grad_(False)
        self.train()

    def train(self, mode: bool = True) -> Network:
        super().train(mode)
        if self.freeze_backbone:
            self.model.backbone.eval()  # its batch norms are frozen too
        return self

    def forward(self, frames: Tensor, valid: Tensor) -> tuple[Tensor, ...]:
        model = self.model
        outside = torch.autocast(frames.device.type, self.autocast) if self.autocast is not None else nullcontext()
        with outside:
            with torch.no_grad() if self.freeze_backbone else nullcontext():
                maps = model.backbone(frames.flatten(0, 1)).unflatten(0, frames.shape[:2])
            out, _ = model.core(maps)
            unrolled = {"unroll": list(range(frames.shape[1], 0, -1)), "complete": self.complete and self.training}
            logits = model.read(out, valid, **(unrolled if model.head.unrolls else {}))
            found = tuple(logits[task] for task in logits)
            if self.foretold is None or not self.training:
                return found
            future = out.future if logits.future is None else logits.future
            assert future is not None  # `predicts_features` was asked before
            return *found, feature_loss(
                future, maps.mean((-2, -1)), valid, self.foretold.distance, self.foretold.temperature
            )
