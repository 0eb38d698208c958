"""Random predictions for tests of what is computed from them."""

from __future__ import annotations

import torch

from horst.data.clips import ClipConfig
from horst.data.example import Annotations
from horst.evaluation.predictions import Predictions, positions

CLASSES = {"action": 9, "verb": 6, "noun": 7}


def predictions(task: str, count: int = 40, seed: int = 0) -> Predictions:
    """Random ones; some labels are unknown, some clips could not be read."""
    draw = torch.Generator().manual_seed(seed)
    places = positions(task, ClipConfig(steps=14, stride=0.25))  # type: ignore[arg-type]
    tasks = CLASSES if task == "anticipation" else {"action": 9}
    read = torch.rand(count, generator=draw) > 0.1
    lengths = torch.randint(1, 12, (count,), generator=draw) * read
    answers = torch.randint(9, (count, 12), generator=draw)
    scores = {name: 2 * torch.randn(count, len(places), width, generator=draw) for name, width in tasks.items()}
    return Predictions(
        task=task,  # type: ignore[arg-type]
        positions=places,
        ids=tuple(f"{seed}-{i}" for i in torch.randperm(count, generator=draw).tolist()),
        labels={name: torch.randint(-1, width, (count,), generator=draw) for name, width in tasks.items()},
        scores={name: value.masked_fill(~read[:, None, None], -torch.inf) for name, value in scores.items()},
        read=read,
        empty=~read & (torch.rand(count, generator=draw) > 0.5),
        answers=answers.masked_fill(torch.arange(12) >= lengths[:, None], -1),
        lengths=lengths,
        last_seen=torch.zeros(count, len(places), dtype=torch.float64),
        limits=torch.zeros(count, len(places), dtype=torch.float64),
    )


def about(task: str, name: str = "made") -> Annotations:
    tasks = CLASSES if task == "anticipation" else {"action": 9}
    classes = {one: tuple(map(str, range(width))) for one, width in tasks.items()}
    return Annotations(name=name, task=task, examples=(), classes=classes)  # type: ignore[arg-type]
