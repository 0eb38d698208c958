"""The bar of a training run: frames a second, time left, loss, accuracy, and how much of the time goes into waiting."""

from __future__ import annotations

import time
from typing import Any

import torch
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from horst.console import Console
from horst.data.module import lightning
from horst.training.waiting import Waiting

SHOW_EVERY = 0.5
"""Seconds; to read the loss makes a GPU's CPU wait, so it is not read more often than can be seen."""


class Bar(lightning.Callback):
    """A bar where there is a terminal, and one line an epoch in any case."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.frames_per_second = 0.0
        self._bar: Progress | None = None
        self._task: Any = None
        self._frames, self._begin, self._ready, self._shown = 0, 0.0, 0.0, 0.0
        self._waiting = Waiting(torch.device("cpu"))
        self._loss: Any = None
        self._right: Any = 0
        self._count: Any = 0

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        if not trainer.is_global_zero:
            return
        self._bar = Progress(
            TextColumn("epoch {task.fields[epoch]}"),
            BarColumn(),
            TextColumn("{task.completed:.0f}/{task.total:.0f}"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[told]}"),
            console=self.console,
            transient=True,
            disable=not self.console.is_terminal,
        )
        self._bar.start()
        self.on_train_epoch_start(trainer, pl_module)  # Lightning leaves it out where it goes on inside an epoch

    def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        self._frames, self._right, self._count = 0, 0, 0
        self._begin = self._ready = time.perf_counter()
        self._waiting = Waiting(pl_module.device)
        if self._bar is not None:
            epochs = f"{trainer.current_epoch + 1}/{trainer.max_epochs}"
            if self._task is not None:
                self._bar.remove_task(self._task)
            self._task = self._bar.add_task("", total=trainer.num_training_batches, epoch=epochs, told="")

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        self._waiting.go()

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        self._ready = time.perf_counter()
        self._waiting.done()
        if outputs:  # none of a batch whose clips are all bad
            self._frames += outputs["frames"]
            self._loss = outputs["shown"]
            self._right, self._count = self._right + outputs["right"], self._count + outputs["count"]
        if self._bar is not None and self._ready - self._shown > SHOW_EVERY:
            self._shown = self._ready
            self._bar.update(self._task, completed=batch_idx + 1, told=self._told(trainer))

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        if self._bar is None:
            return
        name = pl_module.monitor
        found = pl_module.found.get(name)
        val = f", validation {name} {100 * found:.1f}%" if found is not None else ""
        self.console.print(f"epoch {trainer.current_epoch + 1}/{trainer.max_epochs}: {self._told(trainer)}{val}")

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        self._stop()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        self._stop()

    def _stop(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def _told(self, trainer: Any) -> str:
        spent = max(1e-9, self._ready - self._begin)
        self.frames_per_second = self._frames * trainer.world_size / spent
        loss = float(self._loss) if self._loss is not None else float("nan")
        right = 100 * float(self._right) / max(1.0, float(self._count))
        speed = f"{self.frames_per_second:,.0f} frames/s, {100 * self._waiting.total / spent:.0f}% waiting for data"
        return f"loss {loss:.3f}, right {right:.1f}%, {speed}"
