"""Video input: files, folders and tar files of images, cameras and network streams, as frames with timestamps.

`VideoFile`, `LiveSource` and `write_video` need PyAV (FFmpeg), so they are imported on first use: packed data is read
without it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from horst.video.frame import DecodeReport, Frame, VideoInfo
from horst.video.images import ImageSequence

if TYPE_CHECKING:
    from horst.video.decode import VideoFile as VideoFile
    from horst.video.encode import write_video as write_video
    from horst.video.live import LiveSource as LiveSource

_LAZY = {"VideoFile": "decode", "LiveSource": "live", "write_video": "encode"}

__all__ = ["DecodeReport", "Frame", "ImageSequence", "LiveSource", "VideoFile", "VideoInfo", "write_video"]


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(f"horst.video.{_LAZY[name]}"), name)
    raise AttributeError(f"module 'horst.video' has no attribute {name!r}")
