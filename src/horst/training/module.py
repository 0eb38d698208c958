"""The training and validation steps, for Lightning."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor
from torch.optim.lr_scheduler import LambdaLR

from horst.data.batches import Batch
from horst.data.example import UNKNOWN, Annotations
from horst.data.loader import world_and_rank
from horst.data.module import lightning
from horst.data.segments import evaluated
from horst.errors import DivergedError
from horst.evaluation.detection import FrameCollector, collector
from horst.evaluation.evaluate import clip_output
from horst.evaluation.measure import measure, primary_metric
from horst.evaluation.predictions import Collector, positions
from horst.heads import TASKS, Logits
from horst.models import Predictor
from horst.training.config import RunConfig
from horst.training.losses import ClipLoss, clip_loss, frame_weights
from horst.training.network import CUDAGraphNetwork, TrainingNetwork
from horst.training.speed import resolve

AUTOCAST = {"32-true": None, "bf16-mixed": torch.bfloat16, "16-mixed": torch.float16}
REMEDY = (
    "lower optimiser.lr, set trainer.clip_gradient, or train in 32-true. "
    "The weights of the last saved epoch are unchanged"
)
OLD_CALLBACKS = {"Keeper": "CheckpointCallback", "Averages": "AveragedWeights", "Completion": "CompletionCallback"}
"""The names of callbacks in checkpoints of earlier versions."""


class TrainingModule(lightning.LightningModule):
    """A model, and how a run's config trains it."""

    def __init__(self, model: Predictor, config: RunConfig, annotations: Annotations) -> None:
        super().__init__()
        self.run = config = resolve(config)[0]
        self.annotations = annotations
        self.network = TrainingNetwork(
            model,
            freeze_backbone=config.model.freeze_backbone,
            autocast=AUTOCAST[config.trainer.precision] if config.trainer.graphs else None,
            features=config.loss if config.loss.features else None,
        )
        self.monitor = config.trainer.monitor or primary_metric(annotations.task, config.data.clip, annotations.name)
        self.metrics: dict[str, float] = {}  # of the epoch's validation, the same in every process; empty without one
        self._graphs: CUDAGraphNetwork | None = None
        self.register_buffer("_frequencies", class_frequencies(annotations) if config.loss.balance else None, False)
        self._collector: Collector | FrameCollector  # while it validates
        self._anticipated = len(positions(annotations.task, config.data.clip))
        self._pending: tuple[Tensor, str, torch.cuda.Event | None] | None = None

    _frequencies: Tensor | None

    @property
    def model(self) -> Predictor:
        return self.network.model

    def on_fit_start(self) -> None:
        if self.run.trainer.graphs and self.device.type == "cuda":
            steps = self.epoch_steps() * self.run.trainer.epochs
            self._graphs = CUDAGraphNetwork(self.network, processes=self.trainer.world_size, steps=steps)

    def training_step(self, batch: Batch, index: int) -> dict[str, Any] | None:
        self.check_loss()
        self.network.completion = self.current_epoch < self.run.trainer.completion_epochs
        processes, _ = world_and_rank()
        if not len(batch) and processes == 1:
            return None  # all its clips are bad
        given = batch if len(batch) else self._blank(batch)
        if given.frames.shape[1] == 1 and not self.model.head.unrolls:
            # Weights that read the past get no gradient from a single frame, and other processes would wait for it.
            frames = torch.cat([given.frames, torch.zeros_like(given.frames)], 1)
            given = replace(given, frames=frames, observed=F.pad(given.observed, (0, 1)))
        valid = given.valid
        weights = frame_weights(self.run.loss, valid, given.observed, self._anticipated)
        if self.run.trainer.window is not None:
            return self._windows(given, valid, weights, index)
        total, clips = self._loss((self._graphs or self.network)(given.frames, valid), given.labels, weights, valid)
        count = clips.labelled.sum().float()
        known = torch.stack([count, (~torch.isfinite(total)).float()]).detach()
        if processes > 1:  # each clip counts the same, however many clips of a batch could be read
            dist.all_reduce(known)
        loss = total * (processes / known[0].clamp_min(1))
        self._check_later(known[1], f"epoch {self.current_epoch}, batch {index} (clips {_first_ids(batch)})")
        return {
            "loss": loss,  # Lightning divides it by accumulate
            "mean_loss": loss.detach(),
            "right": torch.where(clips.labelled, clips.right, 0.0).sum(),
            "count": count,
            "frames": int(given.lengths.sum()),
        }

    def _loss(
        self, found: tuple[Tensor, ...], labels: Mapping[str, Tensor], weights: Tensor, valid: Tensor
    ) -> tuple[Tensor, ClipLoss]:
        """The sum over clips, and by clip."""
        tasks = [task for task in TASKS if task in self.model.head.classes]
        video = self.model.head.video
        tasks += [] if video is None else ["ahead"] if video.sequence is None else ["ahead", "sequence"]
        logits = Logits(**dict(zip(tasks, found, strict=False)))
        clips = clip_loss(logits, labels, weights, valid, self.run.loss, self._frequencies)
        total = clips.loss.sum()
        if self.run.loss.features:
            total = total + self.run.loss.features * torch.where(clips.labelled, found[-1], 0.0).sum()
        return total, clips

    def _windows(self, batch: Batch, valid: Tensor, weights: Tensor, index: int) -> dict[str, Any]:
        """A step of truncated back-propagation: the gradients of all windows but the last are added here."""
        accumulate = self.run.trainer.accumulate
        if index % accumulate == 0:
            self.optimizers().zero_grad()  # type: ignore[union-attr]
        count, right, total = float(len(batch)), weights.new_zeros(()), weights.new_zeros(())
        loss: Tensor | None = None
        for window, found in self.network.windows(batch.frames, valid, self.run.trainer.window or 0):
            if loss is not None:
                self.trainer.strategy.backward(loss / (count * accumulate), None)
            labels = {task: of[:, window] for task, of in batch.labels.items()}
            loss, clips = self._loss(found, labels, weights[:, window], valid[:, window])
            total = total + loss.detach()
            known = (labels["action"] != UNKNOWN).sum(1)
            right = right + (clips.right * known / (batch.labels["action"] != UNKNOWN).sum(1).clamp_min(1)).sum()
        assert loss is not None
        self._check_later((~torch.isfinite(total)).float(), f"epoch {self.current_epoch}, batch {index}")
        mean = {"mean_loss": total / count, "right": right, "count": weights.new_tensor(count)}
        return {"loss": loss / count, "frames": int(batch.lengths.sum()), **mean}

    def optimizer_zero_grad(self, epoch: int, batch_idx: int, optimizer: Any) -> None:
        if self.run.trainer.window is None:
            super().optimizer_zero_grad(epoch, batch_idx, optimizer)

    def _check_later(self, bad: Tensor, where: str) -> None:
        """Check the loss one step later, when a GPU has computed it: waiting for it would take time."""
        if bad.device.type == "cuda":
            copied = torch.cuda.Event()
            self._pending = bad.to("cpu", non_blocking=True), where, copied
            copied.record()
        else:
            self._pending = bad, where, None
            self.check_loss()

    def check_loss(self) -> None:
        """DivergedError, in all processes, if the loss of the previous step was NaN or infinite."""
        if self._pending is None:
            return
        bad, where, copied = self._pending
        self._pending = None
        if copied is not None:
            copied.synchronize()  # waits for the forward pass only
        if bad.item():
            raise DivergedError(f"the loss is not a number in {where}: {REMEDY}")

    def check_weights(self) -> None:
        """DivergedError if a weight is NaN or infinite, which the last step of an epoch may cause."""
        norms = torch._foreach_norm([p.detach() for p in self.parameters()], torch.inf)
        if not torch.isfinite(torch.stack(norms)).all():
            raise self._diverged("weights")

    def _diverged(self, what: str) -> DivergedError:
        return DivergedError(f"the {what} are not numbers after epoch {self.current_epoch}: {REMEDY}")

    def on_validation_epoch_start(self) -> None:
        self._collector = collector(self.annotations.split("val"), self.run.data.clip)

    def validation_step(self, batch: Batch, index: int) -> None:
        logits = None
        if len(batch):
            logits = clip_output(self.model, batch.frames, batch.lengths, self.network.autocast).logits
            if logits.action.isnan().any():
                raise self._diverged(f"predictions for validation clips {_first_ids(batch)}")
        self._collector.add(batch, logits)

    def on_validation_epoch_end(self) -> None:
        self.metrics = measure(self._collector.predictions(), evaluated(self.annotations))
        del self._collector

    def configure_optimizers(self) -> Any:
        optimiser, epoch = self.new_optimiser(), self.epoch_steps()
        steps = epoch * self.run.trainer.epochs
        schedule = LambdaLR(optimiser, lambda step: self.run.schedule.factor(step, steps, epoch))
        return {"optimizer": optimiser, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    def new_optimiser(self) -> torch.optim.Optimizer:
        return self.run.optimiser.create(self.parameters(), self.model.backbone.finetuned)

    def epoch_steps(self) -> int:
        """Steps in an epoch. Lightning would open the loader for it, before a resumed run knows its position."""
        clips, batches = len(self.annotations.split("train").examples), self.run.batches
        size = batches.size * self.trainer.world_size
        count = clips // size if batches.drop_last else math.ceil(clips / size)
        return math.ceil(count / self.run.trainer.accumulate)

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        states = checkpoint.get("callbacks", {})
        checkpoint["callbacks"] = {OLD_CALLBACKS.get(name, name): state for name, state in states.items()}

    def _blank(self, batch: Batch) -> Batch:
        """A clip of padding, for a process whose clips are all bad: it must take part in the step."""
        model, length, observed = self.model, torch.zeros(1, dtype=torch.int64), torch.zeros((1, 2), dtype=torch.bool)
        frames = torch.zeros((1, 2, model.backbone.input_channels, *self.run.data.clip.size), dtype=torch.uint8)
        if model.config.backbone.name == "maps":
            frames = torch.zeros((1, 2, model.backbone.input_channels, *model.size))
        shape = (1,) if model.head.video is None else (1, 2)
        labels = {task: torch.full(shape, UNKNOWN) for task in model.head.classes}
        if model.head.video is not None:
            labels["ahead"] = torch.full((1, 2, len(model.head.video.horizons)), UNKNOWN)
            if (sequence := model.head.video.sequence) is not None:
                labels["sequence"] = torch.full((1, 2, sequence.steps), UNKNOWN)
        return replace(batch, frames=frames, lengths=length, observed=observed, labels=labels).to(self.device)


def class_frequencies(annotations: Annotations) -> Tensor:
    """(K,) how often each action occurs in training, at least once."""
    count = torch.ones(len(annotations.classes["action"]))
    for example in annotations.split("train").examples:
        for label in [s.label for s in example.segments] or [example.labels.get("action", UNKNOWN)]:
            count[label] += label != UNKNOWN
    return count / count.sum()


def _first_ids(batch: Batch) -> str:
    return ", ".join(batch.ids[:4]) + (", ..." if len(batch) > 4 else "")
