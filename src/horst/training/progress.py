"""The progress of a run: frames per second, time left, loss, accuracy, and the share of time spent waiting for data."""

import time
from collections import deque
from typing import Any

import torch
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.table import Column
from rich.text import Text

from horst.console import Console
from horst.data.module import lightning
from horst.evaluation.report import value_with_unit

SHOW_EVERY = 0.5  # seconds: reading the loss makes the CPU wait for the GPU, so it is read only as often as can be seen


class ProgressCallback(lightning.Callback):
    """A progress bar in a terminal, and one line per epoch in any case."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.frames_per_second = 0.0
        self._bar: Progress | None = None
        self._task: Any = None
        self._frames, self._begin, self._ready, self._shown = 0, 0.0, 0.0, 0.0
        self._wait = DataWaitTimer(torch.device("cpu"))
        self._loss_sum, self._right, self._count = 0, 0, 0  # numbers, or tensors of a GPU
        self._batches = 0

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        if not trainer.is_global_zero:
            return
        fixed: dict[str, Any] = {"table_column": Column(no_wrap=True)}  # the others shrink in a narrow terminal
        self._bar = Progress(
            TextColumn("epoch {task.fields[epoch]}", **fixed),
            BarColumn(12),
            TextColumn("{task.completed:.0f}/{task.total:.0f}", **fixed),
            TimeRemainingColumn(**fixed),
            _Status(),
            console=self.console,
            transient=True,
            disable=not self.console.is_terminal,
        )
        self._bar.start()
        self.on_train_epoch_start(trainer, pl_module)  # Lightning skips it when it resumes within an epoch

    def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        self._frames, self._loss_sum, self._batches, self._right, self._count = 0, 0, 0, 0, 0
        self._begin = self._ready = time.perf_counter()
        self._wait = DataWaitTimer(pl_module.device)
        if self._bar is not None:
            epochs = f"{trainer.current_epoch + 1}/{trainer.max_epochs}"
            if self._task is not None:
                self._bar.remove_task(self._task)
            self._task = self._bar.add_task("", total=trainer.num_training_batches, epoch=epochs, status="")

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        self._wait.stop()

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        self._ready = time.perf_counter()
        self._wait.start()
        if outputs:  # none if all clips of the batch are bad
            self._frames += outputs["frames"]
            self._loss_sum = self._loss_sum + outputs["mean_loss"]
            self._batches += 1
            self._right, self._count = self._right + outputs["right"], self._count + outputs["count"]
        if self._bar is not None and not self._bar.disable and self._ready - self._shown > SHOW_EVERY:
            self._shown = self._ready
            self._bar.update(self._task, completed=batch_idx + 1, status=self._status(trainer)[0])

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        if self._bar is None:
            return
        name = pl_module.monitor
        found = pl_module.metrics.get(name)
        val = f", validation {name} {value_with_unit(name, found)}" if found is not None else ""
        status = ", ".join(self._status(trainer))
        self.console.print(f"epoch {trainer.current_epoch + 1}/{trainer.max_epochs}: {status}{val}")

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        self.on_train_end(trainer, pl_module)

    def _status(self, trainer: Any) -> tuple[str, str]:
        """For the bar, and the rest for the line of the epoch."""
        spent = max(1e-9, self._ready - self._begin)
        self.frames_per_second = self._frames * trainer.world_size / spent
        right = 100 * float(self._right) / max(1.0, float(self._count))
        loss = float(self._loss_sum) / max(1, self._batches)
        status = f"loss {loss:.3f}, right {right:.1f}%, {self.frames_per_second:,.0f} frames/s"
        return status, f"{100 * self._wait.total / spent:.0f}% waiting for data"


class _Status(ProgressColumn):
    def render(self, task: Task) -> Text:
        return Text(task.fields["status"], no_wrap=True, overflow="ellipsis")


class DataWaitTimer:
    """The time between `start`, after a step, and `stop`, when the next batch is there.

    A GPU runs behind the CPU: while the CPU waits for the next batch, the GPU may still be busy with the last one. CUDA
    events after a step and before the next one measure how long the GPU was idle.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.total = 0.0  # seconds so far; on a GPU without steps that it has not finished
        self._since = time.perf_counter()
        self._done: torch.cuda.Event | None = None
        self._pairs: deque[tuple[torch.cuda.Event, torch.cuda.Event]] = deque()

    def stop(self) -> None:
        if self._done is not None:
            self._pairs.append((self._done, self._event()))
            self._done = None
        else:  # the first batch of an epoch, or a CPU
            self.total += time.perf_counter() - self._since
        while self._pairs and self._pairs[0][1].query():
            done, ready = self._pairs.popleft()
            self.total += done.elapsed_time(ready) / 1e3

    def start(self) -> None:
        self._since = time.perf_counter()
        if self.device.type == "cuda":
            self._done = self._event()

    def _event(self) -> torch.cuda.Event:
        event = torch.cuda.Event(enable_timing=True)
        event.record(torch.cuda.current_stream(self.device))
        return event
