"""Which frames to look at: pure functions of times and numbers, tested without decoding anything.

Times are seconds. A frame is shown from its own time until the next one's: the frame at time t is the last one that
began at t or before. Edge policies say what happens to a time outside of the video:

    "clamp"   the nearest frame that there is
    "skip"    no frame (index -1)
    "error"   an InputError
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from horst.errors import InputError

Edge = Literal["clamp", "skip", "error"]
Anticipation = Literal["rulstm", "strict"]
UNOBSERVED = -1
"""Stands for a frame that is not there."""

Indices = NDArray[np.int64]
SLACK = 1e-3
"""Seconds: containers round time stamps, webm to whole milliseconds. A frame counts as begun this much early."""


def observed_frames(frames: int, fraction: float) -> int:
    """How many of `frames` make up the first `fraction` of a clip: rounded up, at least one."""
    if frames < 1:
        raise InputError(f"frames is {frames}; a clip has at least one")
    if not 0 < fraction <= 1:
        raise InputError(f"fraction is {fraction}; it takes a number above 0 and up to 1")
    # 0.1 * 30 is a little over 3 in binary, and is meant to be 3.
    return max(1, math.ceil(round(fraction * frames, 6)))


def ticks(start: float, end: float, fps: float) -> NDArray[np.float64]:
    """The times start, start + 1/fps, ... before `end`; at least `start` itself."""
    if not fps > 0:
        raise InputError(f"fps is {fps}; it takes a number above 0")
    if not math.isfinite(end - start) or end < start:
        raise InputError(f"a clip from {start} s to {end} s has no length")
    count = max(1, math.ceil(round((end - start - SLACK) * fps, 6)))  # an end that was rounded up adds no frame
    return start + np.arange(count) / fps


def frames_at(
    times: Sequence[float] | NDArray[np.float64],
    wanted: Sequence[float] | NDArray[np.float64],
    *,
    end: float | None = None,
    edge: Edge = "clamp",
) -> Indices:
    """The index of the frame that is shown at each wanted time, of frames that begin at `times` (increasing).

    The last frame ends at `end`, where that is known; else it is shown for ever.
    """
    begins, at = np.asarray(times, np.float64), np.asarray(wanted, np.float64)
    if begins.size == 0:
        raise InputError("there are no frames to choose from")
    if np.any(np.diff(begins) < 0):
        raise InputError("the frames' times must not decrease")
    index = np.searchsorted(begins, at + SLACK, side="right") - 1
    outside = (index < 0) | (at >= end if end is not None else np.zeros(at.shape, bool))
    if edge == "error" and outside.any():
        raise InputError(
            f"{float(at[outside][0]):g} s is outside of the video, which has {begins[0]:g} s to {end or begins[-1]:g} s"
        )
    if edge == "skip":
        return np.where(outside, UNOBSERVED, index).astype(np.int64)
    return np.clip(index, 0, begins.size - 1).astype(np.int64)


def resample(times: Sequence[float] | NDArray[np.float64], fps: float, *, end: float | None = None) -> Indices:
    """A clip at another frame rate: for each tick the frame that is shown, so that frames repeat or drop out."""
    begins = np.asarray(times, np.float64)
    if begins.size == 0:
        raise InputError("there are no frames to choose from")
    return frames_at(begins, ticks(begins[0], end if end is not None else begins[-1] + 2 * SLACK, fps))


def start_frame(start: float, fps: float = 30) -> int:
    """The frame (numbered from 1) that is shown when an action starts at `start`: the last one that began by then.

    The next one would be nearer now and then, and shows what comes after the start.
    """
    return math.floor(round(start * fps, 6)) + 1  # 2.3 * 30 is a little under 69 in binary


def anticipation_frames(
    start_frame: int, fps: float = 30, steps: int = 14, stride: float = 0.25, mode: Anticipation = "rulstm"
) -> Indices:
    """The frames (numbered from 1) seen before an action that starts at `start_frame`, oldest first.

    Position k of `steps` looks (steps - k) * stride seconds before the action. What lies before the video's first frame
    takes the earliest frame that was sampled in it ("rulstm", as in that release: it can show a frame later than the
    position's own time), or is UNOBSERVED ("strict", which never does).
    """
    if mode not in ("rulstm", "strict"):
        raise InputError(f"mode is {mode!r}; choose from 'rulstm', 'strict'")
    if steps < 1 or not stride > 0 or not fps > 0:
        raise InputError(f"steps is {steps}, stride {stride} and fps {fps}; all must be above 0")
    offsets = np.arange(steps, 0, -1) * stride
    # In float64 and in this order, as RULSTM does: exact arithmetic lands one frame off now and then.
    frames = np.floor((start_frame / fps - offsets) * fps).astype(np.int64)
    valid = frames >= 1
    if not valid.any():
        raise InputError(
            f"the action starts at frame {start_frame}, so early that no frame lies {stride} s before it: leave it out"
        )
    return np.where(valid, frames, UNOBSERVED if mode == "strict" else frames[valid].min())
