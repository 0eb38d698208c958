"""What a head predicts at every frame of a whole video, beside the next action.

    present     the action that is going on
    ahead       for each horizon tau, the first action that starts tau seconds later or after that: the scores of the
                next action and a correction
    sequence    on request: the next Z actions (`horst.heads.sequence`)

An unrolling head predicts `ahead` itself: it unrolls as many steps as each horizon has.

For detection the head itself predicts the action that is going on, so there is no `present`, and `ahead` is what is
going on tau seconds later.
"""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn

from horst.config import check_dropout, check_positive
from horst.errors import ConfigError
from horst.heads.base import Head, Logits
from horst.heads.pool import MapPool, Norm
from horst.heads.sequence import SequenceUnroller


class VideoOutputs(nn.Module):
    """Linear layers on the means of the maps that the head reads."""

    def __init__(
        self,
        head: Head,
        horizons: Sequence[float],
        norm: Norm,
        dropout: float,
        *,
        detection: bool = False,
        sequence: int | None = None,
    ) -> None:
        """`sequence`: the number of next actions, Z; none by default."""
        super().__init__()
        classes = head.classes["action"]
        check_positive(horizons=len(horizons))
        check_dropout(dropout)
        if detection and head.unrolls:
            raise ConfigError("an unrolling head predicts later actions: choose another model for detection")
        if detection and sequence is not None:
            raise ConfigError("clip.sequence is for the task online: leave it out for detection")
        self.horizons = tuple(horizons)  # seconds, in the order of `ahead`
        self.reads = tuple(name for name in head.reads if name in ("y", "e", "statt"))  # others have other channels
        self.pool, self.dropout = MapPool(head.channels, self.reads, norm), nn.Dropout(dropout)
        channels = len(self.reads) * head.channels
        self.present = None if detection else nn.Linear(channels, classes)
        self.ahead = None if head.unrolls else nn.Linear(channels, len(horizons) * classes)
        self.sequence = None if sequence is None else SequenceUnroller(channels, head.channels, classes, sequence)

    def forward(self, logits: Logits, valid: Tensor | None, **maps: Tensor) -> Logits:
        """`logits` for maps (..., C, H, W), with `present`, `ahead` (..., horizons, classes) and `sequence`."""
        pooled = self.dropout(torch.cat(self.pool(valid, **{name: maps[name] for name in self.reads}), -1))
        present = None if self.present is None else self.present(pooled)
        logits = logits if self.sequence is None else replace(logits, sequence=self.sequence(pooled))
        if self.ahead is not None:
            correction = self.ahead(pooled).unflatten(-1, (len(self.horizons), -1))
            return replace(logits, present=present, ahead=logits.action.unsqueeze(-2) + correction)
        assert present is not None  # only detection has none, and no unrolling head
        if pooled.ndim == 2 or logits.action.ndim == 3:  # a stream has its own horizons: the present has none
            several = logits.action.ndim > pooled.ndim
            return replace(logits, present=present.unsqueeze(-2).expand_as(logits.action) if several else present)
        # The nearest horizon stands for the next action.
        return replace(logits, action=logits.action[..., -1, :], present=present, ahead=logits.action)

    def steps(self, fps: float) -> list[int]:
        """The steps that an unrolling head takes for each horizon."""
        return [max(1, round(tau * fps)) for tau in self.horizons]
