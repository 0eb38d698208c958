"""Video files of many containers, codecs and key frame patterns. Each frame has its number in its pixels."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
from av.video.reformatter import VideoReformatter

from horst.video.frame import Image

FPS, FRAMES = 25, 50
HEIGHT, WIDTH = 48, 64
_TEXTURE = np.random.default_rng(0).integers(-8, 9, (HEIGHT, WIDTH, 1))


@functools.cache
def coded(number: int, height: int = HEIGHT, width: int = WIDTH, noise: int = 0) -> Image:
    """The number in 8 blocks: 6 bits and 2 bits of check, on a texture that stays where it is, and noise."""
    code = number | (number.bit_count() & 1) << 6 | (~number & 1) << 7
    bits = np.array([code >> bit & 1 for bit in range(8)]).reshape(2, 4)
    blocks = np.kron(32 + 176 * bits, np.ones((height // 2, width // 4), int))[..., None]
    texture = np.resize(_TEXTURE, (height, width, 1))
    texture = texture + np.random.default_rng(number).integers(-noise, noise + 1, texture.shape)
    return np.repeat(blocks + texture, 3, -1).clip(0, 255).astype(np.uint8)


def decoded(image: Image) -> int:
    """The number in a picture; -1 where it cannot be read."""
    height, width = image.shape[:2]
    blocks = image.reshape(2, height // 2, 4, width // 4 * 3)[:, height // 8 : -height // 8, :, 9:-9].mean((1, 3))
    if np.any(np.abs(blocks - 120) < 30):
        return -1
    code = sum(int(bit) << i for i, bit in enumerate((blocks > 120).ravel()))
    number = code & 63
    return number if code == number | (number.bit_count() & 1) << 6 | (~number & 1) << 7 else -1


X264 = {"preset": "ultrafast", "crf": "12"}
X265 = {"preset": "ultrafast", "crf": "12"}
VPX = {"deadline": "realtime", "cpu-used": "8", "b": "2M", "auto-alt-ref": "0", "lag-in-frames": "0"}
PLAIN = {"b": "3M"}  # FFmpeg's own encoders

# Key frame patterns by codec: name -> encoder options.
GOPS: dict[str, dict[str, dict[str, str]]] = {
    "libx264": {
        "intra": X264 | {"g": "1", "bf": "0"},
        "12": X264 | {"g": "12", "bf": "0"},
        "12 B": X264 | {"g": "12", "bf": "2", "b-pyramid": "normal"},
        "250": X264 | {"g": "250", "bf": "0"},
        "250 B": X264 | {"g": "250", "bf": "3"},
        "open B": X264 | {"x264-params": "open-gop=1:keyint=12:min-keyint=12:bframes=3:scenecut=0"},
        "refresh": X264 | {"g": "12", "bf": "0", "intra-refresh": "1"},
        "refresh 250": X264 | {"g": "250", "bf": "0", "intra-refresh": "1"},
    },
    "libx265": {
        "intra": X265 | {"x265-params": "keyint=1:log-level=none"},
        "12 B": X265 | {"x265-params": "keyint=12:bframes=2:open-gop=0:log-level=none"},
        "250": X265 | {"x265-params": "keyint=250:bframes=0:log-level=none"},
        "open B": X265 | {"x265-params": "keyint=12:min-keyint=12:bframes=3:open-gop=1:scenecut=0:log-level=none"},
    },
    "libsvtav1": {
        "12": {"preset": "8", "crf": "20", "svtav1-params": "keyint=12:irefresh-type=2:lp=1"},
        "open": {"preset": "8", "crf": "20", "svtav1-params": "keyint=16:irefresh-type=1:lp=1"},
    },
    "libvpx": {"intra": VPX | {"g": "1"}, "12": VPX | {"g": "12"}, "250": VPX | {"g": "250"}},
    "libvpx-vp9": {
        "intra": VPX | {"g": "1"},
        "12": VPX | {"g": "12"},
        "250": VPX | {"g": "250"},
        "hidden": {
            "deadline": "good",
            "cpu-used": "8",
            "b": "2M",
            "auto-alt-ref": "1",
            "lag-in-frames": "12",
            "g": "20",
        },
    },
    "mpeg2video": {
        "intra": PLAIN | {"g": "1", "bf": "0"},
        "12": PLAIN | {"g": "12", "bf": "0"},
        "12 B": PLAIN | {"g": "12", "bf": "2", "flags": "+cgop", "sc_threshold": "1000000000"},
        "250 B": PLAIN | {"g": "250", "bf": "2"},
        "open B": PLAIN | {"g": "12", "bf": "2"},
    },
    "intra only": {"intra": {}},
    "no B": {
        "intra": PLAIN | {"g": "1"},
        "12": PLAIN | {"g": "12"},
        "250": PLAIN | {"g": "250"},
    },
}
GOPS["mpeg1video"] = GOPS["mpeg2video"]
GOPS["mpeg4"] = GOPS["mpeg2video"]
for _codec in ("mjpeg", "ffv1", "prores_ks", "png"):
    GOPS[_codec] = GOPS["intra only"]
for _codec in ("flv", "h263", "wmv2", "msmpeg4"):
    GOPS[_codec] = GOPS["no B"]

PIXELS = {"mjpeg": "yuvj420p", "prores_ks": "yuv422p10le", "png": "rgb24"}


@dataclass(frozen=True)
class Form:
    """A container with a codec."""

    suffix: str
    codec: str
    mux: dict[str, str] = field(default_factory=dict)
    clock: bool = True
    """Whether its clock may start anywhere; AVI and the like only count frames."""
    size: tuple[int, int] = (HEIGHT, WIDTH)
    noise: int = 0
    """Makes frames large."""
    gops: tuple[str, ...] = ()
    """Key frame patterns; all of the codec by default."""

    def __str__(self) -> str:
        return f"{self.suffix}-{self.codec}" + "-fragmented" * bool(self.mux)


FRAGMENTED = {"movflags": "frag_keyframe+empty_moov+default_base_moof"}
FORMS = [
    *(Form("mp4", codec) for codec in ("libx264", "libx265", "mpeg4", "libsvtav1", "libvpx-vp9")),
    Form("mp4", "libx264", FRAGMENTED),
    Form("mov", "libx264", gops=("12 B", "open B")),  # read by the demuxer of mp4
    *(Form("mov", codec) for codec in ("prores_ks", "mjpeg", "png")),
    *(Form("mkv", codec) for codec in ("libx264", "libx265", "ffv1", "mpeg2video", "mpeg4")),
    *(Form("webm", codec) for codec in ("libvpx", "libvpx-vp9", "libsvtav1")),
    *(Form("avi", codec, clock=False) for codec in ("libx264", "mpeg4", "mjpeg", "msmpeg4", "ffv1")),
    *(Form("flv", codec) for codec in ("libx264", "flv")),
    *(Form("ts", codec) for codec in ("libx264", "libx265", "mpeg2video", "mpeg4")),
    # A frame of a few bytes shares its packet, which has one time, with others: FFmpeg guesses theirs, and not well.
    *(Form("mpg", codec, size=(96, 128), noise=40) for codec in ("mpeg1video", "mpeg2video")),
    Form("wmv", "wmv2"),
    Form("3gp", "h263", size=(96, 128)),
    Form("3gp", "mpeg4", gops=("12", "250 B")),
    Form("m4v", "mpeg4"),
    Form("ogv", "libvpx"),
    Form("mxf", "mpeg2video", clock=False),
    Form("ivf", "libvpx-vp9", clock=False),
]


def write(path: Path, form: Form, options: dict[str, str], start: float = 0.0, frames: int = FRAMES) -> Path:
    """A file whose clock starts at `start`, written without B-frames unless the options ask for them."""
    with av.open(str(path), "w", options=form.mux) as container:
        stream = container.add_stream(form.codec, rate=FPS, options=options)
        stream.height, stream.width, stream.pix_fmt = *form.size, PIXELS.get(form.codec, "yuv420p")
        stream.codec_context.thread_count = 1
        for number in range(frames):
            frame = av.VideoFrame.from_ndarray(coded(number, *form.size, form.noise), format="rgb24")
            frame.pts, frame.time_base = number + round(start * FPS), Fraction(1, FPS)
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return path


def files(folder: Path, form: Form) -> Iterator[tuple[str, Path]]:
    """All files of a form, with what they are."""
    for gop in form.gops or GOPS[form.codec]:
        options = GOPS[form.codec][gop]
        for start in (0.0, 100.0) if form.clock else (0.0,):
            name = f"{gop} {start:g}".replace(" ", "_")
            yield f"{form} {gop} from {start:g} s", write(folder / f"{name}.{form.suffix}", form, options, start)


def sequential(path: Path) -> list[Image]:
    """What FFmpeg shows of a file, from its first packet to its last, in order."""
    with av.open(str(path)) as container:
        container.streams.video[0].codec_context.thread_count = 1
        reformatter = VideoReformatter()
        frames = container.decode(video=0)
        return [reformatter.reformat(frame, format="rgb24", threads=1).to_ndarray() for frame in frames]
