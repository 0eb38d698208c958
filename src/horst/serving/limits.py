"""The limits of a server: every queue, size and time is bounded. Clients can read them."""

from dataclasses import dataclass

from horst.config import check_entries

MIN_RATE = 16 << 10  # bytes per second, on average, at which a client must send a body and read an answer


@dataclass(frozen=True, slots=True)
class Limits:
    """Sizes are in bytes, times in seconds."""

    streams: int = 32  # WebSocket sessions at once, over all models; more are rejected as busy
    states: int = 3  # per session, for `reset: every`
    load: float = 0.8  # fraction of time that the models may be busy; a session that would exceed it is rejected
    frame_bytes: int = 1 << 20  # of an encoded frame; larger ones are rejected
    frame_pixels: int = 4096 * 2304  # height times width of a frame, checked before it is decoded; more are rejected
    rate: float = 60.0  # frames per second of one session; those above this rate are rejected
    in_flight: int = 8  # frames of one session that wait for an answer; more are skipped
    idle: float = 60.0  # time without a message after which a session is closed
    slow: float = 10.0  # time in which a client must accept a message; otherwise it is disconnected
    head: float = 10.0  # time in which a client must send the head of a request, or the first message of a WebSocket
    waiting: int = 64  # connections of one address that wait for their client; a further one ends the oldest of them
    body: float = 5.0  # time in which some more of a request body must arrive
    upload_bytes: int = 64 << 20  # of a request body
    video_seconds: float = 300.0  # duration of an uploaded video
    video_pixels: int = 20_000_000_000  # of all frames of an uploaded video, as they are decoded
    uploads: int = 2  # uploaded videos that have arrived and are read, or wait for it
    bodies: int = 8  # request bodies that are arriving, on disk; a further one ends a slow one of the same address
    models: int = 3  # in memory; unused ones are unloaded to make room
    recordings: int = 8  # recorded clips that have arrived and are stored, or wait for it
    recording_frames: int = 600  # of a recorded clip
    recording_pixels: int = 1920 * 1088  # height times width of a recorded frame, checked before it is decoded

    def __post_init__(self) -> None:
        check_entries("limits", self, **dict.fromkeys(self.__slots__, ">0"))
