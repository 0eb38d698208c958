"""Predictions as the JSON file of the EPIC-Kitchens 100 anticipation challenge.

    {"version": "0.2", "challenge": "action_anticipation", "sls_pt": 1, "sls_tl": 4, "sls_td": 3,
     "results": {"P01_101_1": {"verb": {"0": 0.2, ...}, "noun": {"0": 0.1, ...}, "action": {"1,2": 0.3, ...}}}}

Scores are probabilities of all verbs, all nouns and the 100 best actions. Unreadable segments have zeros.
"""

import json
from pathlib import Path
from typing import Any

from torch import Tensor

from horst.data.example import Annotations
from horst.errors import DataError, InputError
from horst.evaluation.measure import PARTS, all_scores
from horst.evaluation.metrics import probabilities
from horst.evaluation.predictions import Predictions
from horst.io import write_text

ACTIONS = 100  # action scores of a segment


def challenge(
    predictions: Predictions,
    annotations: Annotations,
    *,
    pretraining: int = 1,
    labels: int = 4,
    data: int = 3,
    tau: float = 1.0,
) -> dict[str, Any]:
    """The contents of the file. The actions of the annotations must be made of verbs and nouns.

    `pretraining`, `labels` and `data` are the supervision levels `sls_pt`, `sls_tl` and `sls_td`, 0 to 5 by the
    challenge's rules; the defaults are those that RULSTM declares. `tau`: seconds before the action.
    """
    levels = {"sls_pt": pretraining, "sls_tl": labels, "sls_td": data}
    for name, level in levels.items():
        if type(level) is not int or not 0 <= level <= 5:
            raise InputError(f"{name} is {level!r}; a level of supervision is a whole number from 0 to 5")
    if not annotations.action_parts or any(part not in annotations.classes for part in PARTS):
        raise DataError(f"{annotations.name} has no actions of verb and noun, which the challenge needs")
    if tau not in predictions.positions:
        raise InputError(f"there is no prediction {tau:g} s before the action; there are {predictions.names()}")
    place = predictions.positions.index(tau)
    scores = {task: probabilities(s[:, place].double()) for task, s in all_scores(predictions, annotations).items()}
    keys = [f"{verb},{noun}" for verb, noun in annotations.action_parts]
    best = scores["action"].sort(dim=1, descending=True, stable=True)
    results = {}
    for row, ident in enumerate(predictions.ids):
        top = zip(best.indices[row, :ACTIONS].tolist(), _rounded(best.values[row, :ACTIONS]), strict=True)
        results[ident] = {
            **{part: {str(c): value for c, value in enumerate(_rounded(scores[part][row]))} for part in PARTS},
            "action": {keys[action]: value for action, value in top},
        }
    return {"version": "0.2", "challenge": "action_anticipation", **levels, "results": results}


def write_challenge(path: str | Path, predictions: Predictions, annotations: Annotations, **options: Any) -> None:
    """Write the file, atomically; options as for `challenge`."""
    write_text(Path(path), json.dumps(challenge(predictions, annotations, **options), allow_nan=False))


def _rounded(values: Tensor) -> list[float]:
    """Six digits: there are millions of numbers."""
    return [float(f"{value:.6g}") for value in values.tolist()]
