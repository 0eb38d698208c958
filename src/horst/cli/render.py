"""`horst predict --render`: the pictures of a video of what is said, drawn while it is watched."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from horst.streaming import Prediction, StreamSession
from horst.video.decode import VideoFile
from horst.video.frame import Frame, Image
from horst.video.live import is_live
from horst.video.sampling import SLACK
from horst.viz.render import VideoRenderer

LIVE_FPS, MOST_FPS = 12.0, 30.0
HELD = 2.0
"""Seconds that a frame is shown at most where none follows: a camera that was away for an hour is no hour of video."""


def pages(
    stream: StreamSession,
    frames: Iterator[Frame],
    end: float | None,
    seen: Iterator[Frame] | None,
    fps: float,
    told: Callable[[Prediction], None],
    stop: Callable[[], bool],
) -> Iterator[Image]:
    """Watches a source to its end, or until `stop`; the pictures of the video of it.

    Args:
        stream: That is asked.
        frames: That it is shown.
        end: When the last of them is over, where that is known.
        seen: The same frames in the size in which they are drawn; where there are none, `frames` are.
        fps: Of the video.
        told: What else is done with each prediction.
        stop: Whether to come to an end.
    """
    renderer: VideoRenderer | None = None
    page: Image | None = None
    before: Image | None = None
    due = last = 0.0
    for frame in frames:
        image = frame.image if seen is None else next(seen).image
        if renderer is None:
            renderer, due = VideoRenderer(start=frame.time, end=end), frame.time
        for prediction in stream.feed(frame.image, frame.time):
            told(prediction)
            at_tick = image if before is None or prediction.time >= frame.time - SLACK else before
            renderer.update(prediction, at_tick)
        if page is not None and frame.time - last > HELD:
            due += frame.time - last - HELD
        while page is not None and due + SLACK < frame.time:  # the rate of the video is constant, that of frames is not
            yield page
            due += 1 / fps
        if due <= frame.time + SLACK:
            page = renderer.draw(image, frame.time)
            yield page
            due += 1 / fps
        before, last = image, frame.time
        if stop():
            return
    if renderer is None or before is None or end is None:
        return
    for prediction in stream.finish(end):
        told(prediction)
        renderer.update(prediction, before)
    while due + SLACK < end:
        yield renderer.draw(before, due)
        due += 1 / fps


def rate_of(source: str, fps: float | None) -> float:
    """Of the video that is made: the source's own, where it tells one."""
    if is_live(source):
        return LIVE_FPS
    path = Path(source)
    if fps is None and path.is_file() and path.suffix != ".tar":
        with VideoFile(path) as video:
            fps = video.info.fps
    return min(fps or LIVE_FPS, MOST_FPS)


@contextlib.contextmanager
def interruptible(frames: Any) -> Iterator[Callable[[], bool]]:
    """Ctrl-C ends the video and keeps it; a second one does what it always does."""
    stopped = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stopped.is_set
        return
    usual = signal.getsignal(signal.SIGINT)

    def end(*_: object) -> None:
        stopped.set()
        if hasattr(frames, "stop"):
            frames.stop()
        signal.signal(signal.SIGINT, usual)

    signal.signal(signal.SIGINT, end)
    try:
        yield stopped.is_set
    finally:
        signal.signal(signal.SIGINT, usual)
