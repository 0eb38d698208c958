"""Where the pictures of a video are: the layouts in which EPIC-Kitchens lies on people's disks."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

VIDEO_SUFFIXES = (".MP4", ".mp4", ".webm", ".mkv", ".avi")


def find_media(root: Path, video: str) -> Path:
    """The video file, frame folder or tar file of a video such as P01_01; `root` itself if frames lie flat in it.

    Tried in this order, in `root`, in root/P01 and in the folders that EPIC's own downloads have (root/P01/rgb_frames,
    root/P01/videos, root/train/P01, root/test/P01):

        P01_01.mp4 (.MP4, .webm, ...)                a video
        P01_01/frame_0000000001.jpg                  official frames
        P01_01.tar                                   official frames, packed
        P01_01_frame_0000000001.jpg                  flat frames of many videos in one folder

    Where nothing is found, the first place is returned: whether it is there is asked when it is opened.
    """
    participant = video.split("_")[0]
    folders = [root, root / participant, *(root / participant / sub for sub in ("rgb_frames", "videos"))]
    folders += [root / split / participant for split in ("train", "test")]
    for folder in folders:
        for suffix in VIDEO_SUFFIXES:
            if (folder / f"{video}{suffix}").is_file():
                return folder / f"{video}{suffix}"
        if (folder / video).is_dir():
            return folder / video
        if (folder / f"{video}.tar").is_file():
            return folder / f"{video}.tar"
    if video in _flat_videos(root.absolute(), changed(root)):
        return root
    return root / f"{video}{VIDEO_SUFFIXES[0]}"


@lru_cache(maxsize=8)
def _flat_videos(root: Path, changed: int) -> frozenset[str]:
    """The videos whose frames lie flat in a folder. It may hold millions of files: it is listed once if unchanged."""
    if not root.is_dir():
        return frozenset()
    return frozenset(p.name.split("_frame_")[0] for p in root.iterdir() if "_frame_" in p.name)


def changed(path: Path) -> int:
    """When files were last added to a folder, removed or renamed, or when a file was written; 0 where it is missing."""
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0
