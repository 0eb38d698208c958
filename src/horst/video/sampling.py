"""Which frames to read: pure functions of times and frame numbers.

Times are seconds. A frame is shown from its own time until that of the next one: the frame at time t is the last one
that starts at t or before.
"""

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from horst.errors import InputError

Anticipation = Literal["rulstm", "strict"]
UNOBSERVED = -1  # the index of a missing frame
Indices = NDArray[np.int64]
Times = Sequence[float] | NDArray[np.float64]
SLACK = 1e-3  # Seconds. Containers round timestamps, webm to milliseconds, so a frame may start this much early.


def observed_frames(frames: int, fraction: float) -> int:
    """The number of frames in the first `fraction` of a clip of `frames`: rounded up, at least one."""
    if frames < 1:
        raise InputError(f"frames is {frames}; it must be at least 1")
    if not 0 < fraction <= 1:
        raise InputError(f"fraction is {fraction}; it must be above 0 and at most 1")
    # 0.1 * 30 is slightly above 3 in floating point.
    return max(1, math.ceil(round(fraction * frames, 6)))


def ticks(start: float, end: float, fps: float) -> NDArray[np.float64]:
    """The times start, start + 1/fps, ... before `end`; at least `start` itself."""
    if not fps > 0:
        raise InputError(f"fps is {fps}; it must be above 0")
    if not math.isfinite(end - start) or end < start:
        raise InputError(f"a clip from {start} s to {end} s has no length")
    count = max(1, math.ceil(round((end - start - SLACK) * fps, 6)))  # an end that was rounded up must not add a frame
    return start + np.arange(count) / fps


def frames_at(times: Times, wanted: Times) -> Indices:
    """The index of the frame shown at each wanted time, for frames that start at `times` (increasing).

    Before the first frame it is the first one, after the last frame the last one.
    """
    begins = np.asarray(times, np.float64)
    if begins.size == 0:
        raise InputError("there are no frames")
    if np.any(np.diff(begins) < 0):
        raise InputError("the times of the frames must not decrease")
    index = np.searchsorted(begins, np.asarray(wanted, np.float64) + SLACK, side="right") - 1
    return np.clip(index, 0, begins.size - 1).astype(np.int64)


def resample(times: Times, fps: float) -> Indices:
    """Resample a clip to another frame rate: the frame shown at each tick. Frames are repeated or dropped."""
    if not len(times):
        raise InputError("there are no frames")
    return frames_at(times, ticks(times[0], times[-1] + 2 * SLACK, fps))


def start_frame(start: float, fps: float = 30) -> int:
    """The frame (numbered from 1) shown when an action starts at `start`: the last one that started by then.

    The next one may be nearer, but shows what happens after the start.
    """
    return math.floor(round(start * fps, 6)) + 1  # 2.3 * 30 is slightly below 69 in floating point


def anticipation_frames(
    start_frame: int, fps: float = 30, steps: int = 14, stride: float = 0.25, mode: Anticipation = "rulstm"
) -> Indices:
    """The frames (numbered from 1) observed before an action that starts at `start_frame`, oldest first.

    Position k of `steps` is (steps - k) * stride seconds before the action. A position before the start of the video
    takes the earliest sampled frame ("rulstm", as in that release; this frame may be later than the position), or is
    UNOBSERVED ("strict").
    """
    if mode not in ("rulstm", "strict"):
        raise InputError(f"mode is {mode!r}; choose from 'rulstm', 'strict'")
    if steps < 1 or not stride > 0 or not fps > 0:
        raise InputError(f"steps is {steps}, stride {stride} and fps {fps}; all must be above 0")
    offsets = np.arange(steps, 0, -1) * stride
    # In float64 and in this order, as in RULSTM: exact arithmetic is sometimes one frame off.
    frames = np.floor((start_frame / fps - offsets) * fps).astype(np.int64)
    valid = frames >= 1
    if not valid.any():
        early = f"too early for a frame {stride} s before it"
        raise InputError(f"the action starts at frame {start_frame}, {early}: leave it out")
    return np.where(valid, frames, UNOBSERVED if mode == "strict" else frames[valid].min())
