"""Teach a small model from a few recorded clips of each action, on the user's own machine.

    recordings = Recordings("recordings")
    recordings.add("wave", [(time, image), ...])
    teach(recordings.clips(), "models/mine", minutes=1)     # here and now
    teacher = Teacher(recordings, "models")                 # or beside a server that goes on
    teacher.start("mine")

Names below are imported when they are first used: recordings alone do not wait for torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from horst.finetune.recordings import Recording as Recording
    from horst.finetune.recordings import RecordingLimits as RecordingLimits
    from horst.finetune.recordings import Recordings as Recordings
    from horst.finetune.teach import Taught as Taught
    from horst.finetune.teach import teach as teach
    from horst.finetune.teacher import Teacher as Teacher

_HOME = {
    "Recording": "recordings",
    "RecordingLimits": "recordings",
    "Recordings": "recordings",
    "Taught": "teach",
    "Teacher": "teacher",
    "teach": "teach",
}
__all__ = [*_HOME]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"horst.finetune.{_HOME[name]}"), name)
    raise AttributeError(f"module 'horst.finetune' has no attribute {name!r}")
