"""The training step and the look at the validation clips, for Lightning."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor

from horst.data.batches import Batch
from horst.data.distributed import world_and_rank
from horst.data.example import Annotations
from horst.data.module import lightning
from horst.errors import DivergedError
from horst.evaluation.evaluate import clip_output
from horst.evaluation.measure import measure, primary_metric
from horst.evaluation.predictions import Collector, positions
from horst.heads import Logits
from horst.models import Predictor
from horst.training.config import RunConfig
from horst.training.graphs import Graphed
from horst.training.losses import clip_loss, frame_weights
from horst.training.network import Network
from horst.training.optimisers import create_optimiser, learning_rate

AUTOCAST = {"32-true": None, "bf16-mixed": torch.bfloat16, "16-mixed": torch.float16}

REMEDY = (
    "lower optimiser.lr, set trainer.clip_gradient, or train in 32-true. "
    "The weights of the last epoch that was kept are as they were"
)


class TrainingModule(lightning.LightningModule):
    """A model, and how a run's config trains it.

    `found` holds the metrics of the latest look at the validation clips, the same on every process.
    """

    def __init__(self, model: Predictor, config: RunConfig, annotations: Annotations) -> None:
        super().__init__()
        self.run = config
        self.annotations = annotations
        autocast = AUTOCAST[config.trainer.precision] if config.trainer.graphs else None
        self.network = Network(
            model,
            freeze_backbone=config.model.freeze_backbone,
            autocast=autocast,
            foretold=config.loss if config.loss.features else None,
        )
        self.monitor = config.trainer.monitor or primary_metric(annotations.task, config.data.clip, annotations.name)
        """The metric by which the best epoch is chosen."""
        self.found: dict[str, float] = {}
        self._graphed: Graphed | None = None
        self._collector: Collector | None = None
        self._anticipated = len(positions(annotations.task, config.data.clip))
        self._pending: tuple[Tensor, str, torch.cuda.Event | None] | None = None

    @property
    def model(self) -> Predictor:
        return self.network.model

    def on_fit_start(self) -> None:
        if self.run.trainer.graphs and self.device.type == "cuda" and self.trainer.world_size == 1:
            self._graphed = Graphed(self.network)

    def training_step(self, batch: Batch, index: int) -> dict[str, Any] | None:
        self.check_finite()
        self.network.complete = self.current_epoch < self.run.trainer.completion_epochs
        processes, _ = world_and_rank()
        if not len(batch) and processes == 1:
            return None  # all its clips were bad: there is nothing to learn from
        given = batch if len(batch) else self._blank(batch)
        if given.frames.shape[1] == 1 and not self.model.head.unrolls:
            # One frame has no past: weights that read it would have no gradient, for which other processes wait.
            given = _with_padding(given)
        valid = given.valid
        found = (self._graphed or self.network)(given.frames, valid)
        logits = Logits(*found[: len(self.model.head.classes)])
        weights = frame_weights(self.run.loss, valid, given.observed, self._anticipated)
        clips = clip_loss(logits, given.labels, weights, valid, self.run.loss)
        count = clips.labelled.sum().float()
        total = clips.loss.sum()
        if self.run.loss.features:
            total = total + self.run.loss.features * torch.where(clips.labelled, found[-1], 0.0).sum()
        finite = torch.isfinite(total)
        known = torch.stack([count, (~finite).float()]).detach()
        if processes > 1:  # batches may differ in how many clips could be read, yet each clip counts the same
            dist.all_reduce(known)
        loss = total * (processes / known[0].clamp_min(1))
        self._remember(known[1], batch, index)
        right = (clips.right & clips.labelled).sum()
        told = {"shown": loss.detach(), "right": right.detach(), "count": count.detach()}
        return {"loss": loss, **told, "frames": int(given.lengths.sum())}  # Lightning divides loss by accumulate

    def _remember(self, bad: Tensor, batch: Batch, index: int) -> None:
        """To be looked at one step later, when a GPU has it ready: to ask at once would make it wait."""
        where = f"epoch {self.current_epoch}, batch {index} (clips {_shown(batch)})"
        if bad.device.type != "cuda":
            self._pending = bad, where, None
            self.check_finite()
            return
        told = bad.to("cpu", non_blocking=True)
        copied = torch.cuda.Event()
        copied.record()
        self._pending = told, where, copied

    def check_finite(self) -> None:
        """Stop where the loss of the step before was not a number, on all processes alike."""
        if self._pending is None:
            return
        bad, where, copied = self._pending
        self._pending = None
        if copied is not None:
            copied.synchronize()  # with the forward pass alone: the GPU goes on with the rest of the step
        if bad.item():
            raise DivergedError(f"the loss is not a number in {where}: {REMEDY}")

    def check_weights(self) -> None:
        """Stop before weights are saved of which one is not a number: the last step of an epoch may have made it."""
        norms = torch._foreach_norm([p.detach() for p in self.parameters()], torch.inf)
        if not torch.isfinite(torch.stack(norms)).all():
            raise DivergedError(f"the weights {self._remedy()}")

    def _remedy(self) -> str:
        return f"are not numbers after epoch {self.current_epoch}: {REMEDY}"

    def on_validation_epoch_start(self) -> None:
        self._collector = Collector(self.annotations.split("val"), self.run.data.clip)

    def validation_step(self, batch: Batch, index: int) -> None:
        assert self._collector is not None
        logits = None
        if len(batch):
            logits = clip_output(self.model, batch.frames, batch.lengths, self.network.autocast).logits
            if logits.action.isnan().any():
                raise DivergedError(f"the predictions for validation clips {_shown(batch)} {self._remedy()}")
        self._collector.add(batch, logits)

    def on_validation_epoch_end(self) -> None:
        assert self._collector is not None
        self.found = measure(self._collector.predictions(), self.annotations)
        self._collector = None

    def configure_optimizers(self) -> Any:
        optimiser = create_optimiser(self.parameters(), self.run.optimiser)
        epoch = self.steps_an_epoch()
        steps = epoch * self.run.trainer.epochs
        schedule = torch.optim.lr_scheduler.LambdaLR(
            optimiser, lambda step: learning_rate(step, steps, epoch, self.run.schedule)
        )
        return {"optimizer": optimiser, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    def steps_an_epoch(self) -> int:
        """Counted here: Lightning would open the loader for it, before a resumed run knows where it goes on."""
        clips, batches = len(self.annotations.split("train").examples), self.run.batches
        size = batches.size * self.trainer.world_size
        count = clips // size if batches.drop_last else math.ceil(clips / size)
        return math.ceil(count / self.run.trainer.accumulate)

    def lr_scheduler_step(self, scheduler: Any, metric: Any) -> None:
        scheduler.step()

    def _blank(self, batch: Batch) -> Batch:
        """A clip of padding alone, for a process whose clips were all bad: it must take part in the step."""
        model = self.model
        frames = torch.zeros((1, 2, model.backbone.input_channels, *self.run.data.clip.size), dtype=torch.uint8)
        if model.config.backbone.name == "maps":
            frames = torch.zeros((1, 2, model.backbone.channels, *model.size))
        blank = replace(
            batch,
            frames=frames,
            lengths=torch.zeros(1, dtype=torch.int64),
            observed=torch.zeros((1, 2), dtype=torch.bool),
            labels={task: torch.full((1,), -1) for task in model.head.classes},
        )
        return blank.to(self.device)


def _shown(batch: Batch) -> str:
    return ", ".join(batch.ids[:4]) + (", ..." if len(batch) > 4 else "")


def _with_padding(batch: Batch) -> Batch:
    frames = torch.cat([batch.frames, torch.zeros_like(batch.frames)], 1)
    return replace(batch, frames=frames, observed=F.pad(batch.observed, (0, 1)))
