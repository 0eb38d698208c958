"""The weights that are evaluated and saved: Lookahead's slow ones, or a running average, where there is one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from horst.data.module import lightning
from horst.training.module import TrainingModule
from horst.training.optimisers import slow_weights


class Averages(lightning.Callback):
    """Keeps an exponential moving average of the weights, and puts in what is to be evaluated while it is."""

    def __init__(self, decay: float | None) -> None:
        self.decay = decay
        self.average: dict[str, Tensor] = {}
        self._aside: list[tuple[nn.Parameter, Tensor]] = []
        self._steps = 0

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        if self.decay is not None and not self.average:
            self.average = {name: p.detach().clone() for name, p in pl_module.network.named_parameters()}
        self.average = {name: a.to(pl_module.device) for name, a in self.average.items()}
        self._steps = trainer.global_step

    @torch.no_grad()
    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        if self.decay is None or trainer.global_step == self._steps:
            return
        self._steps = trainer.global_step
        # A young average follows quickly: it has nothing to remember yet.
        decay = min(self.decay, (1 + self._steps) / (10 + self._steps))
        names, weights = zip(*pl_module.network.named_parameters(), strict=True)
        torch._foreach_lerp_([self.average[name] for name in names], list(weights), 1 - decay)

    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
        self._put_in(pl_module)

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        self._put_back()

    @contextmanager
    def evaluated(self, module: TrainingModule) -> Iterator[None]:
        """While this lasts the model has the weights that are evaluated."""
        self._put_in(module)
        try:
            yield
        finally:
            self._put_back()

    def restart(self, module: TrainingModule) -> None:
        """Average from the weights of now on."""
        if self.average:
            self.average = {name: p.detach().clone() for name, p in module.network.named_parameters()}

    def state_dict(self) -> dict[str, Any]:
        return {"average": self.average}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.average = dict(state_dict["average"])

    @torch.no_grad()
    def _put_in(self, module: TrainingModule) -> None:
        pairs: list[tuple[nn.Parameter, Tensor]] = []
        if self.average:
            own = dict(module.network.named_parameters())
            pairs = [(own[name], average) for name, average in self.average.items()]
        elif module.trainer.optimizers:
            pairs = slow_weights(module.trainer.optimizers[0])
        self._aside = [(p, p.detach().clone()) for p, _ in pairs]
        for p, other in pairs:
            p.copy_(other)

    @torch.no_grad()
    def _put_back(self) -> None:
        for p, kept in self._aside:
            p.copy_(kept)
        self._aside = []
