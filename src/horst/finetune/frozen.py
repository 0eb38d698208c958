"""Train a new linear head on a frozen model.

Only the head is trained, so the features of every clip are computed once. The head is a linear layer on the normalized
means of y. Its loss has one minimum, which L-BFGS finds in a second, so cross-validation is cheap. With more features
than frames, the minimum is in the space that the frames span, where L-BFGS looks for it.

"nothing" is the answer for frames that are further from all actions, or show less change, than nearly all held-out
clips (`horst.heads.open_set`). If there are clips of "nothing", it is also a class like the others.

Shapes: N frames of all clips, T frames of one, C channels.
"""

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from horst.errors import ConfigError
from horst.export.engine import fast_backbone
from horst.finetune.job import NOTHING, FinetuneJob, FinetuneProgress, HeldOut, Report
from horst.heads import OpenRecognitionHead, RecognitionHead, create_head
from horst.heads.open_set import NEVER
from horst.heads.pool import FrameNorm
from horst.models.predictor import Predictor
from horst.video.decode import resize_image
from horst.video.frame import Size
from horst.video.sampling import resample

DECAY = 6e-4  # weight decay per feature: with half a dozen clips the weights would grow without bound
RAMP = 1.5  # the n-th frame of a clip has the weight n ** RAMP, because early frames say little
STEPS = 100
STILL_FRAMES = 8  # of a still scene, after which a recurrent core has settled
CONSTANT = 0.05  # standard deviations: channels that vary less between still scenes are constant
RARE = 0.02  # the share of frames in the second halves of held-out clips that are less near, or moved less, than "low"
MARGIN = (0.2, 0.8)  # thresholds are this far below "low": clips of other recordings are less near, and start later
TEMPERATURE_FACTOR = 0.8  # times the temperature of cross-validation: its heads have fewer clips than the last one
TYPICAL = 4.0  # logits by which an action leads "nothing" in a typical frame

ClipFeatures = tuple[int, Tensor]  # a clip, and the spatial means of y (T, C) of its frames


@dataclass(frozen=True, slots=True)
class HeldOutClip:
    """What a head that was not trained on a clip computes for it."""

    target: int
    logits: Tensor  # (T, classes), before "nothing" is decided
    measured: Tensor  # (T, 2), of `Rejection`


def train(job: FinetuneJob, base: Predictor, report: Report) -> tuple[Predictor, HeldOut | None]:
    """A model of the job's labels with the parts of `base`, which are frozen, and the accuracy in cross-validation."""
    if not isinstance(base.head, RecognitionHead):
        raise ConfigError("a model that anticipates cannot be finetuned: use one of early recognition, as 'somethings'")
    base.eval().requires_grad_(False)
    features, still = _features(job, base, report)
    report(FinetuneProgress(0.95, "training"))
    held_out: list[HeldOutClip] = []
    for fold in job.folds():
        head = _fit_head(job, base, [f for f in features if f[0] not in fold], still)
        held_out += [_hold_out(head, features[index][1], job.targets[index]) for index in fold]
    head = _fit_head(job, base, features, still)
    with torch.no_grad():
        # without clips of "nothing" its logits mean nothing
        temperature = _temperature([(clip.logits[:, : len(job.labels)], clip.target) for clip in held_out])
        temperature *= TEMPERATURE_FACTOR if held_out else 1
        head.fc.weight.div_(temperature)
        head.fc.bias.div_(temperature)
        known = held_out or [_hold_out(head, y, job.targets[index]) for index, y in features]
        _set_rejection(head, [clip.measured for clip in known if job.labels[clip.target] != NOTHING])
        if not held_out:
            head.rejection.threshold[0] = NEVER  # clips are too near to a head that was trained on them
        results = [(head.rejection(clip.logits / temperature, clip.measured), clip.target) for clip in held_out]
    report(FinetuneProgress(0.99, "saving"))
    labels = {"action": job.classes}
    model = Predictor(base.backbone, base.core, head, size=base.size, fps=base.fps, labels=labels)
    return model.eval(), HeldOut.of(results, job.classes)


def _features(job: FinetuneJob, base: Predictor, report: Report) -> tuple[list[ClipFeatures], Tensor]:
    """Features of all clips, in order, and (clips, C) of still scenes."""
    features, still = list[ClipFeatures](), list[Tensor]()
    backbone = fast_backbone(base)
    for index in range(len(job.sources)):
        clip = job.clip(index)
        frames = resample_clip(clip.frames, clip.times, base.fps, base.size)
        with torch.inference_mode():
            if base.backbone.window > 1:
                maps = base.backbone.clip(frames.unsqueeze(0))[0][0]
            else:  # frame by frame: on a CPU the maps of one large frame stay in the cache
                maps = torch.cat([backbone(frame) for frame in frames.split(1)])
            features.append((index, _means(base, maps)))
            still.append(_means(base, maps[:1].expand(STILL_FRAMES, -1, -1, -1))[-1])
        report(FinetuneProgress(0.95 * (index + 1) / len(job.sources), "computing features"))
    return features, torch.stack(still)


def resample_clip(frames: NDArray[np.uint8], times: NDArray[np.float64], fps: float, size: Size) -> Tensor:
    """(T, 3, H, W) uint8: the frames that a stream at `fps` would show to a model."""
    chosen = resample(times, fps)
    return torch.from_numpy(np.stack([resize_image(frames[i], size) for i in chosen])).permute(0, 3, 1, 2)


def _means(base: Predictor, maps: Tensor) -> Tensor:
    """The spatial means (T, C) of y of maps (T, ...)."""
    out, _ = base.core(maps.unsqueeze(0))
    return out.y[0].mean((-2, -1)).clone()


def _fit_head(job: FinetuneJob, base: Predictor, features: list[ClipFeatures], still: Tensor) -> OpenRecognitionHead:
    """A head for these features. Later frames have larger weights, and all labels the same."""
    means = torch.cat([y for _, y in features]).clone()
    target = torch.cat([torch.full((len(y),), job.targets[clip]) for clip, y in features])
    weight = torch.cat([_ramp(len(y)) * job.weight(clip) for clip, y in features])
    weight /= weight.sum()
    head = create_head("open_recognition", base.core.channels, num_classes=len(job.classes), norm="batch")
    assert isinstance(head, OpenRecognitionHead)
    head.eval()
    norm = head.pool.norms["y"]
    assert isinstance(norm, FrameNorm)
    with torch.no_grad():
        mean = norm.get_buffer("running_mean").copy_(weight @ means)
        variance = norm.get_buffer("running_var").copy_(weight @ (means - mean).square())
        norm.weight.copy_((1 + norm.eps / variance.clamp_min(norm.eps / 100)).sqrt())  # eps is not negligible
        normed = norm(means)
        head.fc.weight.zero_()
        head.fc.bias.fill_(NEVER)  # of "nothing", if there are no clips of it
        last = torch.stack([norm(y[-1:])[0] for _, y in features])
        of = torch.tensor([job.targets[clip] for clip, _ in features])
        for k in range(len(job.classes) - 1):
            head.rejection.prototypes[k] = F.normalize(F.normalize(last[of == k], dim=-1).mean(0), dim=-1)
        scenes = norm(still)
        head.rejection.still.copy_(scenes.mean(0))
        head.rejection.constant.copy_(scenes.std(0, correction=0) < CONSTANT)
    rows, back = _spanned(normed)
    weights = torch.zeros(len(job.labels), rows.shape[1], requires_grad=True)
    bias = torch.zeros(len(job.labels), requires_grad=True)
    optimiser = torch.optim.LBFGS([weights, bias], max_iter=STEPS, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimiser.zero_grad()
        entropy = (F.cross_entropy(F.linear(rows, weights, bias), target, reduction="none") * weight).sum()
        total: Tensor = entropy + DECAY * normed.shape[1] * weights.square().sum()
        total.backward()
        return total

    optimiser.step(loss)
    with torch.no_grad():
        head.fc.weight[: len(job.labels)] = weights if back is None else weights @ back
        head.fc.bias[: len(job.labels)] = bias
    return head


@torch.no_grad()
def _hold_out(head: OpenRecognitionHead, means: Tensor, target: int) -> HeldOutClip:
    z = head.pool.norms["y"](means.clone())
    return HeldOutClip(target, head.fc(z), head.rejection.measure(z))


def _set_rejection(head: OpenRecognitionHead, measured: list[Tensor]) -> None:
    """Reject frames that are less near, or moved less, than nearly all frames in the second halves of these clips."""
    rejection, late = head.rejection, torch.cat([clip[len(clip) // 2 :] for clip in measured])
    threshold, typical = _thresholds(late)
    near, moved = torch.cat([clip[clip[:, 1] > threshold[1]] for clip in measured]).unbind(-1)
    moved = moved.clamp_max(typical[1])
    spread = moved - moved.mean()
    rejection.rise.copy_((spread @ near / (spread @ spread)).nan_to_num().clamp_min(0))  # least squares
    rejection.typical.copy_(typical[1])
    threshold, typical = _thresholds(rejection.values(late))
    useful = typical > threshold  # otherwise no channel is constant while a scene is still
    rejection.threshold.copy_(torch.where(useful, threshold, NEVER))
    rejection.slope.copy_(torch.where(useful, TYPICAL / (typical - threshold), 1.0))


def _thresholds(values: Tensor) -> tuple[Tensor, Tensor]:
    """The thresholds (2,) for values (N, 2) of known actions, and typical values."""
    low, typical = values.quantile(RARE, 0), values.median(0).values
    return low - torch.tensor(MARGIN) * (typical - low), typical


def _spanned(rows: Tensor) -> tuple[Tensor, Tensor | None]:
    """Rows (N, C) as (N, R) in an orthonormal basis (R, C) of the space that they span; the same rows if N >= C."""
    if len(rows) >= rows.shape[1]:
        return rows, None
    values, vectors = torch.linalg.eigh((rows @ rows.mT).double())
    kept = values > 1e-7 * values[-1]
    values, vectors = values[kept].sqrt(), vectors[:, kept]
    return (vectors * values).float(), (vectors / values).float().mT @ rows


def _temperature(results: list[tuple[Tensor, int]]) -> Tensor:
    """The temperature of the logits that minimises the cross-entropy of held-out clips; 1 without clips.

    Strong weight decay makes the head underconfident. Labels are smoothed as Platt does: if n clips are all correct,
    the next one is expected to be correct with a probability of (n + 1) / (n + 2).
    """
    log = torch.zeros(())
    if not results:
        return log.exp()
    logits = torch.cat([z for z, _ in results])
    target = torch.cat([torch.full((len(z),), label) for z, label in results])
    weight = torch.cat([_ramp(len(z)) for z, _ in results])
    smoothing = logits.shape[1] / (logits.shape[1] - 1) / (len(results) + 2)
    log.requires_grad_()
    optimiser = torch.optim.LBFGS([log], max_iter=STEPS, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimiser.zero_grad()
        entropy = F.cross_entropy(logits / log.exp(), target, reduction="none", label_smoothing=min(1.0, smoothing))
        total: Tensor = (entropy * weight).sum() / weight.sum()
        total.backward()
        return total

    with torch.enable_grad():
        optimiser.step(loss)
    return log.detach().exp()


def _ramp(frames: int) -> Tensor:
    weight = torch.arange(1, frames + 1) ** RAMP
    return weight / weight.sum()
