"""Writing video files."""

from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path
from typing import Any

import av

from horst.errors import InputError
from horst.io import atomic_write
from horst.video.frame import Image

# The encoder of each container: fast, small enough, and decoded everywhere.
CODECS: dict[str, tuple[str, dict[str, str]]] = {
    ".webm": ("libvpx-vp9", {"deadline": "realtime", "cpu-used": "8", "crf": "30", "b": "0", "row-mt": "0"}),
    ".mp4": ("libx264", {"preset": "veryfast", "crf": "23"}),
}


def write_video(path: str | Path, frames: Iterable[Image], fps: float, *, threads: int = 1) -> int:
    """Encode RGB frames (H, W, 3) to `path` atomically, by its ending (.webm or .mp4); returns how many there were."""
    path = Path(path)
    if path.suffix not in CODECS:
        raise InputError(f"{path}: videos are written as {' or '.join(CODECS)}")
    codec, options = CODECS[path.suffix]
    rate, count = Fraction(fps).limit_denominator(1000), 0
    stream: Any = None
    with atomic_write(path) as partial, av.open(str(partial), "w", format=path.suffix[1:]) as container:
        for count, image in enumerate(frames, 1):
            if stream is None:
                if path.suffix == ".mp4" and (image.shape[0] % 2 or image.shape[1] % 2):
                    raise InputError(f"{path.name}: mp4 takes even sizes, not {image.shape[0]}x{image.shape[1]}")
                stream = container.add_stream(codec, rate=rate, options=dict(options))
                stream.height, stream.width = image.shape[:2]
                stream.pix_fmt = "yuv420p"
                stream.codec_context.thread_count = threads
            frame = av.VideoFrame.from_ndarray(image, format="rgb24")
            frame.pts = count - 1
            frame.time_base = 1 / rate
            container.mux(stream.encode(frame))
        if stream is None:
            raise InputError(f"{path.name}: a video needs at least one frame")
        container.mux(stream.encode())
    return count
