"""Whether a state that is carried through a video helps, against clips of a fixed length whose state starts at zero.

    python -m benchmarks.carried_state                   # cad120/horst, clips of 3.5 s, three seeds
    python -m benchmarks.carried_state cad120/gru --seeds 0

Both train a run on whole videos by its recipe, with one fold for each person. "Carried" is the run as it is. "Clips"
cuts each training video into clips, which `augment.speed` cuts elsewhere in every epoch. At a frame of a validation
video it reads the clip that ends there. The validation examples of all folds are pooled, as in a study.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch
from rich.table import Table
from torch import Tensor

from horst.configs import find_study
from horst.console import Console
from horst.data.loader import ClipBatches
from horst.evaluation import evaluate as evaluation
from horst.evaluation.predictions import Predictions, pool
from horst.heads import Logits
from horst.models import Predictor, open_model
from horst.studies.config import Study
from horst.studies.plan import group_folds
from horst.studies.results import remeasure
from horst.training import module
from horst.training.config import RunConfig
from horst.training.fit import train
from horst.training.network import TrainingNetwork

METRICS = ("action/top1@1s", "action/top1@0.5s", "action/recall1@1s", "action/recall1@0.5s")
WINDOWS = 256  # clips of a validation video at once


class ClipNetwork(TrainingNetwork):
    """A network whose windows start without a state."""

    def windows(self, frames: Tensor, valid: Tensor, length: int) -> Iterator[tuple[slice, tuple[Tensor, ...]]]:
        for begin in range(0, frames.shape[1], length):
            window = slice(begin, begin + length)
            yield window, self(frames[:, window], valid[:, window])


def of_clips(model: Predictor, frames: Tensor, length: int) -> Logits:
    """The logits (B, T, ...) at each frame of videos (B, T, ...), from the clip of `length` frames that ends there."""
    first = model(frames[:, :length])[0].logits
    if frames.shape[1] <= length:
        return first
    clips = frames[:, 1:].unfold(1, length, 1).movedim(-1, 2)  # (B, T - length, length, ...)
    parts = [model(part)[0].logits for part in clips.flatten(0, 1).split(WINDOWS)]

    def whole(name: str) -> Any:
        if (begin := getattr(first, name)) is None:
            return None
        later = torch.cat([getattr(part, name)[:, -1] for part in parts])
        return torch.cat([begin, later.unflatten(0, clips.shape[:2])], 1)

    return Logits(**{field.name: whole(field.name) for field in fields(Logits)})


def trained(config: RunConfig, folder: Path, length: int | None) -> tuple[Predictions, Any]:
    network = TrainingNetwork if length is None else ClipNetwork
    with mock.patch.object(module, "TrainingNetwork", network):
        run = train(config, folder, console=Console(quiet=True))
    model = open_model(run.last)

    def clip_output(model: Predictor, frames: Tensor, lengths: Any, *_: Any) -> Any:
        if length is None:
            return model(frames, lengths=lengths)[0]
        return SimpleNamespace(logits=of_clips(model, frames, length))

    with mock.patch.object(evaluation, "clip_output", clip_output):
        return evaluation.predict_and_evaluate(model, ClipBatches(config.data, batch_size=4))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config", nargs="?", default="cad120/horst")
    parser.add_argument("--seconds", type=float, default=3.5, help="length of a clip")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--kinds", nargs="+", choices=("carried", "clips"), default=["carried", "clips"])
    parser.add_argument("changes", nargs="*", metavar="KEY=VALUE")
    args = parser.parse_args()
    folds = group_folds(Study.from_file(find_study("cad120"))).folds
    table = Table("state", "seed", *METRICS)
    for kind in args.kinds:
        rows = []
        for seed in args.seeds:
            found = []
            for fold in folds:
                changes = [f"{key}={value}" for key, value in fold.items()] + [f"seed={seed}", *args.changes]
                config = RunConfig.from_file(args.config, changes)
                length = round(args.seconds * config.data.clip.fps) if kind == "clips" else None
                if length is not None:
                    config = RunConfig.from_file(args.config, [*changes, f"trainer.window={length}"])
                with tempfile.TemporaryDirectory() as folder:
                    found.append(trained(config, Path(folder) / "run", length))
            rows.append(remeasure(pool([predictions for predictions, _ in found]), found[0][1]))
            table.add_row(kind, str(seed), *(f"{100 * rows[-1][metric]:.1f}" for metric in METRICS))
            print(kind, seed, *(f"{metric} {100 * rows[-1][metric]:.1f}" for metric in METRICS), flush=True)
        means = (100 * statistics.mean(row[metric] for row in rows) for metric in METRICS)
        table.add_row(kind, "mean", *(f"{mean:.1f}" for mean in means))
    Console().print(table)


if __name__ == "__main__":
    main()
