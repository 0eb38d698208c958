"""Sequence completion comes first, and the rest of a run starts from its best epoch with a new optimiser.

So does RULSTM's code (github.com/fpv-iplab/rulstm, RULSTM/main.py): its second stage loads the checkpoint of the best
epoch of the first. There an epoch of completion is measured while the head reads the frames that follow; here it is
measured as it will be used, without them.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from horst.data.module import lightning
from horst.training.averages import Averages
from horst.training.module import TrainingModule
from horst.training.optimisers import create_optimiser


class Completion(lightning.Callback):
    """Remembers the best epoch of completion, by the module's `monitor`, and goes back to it when completion ends.

    Where none of these epochs was validated, the run goes on from the last of them. It must come before the callback
    that saves: what that saves is what the next epoch starts from.
    """

    def __init__(self, epochs: int, averages: Averages) -> None:
        self.epochs, self.averages = epochs, averages
        self.best: float | None = None
        self.weights: dict[str, Tensor] = {}

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        if trainer.current_epoch >= self.epochs:
            return
        found = pl_module.found.get(pl_module.monitor)
        if found is not None and (self.best is None or found > self.best):
            self.best = found
            with self.averages.evaluated(pl_module):
                self.weights = {name: value.detach().clone() for name, value in pl_module.network.state_dict().items()}
        if trainer.current_epoch == self.epochs - 1:
            self._go_on(trainer, pl_module)

    def state_dict(self) -> dict[str, Any]:
        return {"best": self.best, "weights": self.weights}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.best, self.weights = state_dict["best"], dict(state_dict["weights"])

    @torch.no_grad()
    def _go_on(self, trainer: Any, module: TrainingModule) -> None:
        if self.weights:
            module.network.load_state_dict(self.weights)
        self.weights = {}
        self.averages.restart(module)
        for optimiser in trainer.optimizers:
            rates = [{key: group[key] for key in ("lr", "initial_lr")} for group in optimiser.param_groups]
            optimiser.load_state_dict(create_optimiser(module.parameters(), module.run.optimiser).state_dict())
            for group, rate in zip(optimiser.param_groups, rates, strict=True):
                group.update(rate)  # the schedule goes on
