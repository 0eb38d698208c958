"""The optimiser and the learning rate over a run: as in the paper, AdaBelief inside Lookahead, a cosine at the end."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from horst.extras import require
from horst.training.config import Optimiser, Schedule


def create_optimiser(parameters: Iterable[nn.Parameter], options: Optimiser) -> torch.optim.Optimizer:
    """An optimiser of the parameters that are trained."""
    trained = [p for p in parameters if p.requires_grad]
    made: Any
    if options.name == "adamw":
        made = torch.optim.AdamW(trained, lr=options.lr, weight_decay=options.weight_decay)
    elif options.name == "sgd":
        made = torch.optim.SGD(trained, lr=options.lr, momentum=options.momentum, weight_decay=options.weight_decay)
    else:
        made = _published("AdaBelief")(
            trained,
            lr=options.lr,
            weight_decay=options.weight_decay,
            weight_decouple=options.decouple,
            rectify=options.rectify,
        )
    return _published("Lookahead")(made, k=5, alpha=0.5) if options.lookahead else made


def _published(name: str) -> Any:
    return getattr(require("pytorch_optimizer", "train"), name)


def slow_weights(optimiser: torch.optim.Optimizer) -> list[tuple[nn.Parameter, Tensor]]:
    """Lookahead's slow weights, which are the ones to evaluate; none where there is no Lookahead."""
    state: Any = optimiser.state
    parameters = [p for group in optimiser.param_groups for p in group["params"]]
    return [(p, state[p]["slow_params"]) for p in parameters if "slow_params" in state.get(p, {})]


def learning_rate(step: int, steps: int, steps_an_epoch: float, schedule: Schedule) -> float:
    """The factor of the learning rate at a step of a run of `steps`."""
    rise = schedule.warmup * steps_an_epoch
    if step < rise:
        return (step + 1) / (rise + 1)
    fall = schedule.decay * steps
    if fall and step > steps - fall:
        return 0.5 * (1 + math.cos(math.pi * min(1.0, (step - (steps - fall)) / fall)))
    return 1.0
