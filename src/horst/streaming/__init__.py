"""Live video: frames with times in, predictions out, for one stream or many."""

from horst.streaming.late import FrameQueue, LatestFrames
from horst.streaming.pool import SessionPool, Slot, StreamSession
from horst.streaming.prediction import AttentionMaps, Prediction
from horst.streaming.reset import MotionReset, NeverReset, PeriodicReset, ResetPolicy, reset_policy
from horst.streaming.sampler import FrameSampler, SampledFrame

__all__ = [
    "AttentionMaps", "FrameQueue", "FrameSampler", "LatestFrames", "MotionReset", "NeverReset", "PeriodicReset",
    "Prediction", "ResetPolicy", "SampledFrame", "SessionPool", "Slot", "StreamSession", "reset_policy",
]  # fmt: skip
