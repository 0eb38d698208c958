"""`horst evaluate`."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from horst.cli.options import Device, Evaluated, Json


def evaluate(
    run: Evaluated,
    /,
    *,
    data: Path | None = None,
    split: str = "val",
    weights: Literal["best", "last"] = "best",
    mode: Literal["rulstm", "strict"] | None = None,
    device: Device = "auto",
    batch: int | None = None,
    workers: int | None = None,
    challenge: Path | None = None,
    as_json: Json = False,
) -> None:
    """Evaluate a run: accuracy over the observed part of a clip, or at every time before an action.

    Args:
        data: A data set's YAML file; the run's own data by default.
        split: Split to evaluate on.
        weights: The run's best or last model; the files of the last are RUN/evaluation/<split>-last.*.
        mode: Anticipation: what positions before a video's start show; as in the data's file by default.
        batch: Clips in a batch.
        workers: Processes that decode.
        challenge: Write predictions for the EPIC-Kitchens 100 challenge to this file.
    """
    from horst.cli.evaluation import open_evaluated, show_evaluation

    opened = open_evaluated(run, data=data, weights=weights, mode=mode, device=device, batch=batch, workers=workers)
    show_evaluation(opened, split, challenge=challenge, as_json=as_json)
