"""Callbacks that change weights: moving averages, and the end of sequence completion."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from horst.data.module import lightning
from horst.evaluation.measure import is_better
from horst.training.module import TrainingModule


class AveragedWeights(lightning.Callback):
    """The weights that are evaluated and saved: an exponential moving average, or else Lookahead's slow weights.

    They replace those of the model during validation and inside `evaluated`.
    """

    def __init__(self, decay: float | None) -> None:
        self.decay = decay
        self.average: dict[str, Tensor] = {}
        self._validation = ExitStack()
        self._steps = 0

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        if not self.average:
            self.reset(pl_module)
        self.average = {name: a.to(pl_module.device) for name, a in self.average.items()}
        self._steps = trainer.global_step

    @torch.no_grad()
    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        if self.decay is None or trainer.global_step == self._steps:
            return
        self._steps = trainer.global_step
        # The decay is lower at first, while there is little to average.
        decay = min(self.decay, (1 + self._steps) / (10 + self._steps))
        names, weights = zip(*pl_module.network.named_parameters(), strict=True)
        torch._foreach_lerp_([self.average[name] for name in names], list(weights), 1 - decay)

    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
        self._validation.enter_context(self.evaluated(pl_module))

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        self._validation.close()

    @contextmanager
    def evaluated(self, module: TrainingModule) -> Iterator[None]:
        """The model has the weights that are evaluated."""
        pairs: list[tuple[nn.Parameter, Tensor]] = []
        if self.average:
            own = dict(module.network.named_parameters())
            pairs = [(own[name], average) for name, average in self.average.items()]
        elif module.trainer.optimizers:
            pairs = slow_weights(module.trainer.optimizers[0])
        trained = [(p, p.detach().clone()) for p, _ in pairs]
        _copy(pairs)
        try:
            yield
        finally:
            _copy(trained)

    def reset(self, module: TrainingModule) -> None:
        """Average from the current weights on."""
        if self.decay is not None:
            self.average = {name: p.detach().clone() for name, p in module.network.named_parameters()}

    def state_dict(self) -> dict[str, Any]:
        return {"average": self.average}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.average = dict(state_dict["average"])


def slow_weights(optimiser: torch.optim.Optimizer) -> list[tuple[nn.Parameter, Tensor]]:
    """Lookahead's slow weights, which are evaluated and saved; empty without Lookahead."""
    state: Any = optimiser.state
    parameters = [p for group in optimiser.param_groups for p in group["params"]]
    return [(p, state[p]["slow_params"]) for p in parameters if "slow_params" in state.get(p, {})]


@torch.no_grad()
def _copy(pairs: list[tuple[nn.Parameter, Tensor]]) -> None:
    for parameter, values in pairs:
        parameter.copy_(values)


class CompletionCallback(lightning.Callback):
    """After the epochs of sequence completion, continue from the best of them with a new optimiser.

    RULSTM's code does the same (github.com/fpv-iplab/rulstm, RULSTM/main.py): its second stage loads the checkpoint of
    the best epoch of the first. There, validation also reads the frames that follow; here it does not, as in use. The
    best epoch is that of the module's `monitor`; if none was validated, the run continues from the last one. This
    callback must come before the one that saves, so that the weights of the next epoch are saved.
    """

    def __init__(self, epochs: int, averages: AveragedWeights) -> None:
        self.epochs, self.averages = epochs, averages
        self.best: float | None = None
        self.weights: dict[str, Tensor] = {}

    @torch.no_grad()
    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        if trainer.current_epoch >= self.epochs:
            return
        found = pl_module.metrics.get(pl_module.monitor)
        if is_better(pl_module.monitor, found, self.best):
            self.best = found
            with self.averages.evaluated(pl_module):
                self.weights = {name: value.detach().clone() for name, value in pl_module.network.state_dict().items()}
        if trainer.current_epoch < self.epochs - 1:
            return
        if self.weights:
            pl_module.network.load_state_dict(self.weights)
        self.weights = {}
        self.averages.reset(pl_module)
        for optimiser in trainer.optimizers:
            rates = [{key: group[key] for key in ("lr", "initial_lr")} for group in optimiser.param_groups]
            optimiser.load_state_dict(pl_module.new_optimiser().state_dict())
            for group, rate in zip(optimiser.param_groups, rates, strict=True):
                group.update(rate)  # the schedule continues

    def state_dict(self) -> dict[str, Any]:
        return {"best": self.best, "weights": self.weights}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.best, self.weights = state_dict["best"], dict(state_dict["weights"])
