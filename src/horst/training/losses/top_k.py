"""Losses for being right among k guesses: what will be done next is often one of several equally likely actions.

Smooth top-k SVM of Berrada, Zisserman, Kumar 2018, "Smooth Loss Functions for Deep Top-k Classification". With scores
s, the label y, all sets Y of k classes, Delta(Y, y) = margin where y is not in Y and else 0, and a temperature tau:

    L = tau log sum_Y exp((Delta(Y, y) + sum_{j in Y} s_j / k) / tau)
      - tau log sum_{Y with y} exp((sum_{j in Y} s_j / k) / tau)

The sums over sets are elementary symmetric polynomials of exp(s_j / (k tau)). With e_n those of all classes but y, the
sets with y sum to exp(s_y / (k tau)) e_{k-1} and those without to exp(margin / tau) e_k, and so

    L = tau log(1 + exp(margin / tau - s_y / (k tau)) e_k / e_{k-1})

As tau goes to 0, e_k / e_{k-1} becomes its largest term, the k-th largest score of the other classes, o_k:

    L = max(0, margin + (o_k - s_y) / k)

Truncated top-k entropy of Lapin, Hein, Schiele 2016, "Loss Functions for Top-k Error: Analysis and Insights". With J
the classes other than y but for those of the k - 1 largest scores among them:

    L = log(1 + sum_{j in J} exp(s_j - s_y))

Shapes: scores (..., K) of K classes, labels (...), losses (...). A label that is unknown has a loss of 0.
"""

from __future__ import annotations

import torch
from torch import Tensor

from horst.data.example import UNKNOWN
from horst.errors import InputError


def smooth_top_k(scores: Tensor, labels: Tensor, k: int = 5, temperature: float = 1.0, margin: float = 1.0) -> Tensor:
    """The smooth top-k SVM loss, for 1 <= k < K and a temperature above 0; O(K k^2) work, stable in float32."""
    true, others = _split(scores, labels, k)
    # all scores are taken from the largest one, so that the logarithms are small where precision matters
    top = others.detach().amax(-1)
    e = _log_polynomials(
        ((others - top[..., None]) / (k * temperature)).reshape(-1, others.shape[-1]).T.contiguous(), k
    )
    ratio = (e[k - 1] - e[k - 2] if k > 1 else e[0]).view(labels.shape)
    exponent = margin / temperature - (true - top) / (k * temperature) + ratio
    loss = temperature * torch.logaddexp(exponent, torch.zeros_like(exponent))
    return torch.where(labels == UNKNOWN, 0.0, loss)


def hard_top_k(scores: Tensor, labels: Tensor, k: int = 5, margin: float = 1.0) -> Tensor:
    """What `smooth_top_k` becomes as the temperature goes to 0."""
    true, others = _split(scores, labels, k)
    loss = (margin + (others.topk(k, -1).values[..., -1] - true) / k).clamp_min(0.0)
    return torch.where(labels == UNKNOWN, 0.0, loss)


def truncated_top_k(scores: Tensor, labels: Tensor, k: int = 5) -> Tensor:
    """The truncated top-k entropy, for 1 <= k < K; k = 1 is cross-entropy."""
    true, others = _split(scores, labels, k)
    if k > 1:
        largest = others.topk(k - 1, -1).indices
        others = others.scatter(-1, largest, -torch.inf)  # k < K: at least one class is left
    loss = torch.logaddexp(others.logsumexp(-1) - true, torch.zeros_like(true))
    return torch.where(labels == UNKNOWN, 0.0, loss)


def _split(scores: Tensor, labels: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """(..., ) the scores of the true class, and (..., K - 1) those of the others in any order."""
    classes = scores.shape[-1]
    if not 1 <= k < classes:
        raise InputError(f"k is {k} of {classes} classes; a top-k loss takes k from 1 to {classes - 1}")
    place = labels.clamp_min(0)[..., None]
    # the last class moves to where the true one stands
    before = torch.arange(classes - 1, device=scores.device)
    others = torch.where(before == place, scores[..., -1:], scores[..., :-1])
    return scores.gather(-1, place).squeeze(-1), others


def _log_polynomials(x: Tensor, k: int) -> list[Tensor]:
    """[log e_1, ..., log e_k], each (N,), of exp(x) with x (n, N), n >= k: the coefficients of prod_j (1 + exp(x_j) z).

    The product is a tree: each level multiplies one half of its polynomials with the other, all pairs at once.
    """
    level, odd = [x], []
    while (n := len(level[0])) > 1:
        half = n // 2
        if n % 2:
            odd.append([c[-1:] for c in level])
        level = _product([c[:half] for c in level], [c[half : 2 * half] for c in level], k)
    for polynomial in odd:
        level = _product(level, polynomial, k)
    return [c[0] for c in level]


def _product(a: list[Tensor], b: list[Tensor], k: int) -> list[Tensor]:
    """Of polynomials by the logarithms of their coefficients from degree 1 to at most k; that of degree 0 is 1."""
    product = []
    for n in range(1, min(len(a) + len(b), k) + 1):
        terms = [p[n - 1] for p in (a, b) if n <= len(p)]
        terms += [a[i - 1] + b[n - i - 1] for i in range(max(1, n - len(b)), min(n - 1, len(a)) + 1)]
        product.append(torch.stack(terms).logsumexp(0) if len(terms) > 1 else terms[0])
    return product
