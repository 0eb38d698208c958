"""What a server grants: every queue, size and time has a bound, and clients are told them."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields

from horst.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Limits:
    """Of one server. Sizes are in bytes, times in seconds."""

    streams: int = 32
    """WebSocket streams at once, of all models together."""
    states: int = 3
    """States that one stream may ask for with `restarts: every`."""
    load: float = 0.8
    """Part of the time that models may be at work; a stream that would need more is told "busy"."""
    frame_bytes: int = 1 << 20
    """One encoded picture."""
    frame_pixels: int = 4096 * 2304
    """Height times width of a picture, looked up before it is decoded."""
    rate: float = 60.0
    """Frames a second of one stream; those above it are refused."""
    in_flight: int = 8
    """Frames of one stream that wait for an answer; those above it are skipped."""
    idle: float = 60.0
    """A stream that says nothing for so long is closed."""
    slow: float = 10.0
    """A client that does not take its answers for so long is closed."""
    upload_bytes: int = 64 << 20
    """The body of one request."""
    video_seconds: float = 300.0
    """Of a video that is sent to be predicted."""
    uploads: int = 2
    """Videos that are predicted at once or wait for it."""
    models: int = 3
    """Models in memory at once."""
    recording_frames: int = 600
    """Of a clip to teach with."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not value > 0:
                raise ConfigError(f"{field.name} is {value}; a limit is above 0")

    def to_dict(self) -> dict[str, float]:
        return asdict(self)
