"""Live video: frames with times in, predictions out, for one stream or many."""

from horst.streaming.attention import Attention
from horst.streaming.pool import Pool, Seat
from horst.streaming.prediction import Prediction
from horst.streaming.restarts import Every, Never, OnMotion, Restarts, restarts_by_name
from horst.streaming.stream import Stream
from horst.streaming.ticks import Tick, Ticker

__all__ = [
    "Attention",
    "Every",
    "Never",
    "OnMotion",
    "Pool",
    "Prediction",
    "Restarts",
    "Seat",
    "Stream",
    "Tick",
    "Ticker",
    "restarts_by_name",
]
