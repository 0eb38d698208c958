"""What a run writes while it trains: a checkpoint to resume from, the best and the last model, metrics per epoch."""

import csv
import io
import os
import struct
import time
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

from horst.data.loader import gather
from horst.data.module import lightning
from horst.errors import CheckpointError
from horst.evaluation.measure import is_better
from horst.io import write_text
from horst.models import save
from horst.training.callbacks import AveragedWeights
from horst.training.module import TrainingModule
from horst.training.run import Run

SYNC_EVERY = 20  # steps after which the processes agree whether a checkpoint is due
SAVE_EVERY = 5.0  # seconds between two saves of short epochs: a run of many would spend more time writing than training


class CheckpointCallback(lightning.Callback):
    """Saves epochs, short ones every few seconds, and within long epochs a checkpoint every few minutes.

    An epoch that was validated is always saved, and so is the last one. Models are written first, then the checkpoint:
    after a kill between the two, the epoch is run again and writes the same models.
    """

    def __init__(self, run: Run, averages: AveragedWeights, *, minutes: float) -> None:
        self.run, self.averages, self.minutes = run, averages, minutes
        self.history: list[dict[str, float]] = []
        self.best: float | None = None
        self._sums: dict[str, Any] = {}
        self._saved = self._epoch_start = self._batch_end = time.monotonic()
        self._shared = 0  # the number of bad clips that all processes know of

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        self._saved = time.monotonic()
        self._shared = len(trainer.datamodule.bad_clips)  # after a resume those of the checkpoint
        if trainer.is_global_zero and self.history:
            write_text(self.run.metrics, metrics_csv(self.history))
        self.on_train_epoch_start(trainer, pl_module)  # Lightning skips it when it resumes within an epoch

    def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        self._epoch_start = self._batch_end = time.monotonic()
        if trainer.current_epoch == trainer.max_epochs - 1:  # the last epoch is always validated
            trainer.check_val_every_n_epoch = 1
        if not self._sums:  # else the run was resumed within the epoch
            self._sums = {"loss": 0.0, "right": 0, "count": 0.0, "batches": 0}

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        self._batch_end = time.monotonic()
        if outputs:  # none if all clips of the batch are bad
            found = {**outputs, "loss": outputs["mean_loss"], "batches": 1}
            self._sums = {name: total + found[name] for name, total in self._sums.items()}
        if self._is_checkpoint_due(trainer, pl_module, batch_idx + 1):
            pl_module.check_loss()
            self._checkpoint(trainer)

    def _is_checkpoint_due(self, trainer: Any, module: TrainingModule, batches: int) -> bool:
        steps, rest = divmod(batches, module.run.trainer.accumulate)
        # Validation and the checkpoint of the epoch follow its last batch. Lightning would take a checkpoint between
        # them for that of a finished epoch.
        if rest or batches >= trainer.num_training_batches or (trainer.world_size > 1 and steps % SYNC_EVERY):
            return False
        return bool(trainer.strategy.broadcast(time.monotonic() - self._saved > 60 * self.minutes))

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        pl_module.check_loss()
        pl_module.check_weights()
        self.history.append(self._row(trainer, pl_module))
        options = pl_module.run.trainer
        completing = options.completion_from == "best" and trainer.current_epoch < options.completion_epochs
        value = None if completing else pl_module.metrics.get(pl_module.monitor)
        better = is_better(pl_module.monitor, value, self.best)
        if better:
            self.best = value
        saved = self._is_saved(trainer, pl_module)
        if saved and trainer.is_global_zero:
            with self.averages.evaluated(pl_module), self.run.writing(self.run.last):
                name = pl_module.run.name
                save(pl_module.model, self.run.last, overwrite=True, name=name)
                if better or self.best is None:  # until an epoch is validated, the latest is the best
                    save(pl_module.model, self.run.best, overwrite=True, name=name)
        self._sums = {}
        pl_module.metrics = {}
        if saved:
            self._checkpoint(trainer)
        if trainer.is_global_zero:
            write_text(self.run.metrics, metrics_csv(self.history))
        if saved:
            self._publish(trainer)

    def _is_saved(self, trainer: Any, module: TrainingModule) -> bool:
        if module.metrics or trainer.current_epoch == trainer.max_epochs - 1:
            return True
        return bool(trainer.strategy.broadcast(time.monotonic() - self._saved >= min(SAVE_EVERY, 60 * self.minutes)))

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        with suppress(OSError):  # a full disk, which the error is about
            self._write_bad_clips(trainer)

    def on_fit_end(self, trainer: Any, pl_module: Any) -> None:
        self._write_bad_clips(trainer)
        if trainer.is_global_zero and self.history:  # a run that was killed after its last checkpoint
            write_text(self.run.metrics, metrics_csv(self.history))
        self._publish(trainer)

    def state_dict(self) -> dict[str, Any]:
        sums = {name: float(value) for name, value in self._sums.items()}
        return {"history": self.history, "best": self.best, "sums": sums}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.history, self.best, self._sums = state_dict["history"], state_dict["best"], dict(state_dict["sums"])

    def _row(self, trainer: Any, module: TrainingModule) -> dict[str, float]:
        loss, right, count, batches = (trainer.world_size * value for value in self._means(trainer).values())
        return {
            "epoch": trainer.current_epoch,
            "step": trainer.global_step,
            "lr": trainer.optimizers[0].param_groups[0]["lr"],
            "seconds": self._batch_end - self._epoch_start,
            "train/loss": loss / max(1, batches),
            "train/top1": right / max(1, count),
            **{f"val/{name}": value for name, value in module.metrics.items()},
        }

    def _means(self, trainer: Any) -> dict[str, float]:
        """The sums of this epoch, averaged over processes."""
        sums = {name: float(value) for name, value in self._sums.items()}
        if trainer.world_size > 1 and sums:
            values = torch.tensor(list(sums.values()), device=trainer.strategy.root_device)
            sums = dict(zip(sums, trainer.strategy.reduce(values, reduce_op="mean").tolist(), strict=True))
        return sums

    def _checkpoint(self, trainer: Any) -> None:
        self._sums = self._means(trainer)  # all processes share one checkpoint
        bad = trainer.datamodule.bad_clips
        state = bad.state_dict()
        for tensors, listed in gather({"seen": state["seen"].byte()}, state["bad"]):
            bad.merge({**tensors, "bad": listed})  # so that all processes resume with one list
        self._shared = len(bad)
        unfinished = self.run.unfinished
        try:
            with self.run.writing(self.run.checkpoint):
                trainer.save_checkpoint(unfinished, weights_only=False)
                if trainer.is_global_zero:
                    os.replace(unfinished, self.run.checkpoint)
        except CheckpointError:
            unfinished.unlink(missing_ok=True)
            raise
        self._write_bad_clips(trainer)
        self._publish(trainer)
        self._saved = time.monotonic()

    def _publish(self, trainer: Any) -> None:
        if trainer.is_global_zero:
            self.run.publish()

    def _write_bad_clips(self, trainer: Any) -> None:
        """The first process writes the list of all; another one writes what it found since the last checkpoint."""
        bad, path = trainer.datamodule.bad_clips, self.run.bad_clips(trainer.global_rank)
        if trainer.is_global_zero or len(bad) > self._shared:
            bad.write(path)
        else:
            path.unlink(missing_ok=True)


def check_checkpoint(checkpoint: Path) -> None:
    """CheckpointError if a checkpoint exists and does not match its checksums, which torch does not compare."""
    if not checkpoint.exists():
        return
    try:
        with zipfile.ZipFile(checkpoint) as archive:
            if (bad := archive.testzip()) is not None:
                raise zipfile.BadZipFile(f"the checksum of {bad} differs")
    except (OSError, zipfile.BadZipFile, NotImplementedError, EOFError, ValueError, struct.error) as error:
        raise CheckpointError(f"{checkpoint} cannot be resumed from: it is damaged ({error})") from error


def metrics_csv(rows: list[dict[str, float]]) -> str:
    """Epochs that were not validated leave those columns empty."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(
        {name: f"{value:.6g}" if isinstance(value, float) else value for name, value in row.items()} for row in rows
    )
    return text.getvalue()
