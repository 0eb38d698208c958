"""Edit distance at Z, the metric of long-term anticipation: how far the next Z actions are from the predicted ones.

The edit distance of two sequences a and b is the least number of edits that turn one into the other. An edit inserts,
deletes or replaces an action or, in the Damerau form, swaps two neighbours; no action is edited twice. With d(i, j) the
distance of the first i actions of a from the first j of b:

    d(i, 0) = i,   d(0, j) = j
    d(i, j) = min(d(i-1, j) + 1,  d(i, j-1) + 1,  d(i-1, j-1) + [a_i != b_j],
                  d(i-2, j-2) + 1  if a_i = b_{j-1} and a_{i-1} = b_j)

As in the protocol of Ego4D (Grauman et al. 2022), a model may give K sequences, of which the closest counts, and the
distance is divided by Z. It is from 0 (equal) to 1; lower is better.

Shapes: N examples, K predicted sequences of each, Z actions of a sequence.
"""

import torch
from torch import Tensor

from horst.data.example import UNKNOWN
from horst.errors import InputError


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
