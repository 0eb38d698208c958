"""Small models for tests of exported graphs, and streams of different ages through a graph and its model.

They have one layer, because tracing time grows with layers and S; `test_shipped` has three.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from horst.export import Graph
from horst.export.check import random_frames
from horst.models import Predictor, create_model

MODELS: dict[str, dict[str, Any]] = {
    "paper, recognition": {"name": "horst_tiny", "hidden": (4,), "stride": (2,), "num_classes": 5},
    "released, verb_noun_action": {
        "name": "horst_tiny_anticipation",
        "variant": "released",
        "hidden": (6,),
        "stride": (1,),
        "num_classes": 5,
        "num_verbs": 2,
        "num_nouns": 3,
    },
}


def small(case: str, **options: Any) -> Predictor:
    """All weights are random, so that the entry of the zero state is not zero."""
    torch.manual_seed(0)
    common = {"order": 2, "size": (16, 24), "backbone": {"name": "stem", "widths": [4]}}
    model = create_model(**{**common, **MODELS[case], **options}).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 1:
                parameter.add_(0.3 * torch.randn_like(parameter))
    return model


def difference(graph: Graph, model: Predictor, batch: int, frames: int, seed: int = 0) -> float:
    """The largest difference of logits over `frames` steps; stream i is reset at frame 7 i + 3, and so on."""
    seen = random_frames(model, batch, frames, seed)
    state = graph.start(batch)
    singly = [model.init_state(1, *model.size) for _ in range(batch)]
    gaps = []
    with torch.inference_mode():
        for t in range(frames):
            for i in range(1, batch):
                if t % 40 == 7 * i + 3:
                    for ring in state:
                        ring[i] = 0
                    singly[i] = model.init_state(1, *model.size)
            logits, state = graph.step(seen[:, t].numpy(), state)
            for i in range(batch):
                out, singly[i] = model.step(seen[i : i + 1, t], singly[i])
                assert list(logits) == list(out.logits)
                for task in logits:
                    gaps.append(np.abs(logits[task][i] - out.logits[task][0].numpy()).max())
    ages = state[3]  # count_0
    assert batch == 1 or len(set(ages.tolist())) > 1
    return float(np.max(gaps))  # NaN where one is NaN: the built-in max drops it
