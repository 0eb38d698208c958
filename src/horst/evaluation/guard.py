"""Nobody sees what they are to predict: every prediction knows the last moment that it was shown."""

from __future__ import annotations

from horst.config import check_type
from horst.errors import DataError
from horst.evaluation.predictions import Predictions
from horst.video.sampling import Anticipation

SLACK = 1e-6
"""Seconds: packed data rounds times to microseconds."""


def check(predictions: Predictions, mode: Anticipation) -> dict[str, int]:
    """How many examples saw too much, by position ("1s"); positions without any are left out.

    An example saw too much at a position where the latest frame shown until then is later than start - tau_a. RULSTM's
    padding does that to actions right after a video's start. In mode "strict" this is an error, and nothing can be
    counted; in mode "rulstm" it is to be reported.
    """
    check_type("mode", mode, Anticipation)
    late = predictions.last_seen > predictions.limits + SLACK
    if mode == "strict" and late.any():
        row, column = late.nonzero()[0].tolist()
        raise DataError(
            f"{int(late.any(1).sum())} of {len(predictions)} examples saw more than they may: {predictions.ids[row]} "
            f"at {predictions.names()[column]} saw {predictions.last_seen[row, column]:.3f} s, its limit is "
            f"{predictions.limits[row, column]:.3f} s. Set clip.mode to rulstm to count such examples, or use data "
            "that was packed in mode strict"
        )
    return {name: count for name, count in zip(predictions.names(), late.sum(0).tolist(), strict=True) if count}
