"""Video in: files, folders and tar files of pictures, cameras and addresses, as frames that carry their time."""

from horst.video.frame import Frame, Report, VideoInfo

__all__ = ["Frame", "Report", "VideoInfo"]
