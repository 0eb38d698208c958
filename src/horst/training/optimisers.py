"""The optimiser and the learning rate over a run: as in the paper, AdaBelief inside Lookahead, a cosine at the end."""

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from horst.extras import require
from horst.training.config import OPTIMISERS, Optimiser, Schedule


def create_optimiser(parameters: Iterable[nn.Parameter], options: Optimiser) -> torch.optim.Optimizer:
    """The optimiser of a config, for the parameters that are trained."""
    own: dict[str, Any] = {}
    if options.name == "adabelief":
        own = {"weight_decouple": options.decouple, "rectify": options.rectify}
    elif options.name == "sgd":
        own = {"momentum": options.momentum}
    published = require("pytorch_optimizer", "train") if options.name == "adabelief" or options.lookahead else None
    trained = [p for p in parameters if p.requires_grad]
    optimiser = OPTIMISERS[options.name](
        trained, lr=options.lr, weight_decay=options.weight_decay, **own, **options.options
    )
    return published.Lookahead(optimiser, k=5, alpha=0.5) if published is not None and options.lookahead else optimiser


def slow_weights(optimiser: torch.optim.Optimizer) -> list[tuple[nn.Parameter, Tensor]]:
    """Lookahead's slow weights, which are evaluated and saved; empty without Lookahead."""
    state: Any = optimiser.state
    parameters = [p for group in optimiser.param_groups for p in group["params"]]
    return [(p, state[p]["slow_params"]) for p in parameters if "slow_params" in state.get(p, {})]


def learning_rate(step: int, steps: int, epoch_steps: float, schedule: Schedule) -> float:
    """The factor of the learning rate at a step of a run of `steps`, `epoch_steps` in each epoch."""
    rise = schedule.warmup * epoch_steps
    if step < rise:
        return (step + 1) / (rise + 1)
    fall = schedule.decay * steps
    if fall and step > steps - fall:
        return 0.5 * (1 + math.cos(math.pi * min(1.0, (step - (steps - fall)) / fall)))
    return 1.0
