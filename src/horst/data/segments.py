"""Whole videos with labelled segments, the data of the tasks "online" and "detection": targets of every frame.

Online: at every frame of a video, "present" is the action that is going on, "action" the next one, and "ahead" for
each horizon tau the first action that starts at that time plus tau or later. So "ahead" at start - tau_a is the action
that starts, whatever begins before it. As in anticipation, an action is evaluated at the last frame at or before
start - tau_a. With `clip.sequence` Z, "sequence" are the next Z actions (`horst.evaluation.sequences`).

Detection: "action" is the action that is going on, or the background, class 0, and "ahead" for each horizon tau what
is going on at that time plus tau. Every frame is evaluated (`horst.evaluation.detection`). Actions may overlap: the one
that began last is learned, and all of them are right in the evaluation. Frames of a segment with the label UNKNOWN are
ambiguous: they are neither learned nor evaluated.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from horst.config import Task
from horst.data.clips import ClipConfig
from horst.data.example import UNKNOWN, ActionSegment, Annotations, Example
from horst.errors import DataError
from horst.video.sampling import SLACK

if TYPE_CHECKING:
    from torch import Tensor

EARLIEST = 2.0  # seconds
BACKGROUND = 0  # detection: the class of frames without an action
WHOLE_VIDEOS: tuple[Task, ...] = ("online", "detection")  # the tasks whose examples are whole videos


def frame_labels(
    segments: Sequence[ActionSegment],
    times: NDArray[np.float64],
    horizons: Sequence[float] = (),
    sequence: int | None = None,
) -> "dict[str, Tensor]":
    """(T,) "action" and "present" and (T, horizons) "ahead" of frames at `times`; UNKNOWN where there is none.

    `sequence`: also (T, sequence) "sequence", the actions that start next, UNKNOWN where fewer follow.
    (T, horizons) "gap": seconds from the end of each horizon to the start of the action "ahead".
    """
    import torch  # here, because readers of annotations need none

    starts = np.asarray([segment.start for segment in segments])
    labels = np.asarray([segment.label for segment in segments])
    ends = np.asarray([segment.end for segment in segments])
    begun = np.searchsorted(starts, times + SLACK, side="right")  # segments that have begun
    current = np.maximum(begun - 1, 0)
    present = np.where((begun > 0) & (times < ends[current]), labels[current], UNKNOWN)
    after = np.searchsorted(starts, times[:, None] + np.asarray(horizons) - SLACK)
    following = np.append(labels, UNKNOWN)
    gap = np.append(starts, np.inf)[after] - times[:, None] - np.asarray(horizons)
    found = {"action": following[begun], "present": present, "ahead": following[after], "gap": gap.astype(np.float32)}
    if sequence is not None:
        found["sequence"] = np.append(labels, [UNKNOWN] * sequence)[begun[:, None] + np.arange(sequence)]
    return {task: torch.from_numpy(values) for task, values in found.items()}


def detection_labels(
    segments: Sequence[ActionSegment], times: NDArray[np.float64], horizons: Sequence[float] = ()
) -> "dict[str, Tensor]":
    """(T,) "action" and (T, horizons) "ahead" of frames at `times`: UNKNOWN after the last of them."""
    import torch

    moments = times[:, None] + np.asarray([0.0, *horizons])
    found = np.full(moments.shape, BACKGROUND, np.int64)
    for start, end, label in sorted(segments, key=lambda s: s.label == UNKNOWN):  # those with UNKNOWN are the last
        found[going_on(moments, start, end)] = label
    found[moments > times[-1] + SLACK] = UNKNOWN
    return {"action": torch.from_numpy(found[:, 0]), "ahead": torch.from_numpy(found[:, 1:])}


def going_on(times: NDArray[np.float64], start: float, end: float) -> NDArray[np.bool_]:
    """At which times an action is going on."""
    return (times >= start - SLACK) & (times < end - SLACK)


def active_classes(segments: Sequence[ActionSegment], moments: NDArray[np.float64], classes: int) -> NDArray[np.bool_]:
    """(..., classes): detection, what is going on at each moment, or the background; nothing where it is ambiguous."""
    found = np.zeros((*moments.shape, classes), np.bool_)
    ambiguous = np.zeros(moments.shape, np.bool_)
    for start, end, label in segments:
        there = going_on(moments, start, end)
        if label == UNKNOWN:
            ambiguous |= there
        else:
            found[..., label] |= there
    found[..., BACKGROUND] = ~found.any(-1)
    found[ambiguous] = False
    return found


def video_labels(
    task: Task,
    example: Example,
    times: NDArray[np.float64],
    horizons: Sequence[float],
    sequence: int | None = None,
) -> "dict[str, Tensor]":
    """The labels of each frame of a whole video."""
    if task == "detection":
        return detection_labels(example.segments, times, horizons)
    return frame_labels(example.segments, times, horizons, sequence)


def item_labels(
    example: Example, times: NDArray[np.float64], clip: ClipConfig, task: Task
) -> "dict[str, int | Tensor]":
    """The labels of a clip, or of each of its frames."""
    if task not in WHOLE_VIDEOS:
        return dict(example.labels)
    return dict(video_labels(task, example, times, horizons(clip), clip.sequence))


def horizons(clip: ClipConfig) -> tuple[float, ...]:
    """Seconds before an action at which it is evaluated, the longest first: from EARLIEST on, or the last position."""
    taus = [step * clip.stride for step in range(clip.steps, 0, -1)]
    return tuple(tau for tau in taus if tau <= EARLIEST + 1e-9) or (taus[-1],)


def merge_segments(examples: Sequence[Example]) -> tuple[Example, ...]:
    """Examples of single actions as one example for each file. DataError if those of a file disagree."""
    videos: dict[str, list[Example]] = {}
    for example in examples:
        videos.setdefault(str(example.media), []).append(example)
    stems = Counter(actions[0].media.stem for actions in videos.values())
    merged = []
    for media, actions in videos.items():
        first = actions[0]
        segments = []
        for one in actions:
            for name in ("split", "group"):
                if (here := getattr(one, name)) != (there := getattr(first, name)):
                    raise DataError(f"{media}: its actions have the {name} {there!r} and {here!r}; a video has one")
            if one.end is None:
                raise DataError(f"{media}: the action at {one.start:g} s has no end: fill in the column end")
            segments.append(ActionSegment(one.start, one.end, one.labels["action"]))
        name = first.video or (first.media.stem if stems[first.media.stem] == 1 else media)
        whole = replace(first, id=name, video=name, labels={}, start=0.0, end=None, start_frame=None)
        merged.append(replace(whole, segments=tuple(sorted(segments))))
    return tuple(merged)


def whole_videos(annotations: Annotations, task: Task) -> Annotations:
    """Annotations of single actions as those of whole videos, for the task "online" or "detection"."""
    classes = {**annotations.classes, "present": annotations.classes["action"]}
    found = replace(annotations, task="online", examples=merge_segments(annotations.examples), classes=classes)
    return as_detection(found) if task == "detection" else found


def as_detection(annotations: Annotations) -> Annotations:
    """Whole videos of the task "online" for the task "detection": the background becomes class 0."""
    names = annotations.classes["action"]
    if "background" in names:
        why = "an action is named 'background', which is the name of frames without any: rename it"
        raise DataError(f"{annotations.name}: {why}")
    examples = [
        replace(e, segments=tuple(s._replace(label=s.label + 1) for s in e.segments)) for e in annotations.examples
    ]
    mirror = [UNKNOWN if after == UNKNOWN else after + 1 for after in annotations.mirror]
    return replace(
        annotations,
        task="detection",
        examples=tuple(examples),
        classes={"action": ("background", *names)},
        mirror=(BACKGROUND, *mirror) if mirror else (),
    )


def evaluated(annotations: Annotations) -> Annotations:
    """The examples that have a row in predictions: of whole videos, every action but the first."""
    if annotations.task != "online":
        return annotations
    return replace(annotations, examples=tuple(row for _, row in target_rows(annotations)))


def target_rows(annotations: Annotations) -> list[tuple[int, Example]]:
    """(index of the video, the action as an example of its own) of each action that is evaluated."""
    return [
        (index, replace(video, id=f"{video.id}#{number}", labels={"action": s.label}, start=s.start, end=s.end))
        for index, video in enumerate(annotations.examples)
        for number, s in enumerate(video.segments[1:], 1)
    ]


def sequence_targets(annotations: Annotations, sequence: int) -> tuple[list[float], list[list[int]]]:
    """For each row of `target_rows`: before when the next actions are predicted, and the labels of `sequence` of them.

    As in Ego4D, an action has been seen and those after it are predicted: the time is its end, or the start of the next
    one if that is earlier. The labels begin with the action of the row and are UNKNOWN where fewer follow.
    """
    before, labels = [], []
    for video in annotations.examples:
        for number in range(1, len(video.segments)):
            seen, upcoming = video.segments[number - 1], video.segments[number : number + sequence]
            before.append(min(seen.end, upcoming[0].start))
            labels.append([s.label for s in upcoming] + [UNKNOWN] * (sequence - len(upcoming)))
    return before, labels
