"""Late fusion: the predictions of several runs for the same examples as those of one.

    weights = learn_weights(held_out)                    # predictions of each run; or [1 / 3] * 3
    predictions = fuse_predictions(of_runs, weights)

The fused probabilities are the weighted mean of those of the runs. Examples are matched by their ids.

Shapes: R runs, N examples, P positions, M predictions with a label.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from horst.data.example import UNKNOWN
from horst.errors import DataError
from horst.evaluation.predictions import Predictions, sorted_by_id
from horst.models.fused import mean_scores

LISTED = 3  # examples in a message
STEPS, LEAST = 10_000, 1e-12  # of the search: most steps, and the change of all weights at which it ends
FLOOR = 1e-30  # a smaller probability counts as this one: its logarithm stays finite


def difference(one: Predictions, other: Predictions) -> str:
    """Why two runs cannot be fused, in words that follow "the other run"; empty if they can."""
    if one.task != other.task:
        return f"is of {other.task}, not {one.task}"
    if one.positions != other.positions:
        names = [", ".join(predictions.names()) for predictions in (other, one)]
        return f"predicts at {names[0]}, not at {names[1]}"
    counts = [{task: scores.shape[2] for task, scores in each.scores.items()} for each in (other, one)]
    if counts[0] != counts[1]:
        return f"predicts {_words(counts[0])}, not {_words(counts[1])}"
    for each, whose in ((one, "that of the first"), (other, "its")):
        if len(set(each.ids)) < len(each.ids):
            twice = next(ident for i, ident in enumerate(each.ids) if ident in each.ids[:i])
            return f"cannot be matched by ids: {whose} example {twice} occurs twice"
    sides = ((other, one, "has no predictions for"), (one, other, "has predictions for other examples:"))
    for less, more, what in sides:
        known = set(less.ids)
        if absent := [ident for ident in more.ids if ident not in known]:
            return f"{what} {_listed(absent)}"
    matched = align(other, one.ids)
    for task, labels in one.labels.items():
        theirs = matched.labels.get(task)
        wrong = labels != theirs if theirs is not None else torch.ones_like(labels, dtype=torch.bool)
        if wrong.any():
            return f"has other labels of {task} for {_listed([one.ids[row] for row in wrong.nonzero()[:, 0].tolist()])}"
    if one.targets is not None and matched.targets is not None and not torch.equal(one.targets, matched.targets):
        return "has other actions going on at some frames"
    return ""


def align(predictions: Predictions, ids: Sequence[str]) -> Predictions:
    """The examples `ids`, in their order."""
    if tuple(ids) == predictions.ids:
        return predictions
    rows = {ident: row for row, ident in enumerate(predictions.ids)}
    return predictions.select(torch.tensor([rows[ident] for ident in ids], dtype=torch.int64))


def fuse_predictions(runs: Sequence[Predictions], weights: Sequence[float]) -> Predictions:
    """The predictions of all runs as one, in the order of the first.

    An example that a run could not read is predicted by the others. DataError if the runs differ; see `difference`.
    """
    first = runs[0]
    for number, other in enumerate(runs[1:], 2):
        if why := difference(first, other):
            raise DataError(f"run {number} cannot be fused with the first: it {why}")
    runs = [first, *(align(other, first.ids) for other in runs[1:])]
    used = [run for run, weight in zip(runs, weights, strict=True) if weight > 0]
    scores = {}
    for task in first.scores:  # one position at a time: in double precision all of them would take much memory
        several = zip(*(run.scores[task].unbind(1) for run in runs), strict=True)
        scores[task] = torch.stack([mean_scores(at, weights) for at in several], 1)
    sequences: dict[str, Any] = {"sequence": None, "following": None}
    each = [run.sequence for run in runs if run.sequence is not None]
    if len(each) == len(runs) and len({one.shape for one in each}) == 1:
        steps = zip(*(one.unbind(1) for one in each), strict=True)
        sequences["sequence"] = torch.stack([mean_scores(at, weights) for at in steps], 1)
        sequences["following"] = torch.stack([run.following for run in runs if run.following is not None]).amax(0)
    # The times of the run that saw most, compared with what it may see: a leak of one run is a leak of all.
    seen, limits = (torch.stack([getattr(run, name) for run in used]) for name in ("last_seen", "limits"))
    most = (seen - limits).argmax(0, keepdim=True)
    reasons = {ident: reason for run in reversed(used) for ident, reason in run.missing}
    read = torch.stack([run.read for run in used]).any(0)
    owners = first.groups if first.task == "detection" else first.ids  # of frames, the video
    unread = dict.fromkeys(one for one, known in zip(owners, read.tolist(), strict=True) if not known)
    return replace(
        first,
        scores=scores,
        **sequences,
        read=read,
        empty=torch.stack([run.empty for run in used]).all(0),
        answers=_answers(used),
        lengths=torch.stack([run.lengths for run in used]).amax(0),
        last_seen=seen.gather(0, most)[0],
        limits=limits.gather(0, most)[0],
        missing=tuple((ident, reasons[ident]) for ident in unread if ident in reasons),
    )


def learn_weights(runs: Sequence[Predictions]) -> list[float]:
    """The weights of the lowest mean negative log-likelihood of the action, over all examples and positions.

    That is a convex problem. Expectation-maximisation starts from equal weights; single runs and equal weights are
    compared with its result, so that no run alone is better. DataError if no example with a label was read by all runs.
    """
    chances = label_probabilities(runs)
    weights = torch.full((len(runs),), 1 / len(runs), dtype=torch.float64)
    equal = weights
    for _ in range(STEPS):
        before, parts = weights, weights[:, None] * chances
        weights = (parts / parts.sum(0)).mean(1)
        if (weights - before).abs().max() < LEAST:
            break
    candidates = [equal, *torch.eye(len(runs), dtype=torch.float64), weights / weights.sum()]
    losses = [round(_loss(candidate, chances), 12) for candidate in candidates]  # equal ones are equal to rounding
    return [float(weight) for weight in candidates[losses.index(min(losses))]]


def mean_loss(runs: Sequence[Predictions], weights: Sequence[float]) -> float:
    """What `learn_weights` minimises."""
    return _loss(torch.tensor(weights, dtype=torch.float64), label_probabilities(runs))


def label_probabilities(runs: Sequence[Predictions]) -> Tensor:
    """(R, M): the probability that each run gives the action that happens, where all of them predict."""
    runs = [sorted_by_id(run) for run in runs]  # then sums do not depend on the order
    found = []
    for p in range(len(runs[0].positions)):
        labels = runs[0].labels_at("action", p)
        if (targets := runs[0].targets) is not None:  # of detection: several may be going on, one of them counts
            labels = torch.where(targets[:, p].any(1), targets[:, p].int().argmax(1), UNKNOWN)
        scores = torch.stack([run.scores["action"][:, p] for run in runs]).double()
        counted = (labels != UNKNOWN) & (scores > -torch.inf).any(-1).all(0)
        chances = torch.softmax(scores[:, counted], -1)
        found.append(chances.gather(-1, labels[counted].expand(len(runs), -1)[..., None])[..., 0])
    chances = torch.cat(found, 1)
    if not chances.shape[1]:
        raise DataError("no example with a label was read by all runs, so no weights can be learned: use equal ones")
    return chances.clamp_min(FLOOR)


def _loss(weights: Tensor, chances: Tensor) -> float:
    return float(-(weights @ chances).log().mean())


def _answers(runs: Sequence[Predictions]) -> Tensor:
    """(N, T) answers at each frame if all runs agree on them: then it is that of the mean. Else none, T is 0."""
    first = runs[0].answers
    same = all(run.answers.shape == first.shape and torch.equal(run.answers, first) for run in runs)
    return first if same else first[:, :0]


def _words(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {task}s" for task, count in counts.items())


def _listed(ids: Sequence[str]) -> str:
    more = f" and {len(ids) - LISTED} more" if len(ids) > LISTED else ""
    return f"{', '.join(ids[:LISTED])}{more}"
