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
    head: float = 10.0
    """Time in which a client must send the head of a request, or the first message of a WebSocket."""
    waiting: int = 64
    """Connections of one address without a request. A further one takes the place of the oldest."""
    body: float = 5.0
    """Time in which some more of a request body must arrive."""
    upload_bytes: int = 64 << 20
    """Size of a request body."""
    video_seconds: float = 300.0
    """Duration of an uploaded video."""
    video_pixels: int = 20_000_000_000
    """Pixels of all frames of an uploaded video, as they are decoded."""
    uploads: int = 2
    """Uploaded videos that have arrived and are read, or wait for it."""
    bodies: int = 8
    """Request bodies that are arriving. They are kept on disk."""
    models: int = 3
    """Models in memory. Unused ones are unloaded to make room."""
    recordings: int = 8
    """Recorded clips that have arrived and are stored, or wait for it."""
    recording_frames: int = 600
    """Frames of a recorded clip."""
    recording_pixels: int = 1920 * 1088
    """Height times width of a recorded frame, checked before it is decoded."""

    def __post_init__(self) -> None:
        check_entries("limits", self, **dict.fromkeys(self.__slots__, ">0"))
