"""Edit distance at Z, the metric of long-term anticipation: how far the next Z actions are from the predicted ones.

The edit distance of two sequences a and b is the least number of edits that turn one into the other. An edit inserts,
deletes or replaces an action or, in the Damerau form, swaps two neighbours; no action is edited twice. With d(i, j) the
distance of the first i actions of a from the first j of b:

    d(i, 0) = i,   d(0, j) = j
    d(i, j) = min(d(i-1, j) + 1,  d(i, j-1) + 1,  d(i-1, j-1) + [a_i != b_j],
                  d(i-2, j-2) + 1  if a_i = b_{j-1} and a_{i-1} = b_j)

As in the protocol of Ego4D (Grauman et al. 2022), a model may give K sequences, of which the closest counts, and the
distance is divided by Z. It is from 0 (equal) to 1; lower is better.

    action/ed@4             of the next 4 actions: the closest of SAMPLES sequences, drawn from the probabilities of
                            each action
    action/ed@4/greedy      of the sequence of the most likely actions

Only examples with Z actions in the rest of their video count.

Shapes: N examples, K predicted sequences of each, Z actions of a sequence, C classes.
"""

import zlib
from collections.abc import Sequence

import torch
from torch import Tensor

from horst.data.augmenter import clip_chances
from horst.data.example import UNKNOWN, Annotations, Split
from horst.data.segments import sequence_targets
from horst.errors import InputError

SAMPLES = 5  # K of Ego4D's protocol


def edit_distances(predicted: Tensor, labels: Tensor, *, transpositions: bool = True) -> Tensor:
    """(N, K) int64: the edit distance of every sequence (N, K, Z) from the labels (N, Z).

    Args:
        predicted: Action numbers; -1 is no prediction and equals no label.
        labels: Action numbers.
        transpositions: Count a swap of two neighbours as one edit (Damerau), not as two (Levenshtein).
    """
    _check(predicted, labels)
    actions = labels.shape[1]
    equal = predicted.unsqueeze(-1) == labels[:, None, None]  # (N, K, Z, Z), of each predicted and each real action
    row = torch.arange(actions + 1, device=predicted.device).expand(*predicted.shape[:2], -1)
    rows = [row]
    for i in range(1, actions + 1):
        cells = [torch.full_like(row[..., 0], i)]
        for j in range(1, actions + 1):
            replaced = rows[-1][..., j - 1] + (~equal[..., i - 1, j - 1]).long()
            cell = torch.minimum(torch.minimum(rows[-1][..., j], cells[-1]) + 1, replaced)
            if transpositions and i > 1 and j > 1:
                swapped = equal[..., i - 1, j - 2] & equal[..., i - 2, j - 1]
                cell = torch.where(swapped, torch.minimum(cell, rows[-2][..., j - 2] + 1), cell)
            cells.append(cell)
        rows.append(torch.stack(cells, -1))
    return rows[-1][..., -1]


def edit_distance_at(predicted: Tensor, labels: Tensor, z: int, *, transpositions: bool = True) -> float:
    """The mean over examples of the distance of the closest of K sequences, of the first z actions, divided by z.

    Examples with an unknown action (-1) among their z are left out. NaN without examples.
    """
    _check(predicted, labels)
    if not 1 <= z <= labels.shape[1]:
        raise InputError(f"z is {z}; sequences of {labels.shape[1]} actions have it from 1 to {labels.shape[1]}")
    predicted, labels = predicted[..., :z], labels[:, :z]
    known = (labels != UNKNOWN).all(1)
    found = edit_distances(predicted[known], labels[known], transpositions=transpositions)
    return float(found.amin(1).double().mean() / z) if len(found) else float("nan")


def metric_name(z: int) -> str:
    """The name of the edit distance of the next z actions."""
    return f"action/ed@{z}"


def measure_sequences(scores: Tensor, labels: Tensor, ids: Sequence[str]) -> dict[str, float]:
    """The metrics of scores (N, Z, C), logits, -inf where there is no prediction, for labels (N, Z).

    Empty if no example has Z known labels.
    """
    probabilities = torch.softmax(scores.double(), -1)
    missed = probabilities.isnan().any(-1).any(-1)  # -inf alone
    cumulated = probabilities.cumsum(-1)
    drawn = torch.searchsorted(cumulated, _chances(ids, labels.shape[1]).movedim(1, -1).contiguous(), right=True)
    sampled = drawn.movedim(-1, 1).clamp_max(scores.shape[-1] - 1)  # (N, K, Z)
    return _distances(_without(sampled, missed), _without(probabilities.argmax(-1).unsqueeze(1), missed), labels)


def sequence_prior(annotations: Annotations, split: Split, z: int | None) -> dict[str, float]:
    """The same metrics of a Markov chain of the training videos, from the action that has been seen.

    It knows that action from the labels, which a model does not. `annotations` are of whole videos; empty without a
    training split.
    """
    if z is None or not {"train", split} <= set(annotations.counts()):
        return {}
    classes = len(annotations.classes["action"])
    counts, frequencies = torch.zeros(classes, classes, dtype=torch.float64), torch.zeros(classes, dtype=torch.float64)
    for video in annotations.split("train").examples:
        for number, segment in enumerate(video.segments):
            frequencies[segment.label] += 1
            if number:
                counts[video.segments[number - 1].label, segment.label] += 1
    # An action that nothing follows in training is followed by any, as frequent as they are.
    chain = counts + 1e-6 * frequencies
    chain = chain / chain.sum(1, keepdim=True)
    known = annotations.split(split)
    labels = torch.tensor(sequence_targets(known, z)[1]).view(-1, z)
    seen = torch.tensor([s.label for video in known.examples for s in video.segments[:-1]], dtype=torch.int64)
    ids = [f"{video.id}#{number}" for video in known.examples for number in range(1, len(video.segments))]
    chances = _chances(ids, z)
    sampled, greedy = seen[:, None].expand(-1, SAMPLES), seen[:, None]
    drawn, likely = [], []
    for step in range(z):
        wanted = chances[..., step, None].contiguous()  # (N, K, 1)
        sampled = torch.searchsorted(chain.cumsum(1)[sampled], wanted, right=True)[..., 0].clamp_max(classes - 1)
        greedy = chain.argmax(1)[greedy]
        drawn.append(sampled)
        likely.append(greedy)
    return _distances(torch.stack(drawn, -1), torch.stack(likely, -1), labels)


def _distances(sampled: Tensor, greedy: Tensor, labels: Tensor) -> dict[str, float]:
    name = metric_name(labels.shape[1])
    if not labels.ne(UNKNOWN).all(1).any():
        return {}
    several = {name: sampled, f"{name}/greedy": greedy}
    return {metric: edit_distance_at(found, labels, labels.shape[1]) for metric, found in several.items()}


def _without(predicted: Tensor, missed: Tensor) -> Tensor:
    return predicted.masked_fill(missed[:, None, None], UNKNOWN)


def _chances(ids: Sequence[str], z: int) -> Tensor:
    """(N, SAMPLES, z) random numbers in 0..1 that depend on the id alone: not on other examples or their order."""
    keys = [zlib.crc32(ident.encode()) for ident in ids]
    return torch.from_numpy(clip_chances(0, 0, keys, SAMPLES * z)).view(len(ids), SAMPLES, z)


def _check(predicted: Tensor, labels: Tensor) -> None:
    shapes = f"predictions have shape {tuple(predicted.shape)} and labels {tuple(labels.shape)}"
    if predicted.ndim != 3 or labels.shape != (predicted.shape[0], predicted.shape[2]):
        raise InputError(f"{shapes}; (N, K, Z) and (N, Z) are needed")
    if 0 in predicted.shape[1:]:
        raise InputError(f"{shapes}; at least one sequence of one action is needed")
    for name, numbers in (("predictions", predicted), ("labels", labels)):
        if numbers.is_floating_point() or numbers.is_complex() or numbers.dtype == torch.bool:
            raise InputError(f"{name} are {numbers.dtype}; whole numbers are needed")
        if len(numbers) and int(numbers.min()) < UNKNOWN:
            raise InputError(f"{name} have the action {int(numbers.min())}; actions count from 0, and -1 is unknown")
