"""Real video files for tests, each as small as its purpose allows. The number of a frame is painted into it."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import av
import numpy as np

from horst.video.encode import write_video
from horst.video.frame import Image


def picture(number: int, height: int = 48, width: int = 64) -> Image:
    """Grey of brightness 4 * number on the left, 255 - that on the right, on some texture."""
    image = np.full((height, width, 3), 4 * number % 256, np.uint8)
    image[:, width // 2 :] = 255 - 4 * number % 256
    image[: height // 8, :, 0] = 200
    return image


def number_of(image: Image) -> int:
    """The number painted into a picture."""
    height, width = image.shape[:2]
    left, right = image[height // 2 :, : width // 4].mean(), image[height // 2 :, -(width // 4) :].mean()
    return round(float(left + 255 - right) / 8)  # the conversion to RGB rounds both towards the middle


def clip(path: Path, frames: int = 30, fps: float = 12, height: int = 48, width: int = 64) -> Path:
    write_video(path, (picture(i, height, width) for i in range(frames)), fps)
    return path


def with_times(path: Path, times: Sequence[float], codec: str = "libx264") -> Path:
    """A video of variable frame rate: frame i is shown from times[i] on."""
    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=1000, options={"bf": "0", "g": "5"})
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        stream.codec_context.time_base = Fraction(1, 1000)
        for i, time in enumerate(times):
            frame = av.VideoFrame.from_ndarray(picture(i), format="rgb24")
            frame.pts, frame.time_base = round(1000 * time), Fraction(1, 1000)
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return path


def later(source: Path, path: Path, start: float) -> Path:
    """The same video, whose first frame is shown `start` seconds later."""
    with av.open(str(source)) as old, av.open(str(path), "w") as new:
        stream = new.add_stream_from_template(old.streams.video[0])
        for packet in old.demux(video=0):
            if packet.pts is not None:  # the last one is empty
                shift = round(start / packet.time_base)
                packet.pts, packet.dts, packet.stream = packet.pts + shift, packet.dts + shift, stream
                new.mux(packet)
    return path


def sound_only(path: Path) -> Path:
    with av.open(str(path), "w") as container:
        stream = container.add_stream("aac", rate=16_000, layout="mono")
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 1024), np.float32), format="fltp", layout="mono")
        frame.sample_rate = 16_000
        container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return path


def transparent(path: Path) -> Path:
    """PNG pictures in QuickTime: white, of which the right half is transparent."""
    with av.open(str(path), "w") as container:
        stream = container.add_stream("png", rate=5)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "rgba"
        image = np.full((48, 64, 4), 255, np.uint8)
        image[:, 32:, 3] = 0
        for _ in range(3):
            container.mux(stream.encode(av.VideoFrame.from_ndarray(image, format="rgba")))
        container.mux(stream.encode())
    return path


def turn(path: Path, degrees: int) -> Path:
    """Makes the header of an mp4 ask to be turned clockwise by 90, 180 or 270 degrees, as phones write it."""
    data = bytearray(path.read_bytes())
    place = data.index(b"tkhd") + 4 + 40  # the 3x3 matrix of 16.16 and 2.30 numbers
    cosine, sine = {90: (0, 1), 180: (-1, 0), 270: (0, -1)}[degrees]
    matrix = [cosine << 16, sine << 16, 0, -sine << 16, cosine << 16, 0, 0, 0, 1 << 30]
    data[place : place + 36] = b"".join(value.to_bytes(4, "big", signed=True) for value in matrix)
    path.write_bytes(bytes(data))
    return path
