"""Video input: files, folders and tar files of images, cameras and network streams, as frames with timestamps.

`VideoFile`, `LiveSource` and `write_video` need PyAV (FFmpeg), so they are imported on first use: packed data is read
without it.
"""

from typing import TYPE_CHECKING

from horst.extras import lazy_names
from horst.video.frame import DecodeReport, Frame, VideoInfo
from horst.video.images import ImageSequence

if TYPE_CHECKING:
    from horst.video.decode import VideoFile as VideoFile
    from horst.video.encode import write_video as write_video
    from horst.video.live import LiveSource as LiveSource

__all__ = ["DecodeReport", "Frame", "ImageSequence", "LiveSource", "VideoFile", "VideoInfo", "write_video"]
__getattr__ = lazy_names(__name__, {"VideoFile": "decode", "LiveSource": "live", "write_video": "encode"})
