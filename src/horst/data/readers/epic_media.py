"""The media of EPIC-Kitchens: where the frames of a video are, and the frame rate of numbered images.

The option `frames` states the origin of numbered images:

    official   EPIC's own downloads (rgb_frames): 60 fps for the videos of EPIC-Kitchens 55 (P01_01), 50 fps for those
               that EPIC-Kitchens 100 added (P01_101), whatever the rate of the video file
    native     every frame of the video file, at the rate in the video info file
    rulstm     30 fps, as in RULSTM's CSV files, its LMDB and flat folders (P01_01_frame_0000000001.jpg)

Flat names are always RULSTM's. If there is a video info file, the highest number is compared with the duration of the
video (see `horst.data.readers.images`).
"""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from typing import Literal

from horst.data.example import SequenceTiming
from horst.data.readers.tables import read_rows
from horst.errors import DataError
from horst.video.frame import is_image_sequence

Version = Literal["ek55", "ek100"]
Frames = Literal["rulstm", "official", "native"]
RULSTM_FPS = 30.0
PUBLIC = {
    "ek55": "https://github.com/epic-kitchens/epic-kitchens-55-annotations",
    "ek100": "https://github.com/epic-kitchens/epic-kitchens-100-annotations",
}
"""Where the official annotation files are."""
INFO = {"ek55": ("EPIC_video_info.csv", "video"), "ek100": ("EPIC_100_video_info.csv", "video_id")}
SUFFIXES = (".MP4", ".mp4", ".webm", ".mkv", ".avi")


def find_media(root: Path, video: str) -> Path:
    """The video file, folder or tar file of a video such as P01_01; `root` itself if images lie flat in it.

    These are tried in `root`, in root/P01 and in the folders of EPIC's own downloads (root/P01/rgb_frames,
    root/P01/videos, root/train/P01, root/test/P01):

        P01_01.mp4 (.MP4, .webm, ...)                a video
        P01_01/frame_0000000001.jpg                  official frames
        P01_01.tar                                   official frames in a tar file
        P01_01_frame_0000000001.jpg                  flat frames of many videos in one folder

    If nothing is found the first place is returned; opening it is an error.
    """
    participant = video.split("_")[0]
    folders = [root, root / participant, *(root / participant / sub for sub in ("rgb_frames", "videos"))]
    folders += [root / split / participant for split in ("train", "test")]
    for folder in folders:
        for path in (*(folder / f"{video}{suffix}" for suffix in SUFFIXES), folder / video, folder / f"{video}.tar"):
            if path.is_dir() if path.name == video else path.is_file():
                return path
    changed = root.stat().st_mtime_ns if root.exists() else 0
    return root if video in _flat_videos(root.absolute(), changed) else root / f"{video}{SUFFIXES[0]}"


@lru_cache(maxsize=8)
def _flat_videos(root: Path, changed: int) -> frozenset[str]:
    """The videos whose images lie flat in a folder, which may hold millions of files: it is listed only if changed."""
    if not root.is_dir():
        return frozenset()
    return frozenset(p.name.split("_frame_")[0] for p in root.iterdir() if "_frame_" in p.name)


def read_video_info(folder: Path, version: Version) -> dict[str, tuple[float, float]]:
    """(fps, duration in seconds) of every video; empty if there is no video info file."""
    name, key = INFO[version]
    path = folder / name
    found: dict[str, tuple[float, float]] = {}
    for row in read_rows(path) if path.exists() else ():
        video = row.text(key)
        if video in found:
            raise DataError(f"{row}: {key} {video!r} occurs twice; remove one of the rows")
        found[video] = row.positive("fps"), row.positive("duration")
    return found


def official_fps(video: str) -> float:
    """The rate of EPIC's own frames of a video."""
    return 50.0 if re.fullmatch(r"P\d+_1\d\d", video) else 60.0


def epic_timing(
    video: str,
    media: Path,
    frames: Frames | None,
    info: tuple[float, float] | None,
    annotations: Path,
    version: Version,
) -> SequenceTiming | None:
    """The timing of a video's images; None if `media` is a video file. `info`: see `read_video_info`."""
    if not is_image_sequence(media):
        return None
    flat = media.suffix != ".tar" and media.name != video
    if flat and frames not in (None, "rulstm"):
        raise DataError(
            f"{media}: frames is {frames!r}, but names such as {video}_frame_0000000001.jpg are RULSTM's, at 30 fps: "
            "set frames: rulstm, or point media at a folder or tar file for each video"
        )
    if frames is None and not flat:
        raise DataError(
            f"{media} holds numbered images, which do not state their frame rate. Set the option frames: official "
            "(EPIC's own rgb_frames: 60 or 50 fps), native (every frame of the video file) or rulstm (30 fps)"
        )
    if frames == "native" and info is None:
        raise DataError(
            f"{annotations / INFO[version][0]} has no frame rate of {video}, and frames is 'native': get that file "
            f"from {PUBLIC[version]}, or set frames to official or rulstm"
        )
    fps, duration = info or (None, None)
    rates = {"rulstm": RULSTM_FPS, "official": official_fps(video), **({"native": fps} if fps is not None else {})}
    chosen = rates.pop(frames or "rulstm")
    return SequenceTiming(fps=chosen, first=1, duration=duration, others=tuple(rates.items()))
