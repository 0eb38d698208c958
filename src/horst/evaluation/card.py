"""An evaluation as a result of a model card's model-index, as the Hugging Face Hub shows it."""

import math
import re
from typing import Any

from horst.evaluation.evaluate import Evaluation
from horst.evaluation.predictions import position_name

TASKS = {
    "recognition": "Early action recognition",
    "anticipation": "Action anticipation",
    "online": "Online action recognition and anticipation",
    "detection": "Online action detection",
}
FRACTIONS = (0.25, 0.5, 1.0)  # observed parts that a card shows, those of the paper and the whole clip
KINDS = {"top1": ("accuracy", "top-1"), "top5": ("accuracy", "top-5")}
KINDS |= {"map": ("mean_average_precision", "mAP"), "mcap": ("mean_average_precision", "calibrated mAP")}
KINDS |= {"recall1": ("recall", "mean top-1 recall"), "recall5": ("recall", "mean top-5 recall")}


def card_result(evaluation: Evaluation) -> dict[str, Any] | None:
    """The main metrics of the action; None if nothing has a label. Values are fractions of 1."""
    found = [("accuracy", "area under top-1", evaluation.metrics.get("area", math.nan))]
    for position in _shown(evaluation):
        name = position_name(evaluation.task, position)
        where = f"after {name} of the clip" if evaluation.task == "recognition" else f"{name} ahead"
        for kind, (metric, title) in KINDS.items():
            found.append((metric, f"{title} {where}", evaluation.metrics.get(f"action/{kind}@{name}", math.nan)))
    metrics = [{"type": kind, "name": name, "value": round(v, 4)} for kind, name, v in found if math.isfinite(v)]
    if not metrics:
        return None
    return {
        "task": {"type": "video-classification", "name": TASKS[evaluation.task]},
        "dataset": {
            "type": re.sub(r"[^\w.-]+", "-", evaluation.data).strip("-").lower() or "data",
            "name": evaluation.data,
            "split": evaluation.split,
        },
        "metrics": metrics,
    }


def _shown(evaluation: Evaluation) -> list[float]:
    there = evaluation.positions
    if evaluation.task == "recognition":
        return [position for position in there if position in FRACTIONS] or there[-1:]
    at = 0.0 if evaluation.task == "detection" else 1.0
    return sorted(there, key=lambda tau: abs(tau - at))[:1]
