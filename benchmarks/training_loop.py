"""What the training loop costs: steps of `horst train` against a bare loop over the same batch.

    python -m benchmarks.training_loop [--device cpu] [--steps 60] [--preset tiny]

One is the loop of a run: Lightning's trainer with the callbacks that show progress, keep averages and checkpoints. The
other is forward, loss, backward and step, written down. Both train the same model with the same optimiser on one batch
that lies ready, in turns of a few steps so that a busy machine slows both, and must come to the same losses.
"""

from __future__ import annotations

import argparse
import copy
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from horst.console import Console
from horst.data.augmenter import NO_AUGMENT
from horst.data.batches import Batch
from horst.data.clips import ClipConfig
from horst.data.config import DataConfig
from horst.data.example import Annotations, Example
from horst.data.module import ClipDataModule
from horst.data.source import Source
from horst.models import Predictor
from horst.training.build import build_model
from horst.training.callbacks import AveragedWeights
from horst.training.checkpoints import CheckpointCallback
from horst.training.config import Batches, ModelChoice, RunConfig, Schedule, TrainerOptions
from horst.training.fit import create_trainer
from horst.training.module import TrainingModule
from horst.training.progress import ProgressCallback
from horst.training.run import Run

NARROW = {"backbone": {"name": "stem", "widths": [8, 8, 16]}, "hidden": [16, 16], "stride": [1, 2], "order": 3}
PRESETS: dict[str, tuple[dict[str, Any], int, int, int]] = {
    "tiny": (NARROW, 8, 24, 32),
    "small": ({}, 8, 24, 112),
}
"""Options of horst_tiny, clips, frames, pixels each way."""
BLOCK = 6
"""Steps that each of the two runs before it is the other's turn."""
LIMIT = 1e-3
"""Relative difference of the losses; sums in another order make it, and the steps that follow."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--steps", type=int, default=60, help="steps of each loop (default: 60)")
    parser.add_argument("--preset", choices=tuple(PRESETS), default="tiny")
    args = parser.parse_args()
    if args.steps < 3 * BLOCK:
        parser.error(f"--steps starts at {3 * BLOCK}")
    load = os.getloadavg()[0]
    print(f"{args.preset} on {args.device}, {torch.get_num_threads()} threads, {args.steps} steps of each")
    print(f"load of the machine before: {load:.1f}" + (" (busy: do not trust the times)" if load > 1 else ""))
    with tempfile.TemporaryDirectory() as folder:
        race = Race(args.preset, args.device, args.steps - args.steps % BLOCK)
        race.run(Run(Path(folder)))
    race.report()


class Race:
    """Two loops over copies of one model, each with its losses and the seconds of its turns."""

    def __init__(self, preset: str, device: str, steps: int) -> None:
        options, clips, frames, pixels = PRESETS[preset]
        self.steps, self.device = steps, torch.device(device)
        self.config = RunConfig(
            name="benchmark",
            model=ModelChoice(name="horst_tiny", options={"variant": "released", **options}),
            data=DataConfig(source="made here", clip=ClipConfig(size=(pixels, pixels))),
            batches=Batches(size=clips),
            augment=NO_AUGMENT,
            schedule=Schedule(decay=0),
            trainer=TrainerOptions(epochs=1, accelerator="cuda" if device == "cuda" else "cpu", devices=1),
        )
        examples = [
            Example(id=str(i), split="train", media=Path("none"), labels={"action": i % 16})
            for i in range(clips * steps)
        ]
        classes = {"action": tuple(f"action {i}" for i in range(16))}
        self.annotations = Annotations(
            name="random", task="recognition", examples=tuple(examples), classes=classes, mirror=()
        )
        self.batch = random_batch(clips, frames, pixels).to(self.device)
        self.model = build_model(self.config, self.annotations).to(self.device)
        self.bare = Bare(copy.deepcopy(self.model), self.batch, self.config)
        self.times: list[tuple[float, float]] = []
        self.losses: list[Tensor] = []
        self._mark = 0.0

    def run(self, run: Run) -> None:
        module = TrainingModule(self.model, self.config, self.annotations)
        averages = AveragedWeights(None)
        with Path(os.devnull).open("w") as nowhere:
            bar = Losses(Console(file=nowhere, force_terminal=True), self.losses)
            checkpoints = CheckpointCallback(run, averages, minutes=self.config.trainer.checkpoint_minutes)
            trainer = create_trainer(self.config, callbacks=[averages, bar, checkpoints], validate_every=None)
            trainer.fit(module, datamodule=Ready(self))

    def batches(self) -> Iterator[Batch]:
        """The same one again and again; the bare loop takes its turns here."""
        for step in range(self.steps):
            if step % BLOCK == 0:
                self._turn()
            yield self.batch

    def _turn(self) -> None:
        now = self._now()
        if self._mark:  # else nothing was done yet
            for _ in range(BLOCK):
                self.bare.step()
            self.times.append((now - self._mark, self._now() - now))
        self._mark = self._now()

    def _now(self) -> float:
        if self.device.type == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter()

    def report(self) -> None:
        count = len(self.bare.losses)  # the loop of a run has the last turn
        ours, bare = (torch.stack(losses[:count]).cpu() for losses in (self.losses, self.bare.losses))
        error = ((ours - bare).abs() / bare.abs()).max().item()
        print(f"losses of {count} steps, {bare[0]:.4f} to {bare[count - 1]:.4f}: relative difference {error:.1e}")
        if not error <= LIMIT:
            sys.exit("the two loops do not compute the same: their times mean nothing")
        times = self.times[1:]  # the first turn warms up
        ratios = sorted(a / b for a, b in times)
        loop, plain = (1e3 * statistics.median(column) / BLOCK for column in zip(*times, strict=True))
        print(
            f"a step: {loop:.2f} ms in the loop, {plain:.2f} ms bare, ratio {statistics.median(ratios):.3f} "
            f"({ratios[0]:.3f} to {ratios[-1]:.3f} over {len(times)} turns of {BLOCK} steps)"
        )


class Bare:
    """The loop that one would write down."""

    def __init__(self, model: Predictor, batch: Batch, config: RunConfig) -> None:
        self.model, self.batch = model.train(), batch
        self.optimiser = config.optimiser.create(model.parameters())
        self.losses: list[Tensor] = []
        self.last = (torch.arange(len(batch), device=batch.frames.device), batch.lengths.to(batch.frames.device) - 1)

    def step(self) -> None:
        out, _ = self.model(self.batch.frames, lengths=self.batch.lengths)
        loss = F.cross_entropy(out.logits.action[self.last], self.batch.labels["action"])
        self.optimiser.zero_grad()
        loss.backward()
        self.optimiser.step()
        self.losses.append(loss.detach())


class Losses(ProgressCallback):
    """The bar, which remembers the losses."""

    def __init__(self, console: Console, losses: list[Tensor]) -> None:
        super().__init__(console)
        self._losses = losses

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        super().on_train_batch_end(trainer, pl_module, outputs, batch, batch_idx)
        self._losses.append(outputs["mean_loss"])


class Ready(ClipDataModule):
    """A data module whose batches lie ready."""

    def __init__(self, race: Race) -> None:
        super().__init__(race.config.data, batch_size=race.config.batches.size)
        self.race = race
        self.source = Source(race.annotations)  # nothing is read

    def train_dataloader(self) -> Any:
        return Repeated(self.race)


class Repeated:
    def __init__(self, race: Race) -> None:
        self.race = race

    def __iter__(self) -> Iterator[Batch]:
        return self.race.batches()

    def __len__(self) -> int:
        return self.race.steps


def random_batch(clips: int, frames: int, pixels: int) -> Batch:
    """Clips of different lengths, the last of them as long as can be."""
    generator = torch.Generator().manual_seed(0)
    lengths = torch.linspace(frames // 2, frames, clips).long()
    observed = torch.arange(frames) < lengths[:, None]
    return Batch(
        frames=torch.randint(0, 256, (clips, frames, 3, pixels, pixels), generator=generator, dtype=torch.uint8),
        lengths=lengths,
        times=torch.zeros(clips, frames, dtype=torch.float64),
        observed=observed,
        labels={"action": torch.arange(clips) % 16},
        ids=tuple(str(i) for i in range(clips)),
        indices=tuple(range(clips)),
        notes=("",) * clips,
    )


if __name__ == "__main__":
    main()
