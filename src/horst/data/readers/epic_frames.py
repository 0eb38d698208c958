"""How many numbered frames of EPIC-Kitchens there are a second, by where they come from.

    official   EPIC's own downloads (rgb_frames): 60 for the videos of EPIC-Kitchens 55 (P01_01), 50 for those that
               EPIC-Kitchens 100 added (P01_101), whatever the rate of the video file. start_frame in the official CSV
               files counts in the same way.
    native     every frame of the video file, at the rate that the video info file has for it
    rulstm     30, as in RULSTM's CSV files, in its LMDB and in flat folders (P01_01_frame_0000000001.jpg)

Pictures do not tell which. Flat names are RULSTM's; for the others the option `frames` must say it. Where there is a
video info file, the highest number is compared with the length of the video (see `horst.data.readers.pictures`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from horst.data.example import Pictures
from horst.data.readers.pictures import is_pictures
from horst.data.readers.tables import need, positive, read_rows
from horst.errors import DataError

Version = Literal["ek55", "ek100"]
Frames = Literal["rulstm", "official", "native"]
RULSTM_FPS = 30.0
PUBLIC = {
    "ek55": "https://github.com/epic-kitchens/epic-kitchens-55-annotations",
    "ek100": "https://github.com/epic-kitchens/epic-kitchens-100-annotations",
}
"""Where the official annotation files are."""
INFO = {"ek55": ("EPIC_video_info.csv", "video"), "ek100": ("EPIC_100_video_info.csv", "video_id")}


@dataclass(frozen=True, slots=True)
class VideoFacts:
    """A row of a video info file."""

    fps: float
    """Of the video file."""
    duration: float
    """Seconds."""


def read_video_info(folder: Path, version: Version) -> dict[str, VideoFacts]:
    """The rate and length of every video; empty where the file is missing."""
    name, key = INFO[version]
    path = folder / name
    found: dict[str, VideoFacts] = {}
    for line, row in read_rows(path) if path.exists() else ():
        video = need(path, line, row, key)
        if video in found:
            raise DataError(f"{path}, line {line}: {key} {video!r} occurs twice; remove one of the rows")
        found[video] = VideoFacts(positive(path, line, row, "fps"), positive(path, line, row, "duration"))
    return found


def official_fps(video: str) -> float:
    """The rate of EPIC's own frames of a video."""
    return 50.0 if re.fullmatch(r"P\d+_1\d\d", video) else 60.0


def pictures_of(
    video: str, media: Path, frames: Frames | None, facts: VideoFacts | None, folder: Path, version: Version
) -> Pictures | None:
    """The rate of a video's pictures, found at `media`; None where that is a video file. `folder`: the annotations."""
    if not is_pictures(media):
        return None
    flat = media.suffix != ".tar" and media.name != video
    if flat and frames not in (None, "rulstm"):
        raise DataError(
            f"{media}: frames is {frames!r}, and names such as {video}_frame_0000000001.jpg are RULSTM's, at 30 a "
            "second: set frames: rulstm, or point media at a folder or tar file for each video"
        )
    if frames is None and not flat:
        raise DataError(
            f"{media} holds numbered frames, which do not say how many there are a second. Set the option frames: "
            "official (EPIC's own rgb_frames: 60 or 50), native (every frame of the video file) or rulstm (30)"
        )
    if frames == "native" and facts is None:
        raise DataError(
            f"{folder / INFO[version][0]} has no rate of {video}, and frames is 'native': get that file from "
            f"{PUBLIC[version]}, or set frames to official or rulstm"
        )
    rates: dict[str, float] = {"rulstm": RULSTM_FPS, "official": official_fps(video)}
    if facts is not None:
        rates["native"] = facts.fps
    chosen = rates.pop(frames or "rulstm")
    duration = None if facts is None else facts.duration
    return Pictures(fps=chosen, first=1, duration=duration, others=tuple(rates.items()))
