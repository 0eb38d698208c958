"""Online action detection: predictions for every frame of whole videos, and their average precision.

    action/map@0s       mean over actions of the average precision of frames, without the background; at every horizon
                        also for what is going on that much later (anticipation from labels of frames)
    action/mcap@0s      with calibrated precision: as if an action had as many frames as all others together
                        (De Geest et al. 2016, "Online Action Detection")
    mcap@10%            likewise for the first tenth of each action, and so on: all frames without the action, and those
                        that are that far in it
    action/top1@0s      frames whose most likely class is one of the right ones, the background included

Actions without a frame are left out of means. Frames after the end of a video have no target and do not count.

Shapes: N frames, P positions (seconds ahead, 0 last), C classes, R resamples.
"""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from horst.data.batches import Batch
from horst.data.clips import ClipConfig
from horst.data.example import UNKNOWN, ActionSegment, Annotations
from horst.data.loader import gather
from horst.data.segments import BACKGROUND, active_classes
from horst.errors import DataError, InputError
from horst.evaluation.metrics import probabilities
from horst.evaluation.predictions import Collector, Predictions, Share, position_name, positions
from horst.heads import Logits
from horst.video.sampling import SLACK

DECILES = 10


def collector(annotations: Annotations, config: ClipConfig) -> "Collector | FrameCollector":
    """What collects the predictions for a split, by its task."""
    return (FrameCollector if annotations.task == "detection" else Collector)(annotations, config)


class FrameCollector:
    """Collects the predictions for all frames of the videos of a split, on every process of a distributed run."""

    def __init__(self, annotations: Annotations, config: ClipConfig) -> None:
        self.annotations, self.config = annotations, config
        self.positions = positions("detection", config)
        self._found: dict[str, Tensor] = {}  # "scores 3" and "times 3" of video 3
        self._bad: dict[int, str] = {}

    def add(self, batch: Batch, logits: Logits | None) -> None:
        """Add a batch of videos and its logits at every frame; None if all of them are bad."""
        self._bad |= {clip.index: clip.why for clip in batch.bad}
        if logits is None or not len(batch):
            return
        if logits.ahead is None or logits.ahead.shape[2] + 1 != len(self.positions):
            known = 0 if logits.ahead is None else logits.ahead.shape[2]
            raise InputError(f"the model predicts {known} horizons and the data has {len(self.positions) - 1}")
        scores = torch.cat([logits.ahead.detach(), logits.action.detach().unsqueeze(2)], 2).float().cpu()
        for row, (index, length) in enumerate(zip(batch.indices, batch.lengths.tolist(), strict=True)):
            if scores[row, :length].isnan().any():
                raise InputError(f"the model's logits of video {batch.ids[row]} are NaN")
            self._found |= {f"scores {index}": scores[row, :length], f"times {index}": batch.times[row, :length]}

    def share(self) -> Share:
        """What was added in this process, and why videos could not be read."""
        return self._found, self._bad

    def predictions(self, shares: Sequence[Share] | None = None) -> Predictions:
        """Everything that was added, on any process, or all `shares`. DataError unless every video was.

        A video that cannot be read has frames until the end of its last action, which are missed.
        """
        found: dict[str, Tensor] = {}
        bad: dict[int, str] = {}
        for tensors, unread in gather(*self.share()) if shares is None else shares:
            found, bad = {**found, **tensors}, {**bad, **unread}
        examples, classes = self.annotations.examples, len(self.annotations.classes["action"])
        parts: dict[str, list[Tensor]] = {"scores": [], "times": [], "targets": [], "read": []}
        ids: list[str] = []
        groups: list[str] = []
        for index, video in enumerate(examples):
            read = f"times {index}" in found
            if not read and index not in bad:
                raise DataError(f"there are no predictions for {video.id} of {self.annotations.name}: evaluate all")
            end = max((segment.end for segment in video.segments), default=0.0)
            missed = torch.arange(0, end, 1 / self.config.fps, dtype=torch.float64)
            times = found[f"times {index}"] if read else missed
            lost = torch.full((len(times), len(self.positions), classes), -torch.inf)
            parts["scores"].append(found[f"scores {index}"] if read else lost)
            parts["times"].append(times)
            parts["targets"].append(targets(video.segments, times.numpy(), self.positions, classes))
            parts["read"].append(torch.full((len(times),), read))
            ids += [f"{video.id}#{number:07d}" for number in range(len(times))]
            groups += [video.id] * len(times)
        made = {name: torch.cat(several) for name, several in parts.items()}
        count = len(ids)
        seen = made["times"][:, None].expand(-1, len(self.positions)).contiguous()
        now = made["targets"][:, -1]
        return Predictions(
            task="detection",
            positions=self.positions,
            ids=tuple(ids),
            labels={"action": torch.where(now.any(1), now.int().argmax(1), UNKNOWN)},
            scores={"action": made["scores"]},
            read=made["read"],
            empty=torch.zeros(count, dtype=torch.bool),
            answers=torch.zeros((count, 0), dtype=torch.int64),
            lengths=made["read"].long(),
            last_seen=seen.masked_fill(~made["read"][:, None], -torch.inf),
            limits=seen.clone(),
            missing=tuple((examples[i].id, why) for i, why in sorted(bad.items()) if f"times {i}" not in found),
            groups=tuple(groups),
            targets=made["targets"],
        )


def targets(
    segments: Sequence[ActionSegment], times: NDArray[np.float64], positions: Sequence[float], classes: int
) -> Tensor:
    """(T, P, C) bool: what is going on at each frame plus each position; nothing where it is ambiguous or over."""
    moments = times[:, None] + np.asarray(positions)
    found = active_classes(segments, moments, classes)
    found[moments > (times[-1] if len(times) else 0.0) + SLACK] = False
    return torch.from_numpy(found)


def average_precision(
    scores: Tensor, positive: Tensor, weights: Tensor | None = None, *, calibrated: bool = False
) -> Tensor:
    """(R,) average precision of scores (N,) for frames of which some are `positive` (N,); NaN if none is.

    The sum over thresholds of the gained recall by the precision, as scikit-learn has it: equal scores are one
    threshold. `weights` (R, N): how often each frame counts. `calibrated`: precision as if there were as many positive
    frames as others.
    """
    order = scores.argsort(descending=True, stable=True)
    scores, positive = scores[order], positive[order].double()
    each = torch.ones(1, len(scores), dtype=torch.float64) if weights is None else weights[:, order]
    last = torch.ones(len(scores), dtype=torch.bool)
    last[:-1] = scores[1:] != scores[:-1]  # the last frame of each threshold
    right = (each * positive).cumsum(1)[:, last]
    wrong = (each * (1 - positive)).cumsum(1)[:, last]
    if not right.shape[1]:
        return torch.full((len(each),), torch.nan, dtype=torch.float64)
    total = right[:, -1:]
    if calibrated:
        wrong = (wrong * total / wrong[:, -1:]).nan_to_num(0.0)
    gained = torch.diff(right, dim=1, prepend=torch.zeros_like(total))
    precision = (right / (right + wrong)).nan_to_num(0.0)
    return torch.where(total[:, 0] > 0, (gained * precision).sum(1) / total[:, 0], torch.nan)


def deciles(positive: Tensor, groups: Sequence[str]) -> Tensor:
    """(N, DECILES) bool: the frames (N,) of an action that are in each tenth of it, at least one frame of each.

    An action is a run of positive frames of one video.
    """
    found = torch.zeros(len(positive), DECILES, dtype=torch.bool)
    rows = positive.nonzero()[:, 0].tolist()
    begin = 0
    for place, row in enumerate(rows):
        if place + 1 < len(rows) and rows[place + 1] == row + 1 and groups[row + 1] == groups[row]:
            continue
        first, length = rows[begin], row - rows[begin]
        for tenth in range(DECILES):
            start = first + int(length * (tenth / DECILES))
            found[start : max(start + 1, first + int(length * ((tenth + 1) / DECILES))), tenth] = True
        begin = place + 1
    return found


def measure_frames(predictions: Predictions) -> dict[str, float]:
    """All metrics of detection."""
    found: dict[str, float] = {}
    names = predictions.names()
    for p, name in enumerate(names):
        scores, right, known = frame_scores(predictions, p)
        if not known.any():
            continue
        scores, right = scores[known], right[known]
        top = right.gather(1, scores.argmax(1, keepdim=True))[:, 0] & predictions.read[known]
        found[f"action/top1@{name}"] = float(top.double().mean())
        for kind in ("map", "mcap"):
            means = [average_precision(scores[:, c], right[:, c], calibrated=kind == "mcap") for c in _actions(right)]
            if means:
                found[f"action/{kind}@{name}"] = float(torch.cat(means).mean())
    scores, right, known = frame_scores(predictions, len(names) - 1)
    scores, right = scores[known], right[known]
    groups = [name for name, there in zip(predictions.groups, known.tolist(), strict=True) if there]
    tenths: dict[int, list[Tensor]] = {}
    for c in _actions(right):
        for tenth, frames in enumerate(deciles(right[:, c], groups).unbind(1)):
            counted = frames | ~right[:, c]
            one = average_precision(scores[counted, c], right[counted, c], calibrated=True)
            tenths.setdefault(tenth, []).append(one)
    found |= {f"mcap@{10 * (tenth + 1)}%": float(torch.cat(several).mean()) for tenth, several in tenths.items()}
    return found


def metric_names(config: ClipConfig) -> list[str]:
    """The metrics of detection."""
    places = [position_name("detection", position) for position in positions("detection", config)]
    at = [f"action/{kind}@{place}" for kind in ("map", "mcap", "top1") for place in places]
    return [*at, *(f"mcap@{10 * (tenth + 1)}%" for tenth in range(DECILES))]


def _actions(right: Tensor) -> list[int]:
    return [c for c in range(right.shape[1]) if c != BACKGROUND and right[:, c].any()]


def frame_scores(predictions: Predictions, position: int) -> tuple[Tensor, Tensor, Tensor]:
    """Probabilities (N, C) and targets (N, C) of frames, and which of them have a target (N,)."""
    assert predictions.targets is not None  # `Predictions` checks it
    targets = predictions.targets[:, position]
    return probabilities(predictions.scores["action"][:, position].double()), targets, targets.any(1)
