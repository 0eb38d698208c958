"""A video with its predictions drawn in, as `horst predict --render` writes it."""

import time
from pathlib import Path

from horst.errors import BusyError
from horst.models import Predictor
from horst.serving.errors import ApiError
from horst.serving.limits import Limits
from horst.serving.uploads import MAX_SECONDS, check_duration, open_upload
from horst.streaming import Prediction, reset_policy
from horst.video.encode import write_video
from horst.viz.render import render_stream

DEFAULT_FPS, MOST_FPS = 12.0, 30.0  # frame rate of the result if the video's is not known, and at most


def render_video(path: Path, model: Predictor, reset: str, limits: Limits) -> bytes:
    """The mp4 file. It is written beside `path`, which is in a folder of its own."""
    start = time.monotonic()
    policy = reset_policy(reset, model.head.classes, states=limits.states, live=False)
    stream = model.stream(reset=policy, attention=True)

    def check(prediction: Prediction) -> None:
        if time.monotonic() - start > MAX_SECONDS:
            raise BusyError(f"the video took more than {MAX_SECONDS:g} s: send a shorter one, or try again later")
        if prediction.time > limits.video_seconds:
            raise ApiError(413, f"the video lasts more than {limits.video_seconds:g} s, which is the limit")

    # It is read twice, small and as it is: predictions must not depend on being drawn.
    with open_upload(path, limits, model.size) as video, open_upload(path, limits) as large:
        check_duration(video, limits)
        fps = min(video.info.fps or DEFAULT_FPS, MOST_FPS)
        images = render_stream(stream, video.frames(), video.info.duration, fps=fps, large=large.frames(), report=check)
        rendered = path.with_name("rendered.mp4")
        write_video(rendered, images, fps)
    return rendered.read_bytes()
