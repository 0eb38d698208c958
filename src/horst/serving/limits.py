"""The limits of a server: every queue, size and time is bounded. Clients can read them."""

from dataclasses import dataclass

from horst.config import check_entries


@dataclass(frozen=True, slots=True)
class Limits:
    """Sizes are in bytes, times in seconds."""

    streams: int = 32
    """WebSocket sessions at once, over all models. More are rejected as busy."""
    states: int = 3
    """States per session, for `reset: every`."""
    load: float = 0.8
    """Fraction of time that the models may be busy. A session that would exceed it is rejected as busy."""
    frame_bytes: int = 1 << 20
    """Size of an encoded frame. Larger ones are rejected."""
    frame_pixels: int = 4096 * 2304
    """Height times width of a frame, checked before it is decoded. Larger ones are rejected."""
    rate: float = 60.0
    """Frames per second of one session. Frames above this rate are rejected."""
    in_flight: int = 8
    """Frames of one session that wait for an answer. More are skipped."""
    idle: float = 60.0
    """Time without a message after which a session is closed."""
    slow: float = 10.0
    """Time in which a client must accept a message; otherwise it is disconnected."""
    upload_bytes: int = 64 << 20
    """Size of a request body."""
    video_seconds: float = 300.0
    """Duration of an uploaded video."""
    uploads: int = 2
    """Uploaded videos in progress, including those that wait."""
    models: int = 3
    """Models in memory. Unused ones are unloaded to make room."""
    recording_frames: int = 600
    """Frames of a recorded clip."""

    def __post_init__(self) -> None:
        check_entries("limits", self, **dict.fromkeys(self.__slots__, ">0"))
