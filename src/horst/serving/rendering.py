"""A video with its predictions drawn in, as `horst predict --render` writes it."""

from pathlib import Path

from horst.models import Predictor
from horst.serving.limits import Limits
from horst.serving.uploads import Check, checked_frames, open_upload
from horst.streaming import reset_policy
from horst.video.encode import write_video
from horst.viz.render import render_stream

DEFAULT_FPS, MOST_FPS = 12.0, 30.0  # frame rate of the result if the video's is not known, and at most


def render_video(path: Path, check: Check, *, model: Predictor, reset: str, limits: Limits) -> bytes:
    """The mp4 file. It is written beside `path`, which is in a folder of its own."""
    policy = reset_policy(reset, model.head.classes, states=limits.states, live=False)
    stream = model.stream(reset=policy, attention=True)
    # It is read twice, small and as it is: predictions must not depend on being drawn.
    with open_upload(path, limits, model.size) as video, open_upload(path, limits) as large:
        frames = checked_frames(video, limits, check)
        fps = min(video.info.fps or DEFAULT_FPS, MOST_FPS)
        images = render_stream(stream, frames, video.info.duration, fps=fps, large=large.frames())
        rendered = path.with_name("rendered.mp4")
        write_video(rendered, images, fps)
    return rendered.read_bytes()
