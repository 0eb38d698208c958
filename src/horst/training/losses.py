"""The loss of each clip, and the losses of the literature that it is composed of. B clips, T frames, K classes."""

import json
from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from horst.data.example import UNKNOWN
from horst.errors import DataError, InputError
from horst.heads import Logits
from horst.training.config import BUILTIN_LOSSES, LOSSES, Distance, Loss, RankingForm

FrameLoss = Callable[[Tensor, Tensor], Tensor]  # (scores (N, K), labels (N,)) -> losses (N,)
register_loss = LOSSES.register
"""Decorator for a loss of one's own: `loss.name` of a config then takes its name.

    @register_loss("focal")
    class FocalLoss(nn.Module):
        def __init__(self, gamma: float = 2.0): ...           # `loss.options`
        def forward(self, scores, labels): ...                # (N, K) and (N,) to (N,)

It is called with all frames of all clips at once, for each task. Frames with an unknown label (-1) are left out of the
loss; their label is 0 in the call.
"""


class ClipLoss(NamedTuple):
    """Clip by clip, so that a mean over all processes is the mean over all clips."""

    loss: Tensor  # (B,), at least float32; 0 for a clip without a label
    labelled: Tensor  # (B,) bool
    right: Tensor  # (B,) float32: 1 if the most likely action at the last frame is the true one; online: their share


def clip_loss(
    logits: Logits,
    labels: Mapping[str, Tensor],
    weights: Tensor,
    valid: Tensor,
    options: Loss,
    frequencies: Tensor | None = None,
) -> ClipLoss:
    """The loss of each clip: over its frames by `weights`, over tasks in sum. Unknown labels do not count.

    `frequencies` (K,) of the actions, for `options.balance`.

    The ranking loss is added as its mean over all valid frames. The caller, which has the features, adds
    `options.features`.
    """
    tasks = [task for task in logits if task in labels]
    known = f"the data has labels for {', '.join(labels) or 'nothing'}, the model predicts {list(logits)}"
    if not tasks:
        raise DataError(known)
    if missing := [task for task in options.tasks or () if task not in tasks]:
        raise DataError(f"loss.tasks names {', '.join(missing)}, but {known}")
    tasks = [task for task in tasks if options.tasks is None or task in options.tasks]
    total = torch.zeros(weights.shape[0], device=weights.device)
    labelled = torch.zeros_like(total, dtype=torch.bool)
    for task in tasks:
        # Padding may contain anything, NaN too: nothing of it may reach a loss or a gradient.
        scores = torch.where(weights.unsqueeze(-1) > 0, _at_least_float32(logits[task]), 0.0)
        if frequencies is not None and task in ("action", "present"):
            scores = scores + options.balance * frequencies.log()
        target = labels[task]
        frames = scores.shape[1]
        labels_of_frames = target.flatten() if target.ndim > 1 else target.repeat_interleave(frames)
        losses = _frame_loss(task, options)(scores.flatten(0, 1), labels_of_frames)
        total = total + (losses.view(-1, frames) * weights).sum(1)
        labelled |= (target != UNKNOWN).any(1) if target.ndim == 2 else target != UNKNOWN
    if logits.ahead is not None and "ahead" in labels:
        counted = (weights > 0)[..., None, None]
        scores = torch.where(counted, _at_least_float32(logits.ahead), 0.0)  # (B, T, U, K)
        if frequencies is not None:
            scores = scores + options.balance * frequencies.log()
        losses = _frame_loss("action", options)(scores.flatten(0, 2), labels["ahead"].flatten()).view(scores.shape[:3])
        if options.near is not None:
            losses = losses * (0.1 + 0.9 * torch.exp(-labels["gap"].clamp_min(0.0) / options.near))
        total = total + (losses.mean(2) * weights).sum(1)
    if logits.sequence is not None and "sequence" in labels:
        # Not balanced: the edit distance counts every action the same, frequent or rare.
        scores = torch.where((weights > 0)[..., None, None], _at_least_float32(logits.sequence), 0.0)  # (B, T, Z, K)
        losses = _frame_loss("action", options)(scores.flatten(0, 2), labels["sequence"].flatten())
        total = total + (losses.view(scores.shape[:3]).mean(2) * weights).sum(1)
    if options.ranking and "action" in tasks:
        falls = ranking_loss(_at_least_float32(logits.action), labels["action"], valid, options.ranking_form)
        total = total + options.ranking * falls.sum(1) / valid.sum(1).clamp_min(1)
    labelled &= weights.sum(1) > 0
    return ClipLoss(torch.where(labelled, total, 0.0), labelled, _right(logits.action, labels["action"], valid))


def _at_least_float32(scores: Tensor) -> Tensor:
    return scores.to(torch.promote_types(scores.dtype, torch.float32))


def _right(scores: Tensor, labels: Tensor, valid: Tensor) -> Tensor:
    if labels.ndim == 2:
        known = labels != UNKNOWN
        return ((scores.argmax(-1) == labels) & known).sum(1) / known.sum(1).clamp_min(1)
    last = valid.sum(1).clamp_min(1) - 1
    answer = scores[torch.arange(len(last), device=last.device), last].argmax(-1)
    return (answer == labels).float()


def _frame_loss(task: str, options: Loss) -> FrameLoss:
    if options.name == "smooth_top_k":
        return partial(smooth_top_k, k=options.k, temperature=options.temperature)
    if options.name == "truncated_top_k" and task == "action":
        return partial(truncated_top_k, k=options.k)
    if options.name in BUILTIN_LOSSES:
        return partial(cross_entropy, label_smoothing=options.label_smoothing)
    return partial(_known_labels, _registered(options.name, json.dumps(options.options)))


@cache
def _registered(name: str, options: str) -> FrameLoss:
    return LOSSES.create(name, **json.loads(options))


def _known_labels(loss: FrameLoss, scores: Tensor, labels: Tensor) -> Tensor:
    """A registered loss, 0 where a label is unknown."""
    found = loss(scores, labels.clamp_min(0))
    if found.shape != labels.shape:
        raise InputError(f"the loss returned {tuple(found.shape)} for {tuple(labels.shape)} frames; it must not reduce")
    return torch.where(labels == UNKNOWN, 0.0, found)


def frame_weights(options: Loss, valid: Tensor, observed: Tensor, anticipated: int) -> Tensor:
    """(B, T) weights of the frames, 0 for a clip without a frame that counts.

    The weights of a clip sum to 1. With `times: sum`, each anticipation time has the weight 1 before `exponential`.
    `valid` (B, T) is no padding, `observed` (B, T) shows something, and the last `anticipated` positions of a clip are
    anticipation times.
    """
    if options.steps == "last":
        after = torch.cat([valid[:, 1:], torch.zeros_like(valid[:, :1])], 1)
        counted = valid & ~after
    elif options.steps == "every":
        counted = valid & observed
    else:
        place = torch.arange(valid.shape[1], device=valid.device)
        counted = valid & observed & (place >= valid.sum(1, keepdim=True) - anticipated)
    weights = counted.float()
    if options.exponential is not None:
        weights = exponential_weights(counted, options.exponential)
    if options.ramp:
        weights = weights * torch.arange(1, valid.shape[1] + 1, device=valid.device)
    if options.steps == "anticipation" and options.times == "sum":
        return weights
    return weights / weights.sum(1, keepdim=True).clamp_min(1.0)


def exponential_weights(counted: Tensor, rate: float) -> Tensor:
    """The exponential loss: frames count exponentially more the nearer the action is, as little is known early.

    Jain, Singh, Koppula, Soh, Saxena 2016, "Recurrent Neural Networks for Driver Activity Anticipation via
    Sensory-Fusion Architecture": loss = sum_t -exp(-(T - t)) log p_t^y, for t = 1 .. T. Here with a rate r:
    exp(-r (T - t)), and T the last frame of the clip that counts, whose weight is 1.

    Shapes: (B, T) `counted`, which frames count, and the weights, 0 for frames that do not.
    """
    place = torch.arange(counted.shape[1], device=counted.device, dtype=torch.float32)
    last = torch.where(counted, place, 0.0).amax(1, keepdim=True)
    return torch.where(counted, torch.exp(-rate * (last - place).clamp_min(0.0)), 0.0)


def cross_entropy(scores: Tensor, labels: Tensor, label_smoothing: float = 0.0) -> Tensor:
    """(N,) cross-entropy of scores (N, K), 0 where a label is unknown."""
    return F.cross_entropy(scores, labels, ignore_index=UNKNOWN, reduction="none", label_smoothing=label_smoothing)


def smooth_top_k(scores: Tensor, labels: Tensor, k: int = 5, temperature: float = 1.0, margin: float = 1.0) -> Tensor:
    """The smooth top-k SVM loss: the true class should be among k guesses, as several actions are equally likely.

    Berrada, Zisserman, Kumar 2018, "Smooth Loss Functions for Deep Top-k Classification". With scores s, the label y,
    all sets Y of k classes, Delta(Y, y) = margin if y is not in Y and else 0, and a temperature tau:

        L = tau log sum_Y exp((Delta(Y, y) + sum_{j in Y} s_j / k) / tau)
          - tau log sum_{Y with y} exp((sum_{j in Y} s_j / k) / tau)

    The sums over sets are elementary symmetric polynomials of exp(s_j / (k tau)). With e_n those of all classes but y,
    the sets with y sum to exp(s_y / (k tau)) e_{k-1} and those without to exp(margin / tau) e_k, and so

        L = tau log(1 + exp(margin / tau - s_y / (k tau)) e_k / e_{k-1})

    As tau goes to 0, with o_k the k-th largest score of the other classes, L = max(0, margin + (o_k - s_y) / k).

    Scores are (..., K) for 1 <= k < K, labels (...), and so are the losses: 0 where a label is unknown. It takes
    O(K k^2) operations and is stable in float32.
    """
    true, others = _split(scores, labels, k)
    # All scores are relative to the largest one, so that the logarithms are small where precision matters.
    top = others.detach().amax(-1)
    e = _log_polynomials(
        ((others - top[..., None]) / (k * temperature)).reshape(-1, others.shape[-1]).T.contiguous(), k
    )
    ratio = (e[k - 1] - e[k - 2] if k > 1 else e[0]).view(labels.shape)
    exponent = margin / temperature - (true - top) / (k * temperature) + ratio
    loss = temperature * torch.logaddexp(exponent, torch.zeros_like(exponent))
    return torch.where(labels == UNKNOWN, 0.0, loss)


def truncated_top_k(scores: Tensor, labels: Tensor, k: int = 5) -> Tensor:
    """The truncated top-k entropy: cross-entropy that leaves out the k - 1 best of the other classes.

    Lapin, Hein, Schiele 2016, "Loss Functions for Top-k Error: Analysis and Insights". With scores s, the label y and J
    the classes other than y without those of the k - 1 largest scores:

        L = log(1 + sum_{j in J} exp(s_j - s_y))

    Scores are (..., K) for 1 <= k < K, labels (...), and so are the losses: 0 where a label is unknown.
    """
    true, others = _split(scores, labels, k)
    if k > 1:
        largest = others.topk(k - 1, -1).indices
        others = others.scatter(-1, largest, -torch.inf)  # k < K: at least one class is left
    loss = torch.logaddexp(others.logsumexp(-1) - true, torch.zeros_like(true))
    return torch.where(labels == UNKNOWN, 0.0, loss)


def _split(scores: Tensor, labels: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """(...) the scores of the true class, and (..., K - 1) those of the others in any order."""
    classes = scores.shape[-1]
    if not 1 <= k < classes:
        raise InputError(f"k is {k} of {classes} classes; a top-k loss takes k from 1 to {classes - 1}")
    place = labels.clamp_min(0)[..., None]
    # The last class takes the place of the true one.
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


def ranking_loss(scores: Tensor, labels: Tensor, valid: Tensor, form: RankingForm = "score") -> Tensor:
    """The ranking loss: the score of the true class should not fall as more of the action is seen.

    Ma, Sigal, Sclaroff 2016, "Learning Activity Progression in LSTMs for Activity Detection and Early Detection". With
    p_t^y the probability of the true class y at frame t and m_t = p_t^y - max_{c != y} p_t^c its margin:

        score:   max(0, max_{t' < t} p_{t'}^y - p_t^y)
        margin:  max(0, max_{t' < t} m_{t'} - m_t)

    Shapes: scores (B, T, K), logits or logarithms of probabilities; labels (B,); `valid` (B, T), no padding, of which
    nothing reaches the loss or a gradient; the losses (B, T), 0 for the first frame, for padding, and for a clip whose
    label is unknown. "both" forms are summed.
    """
    counted = valid & (labels != UNKNOWN)[:, None]
    probabilities = F.softmax(torch.where(counted.unsqueeze(-1), scores, 0.0), -1)
    true = labels.clamp_min(0)[:, None, None].expand(-1, scores.shape[1], 1)
    sure = probabilities.gather(-1, true).squeeze(-1)
    total = torch.zeros_like(sure)
    if form != "margin":
        total = total + _fall(sure, counted)
    if form != "score":
        others = probabilities.scatter(-1, true, 0.0)  # probabilities are not negative: 0 is never above another class
        total = total + _fall(sure - others.amax(-1), counted)
    return total


def _fall(values: Tensor, counted: Tensor) -> Tensor:
    """max(0, max_{t' < t} values_{t'} - values_t) over the frames that count; `values` lie in -1 .. 1."""
    below = torch.where(counted, values, -2.0)
    best = torch.cat([torch.full_like(below[:, :1], -2.0), below.cummax(1).values[:, :-1]], 1)
    return torch.where(counted, F.relu(best - values), 0.0)


def feature_loss(
    future: Tensor, features: Tensor, valid: Tensor, distance: Distance = "mse", temperature: float = 1.0
) -> Tensor:
    """The loss of predicted features of later frames, which needs no labels.

    "mse": Vondrick, Pirsiavash, Torralba 2016, "Anticipating Visual Representations from Unlabeled Video". With f^k_t
    the prediction at frame t of the features phi of frame t + k; of several modes only the nearest, over all steps
    together, counts:

        L = mean_{t, k} mean_C (f^k_t - phi_{t+k})^2

    "contrastive": Wu, Zhu, Wang, Yang, Wu 2021, "Learning to Anticipate Egocentric Actions by Imagination"
    (ImagineRNN). Noise-contrastive estimation of the right frame among all frames j of the batch. The authors do not
    give their similarity; here it is the cosine, so that one tau suits features of any scale:

        L = mean_{t, k} -log(exp(cos(f^k_t, phi_{t+k}) / tau) / sum_j exp(cos(f^k_t, phi_j) / tau))

    Args:
        future: (B, T, K, C) or, with M modes, (B, T, M, K, C): [:, t, ..., k - 1, :] predicts `features[:, t + k]`.
        features: (B, T, C) the targets, which get no gradient.
        valid: (B, T) bool, no padding. Nothing in the padding reaches the loss or a gradient.
        distance: Between prediction and target.
        temperature: tau of "contrastive".

    Returns (B,) the mean over all pairs of frames within the clip; 0 for a clip without any.
    """
    if future.ndim == 4:
        future = future.unsqueeze(2)
    clips, frames, _, steps, _ = future.shape
    start = torch.arange(frames, device=valid.device)[:, None]
    later = start + torch.arange(1, steps + 1, device=valid.device)
    within, later = later < frames, later.clamp_max(frames - 1)
    counted = valid[:, :, None] & valid[:, later] & within  # (B, T, K)
    exact = torch.promote_types(future.dtype, torch.float32)
    future = torch.where(counted[:, :, None, :, None], future, 0.0).to(exact)
    features = torch.where(valid[..., None], features.detach(), 0.0).to(exact)
    if distance == "mse":
        losses = (future - features[:, later].unsqueeze(2)).square().mean(-1)
    else:
        with torch.autocast(future.device.type, enabled=False):
            likeness = F.normalize(future, dim=-1) @ F.normalize(features.flatten(0, 1), dim=-1).T / temperature
        likeness = torch.where(valid.flatten(), likeness, torch.finfo(likeness.dtype).min)  # (B, T, M, K, B T)
        places = torch.arange(clips, device=valid.device)[:, None, None] * frames + later
        index = places[:, :, None, :, None].expand(*likeness.shape[:-1], 1)
        losses = likeness.logsumexp(-1) - likeness.gather(-1, index).squeeze(-1)
    totals = torch.where(counted.unsqueeze(2), losses, 0.0).sum(-1)  # (B, T, M)
    return totals.min(2).values.sum(1) / counted.sum((1, 2)).clamp_min(1)
