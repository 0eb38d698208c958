"""Finetune a small model on a few recorded clips of each action, on the local machine.

    finetune("clips", "models/mine")                        # from clips/<label>/*.mp4
    recordings = Recordings("recordings")
    recordings.add("wave", [(time, image), ...])
    finetune(recordings.clips(), "models/mine", minutes=1)
    Finetuner(recordings, "models").start("mine")           # in a worker process, next to a server

The names below are imported on first use: recordings do not need torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from horst.finetune.finetuner import Finetuner as Finetuner
    from horst.finetune.finetuner import FinetuneState as FinetuneState
    from horst.finetune.job import FinetuneProgress as FinetuneProgress
    from horst.finetune.recordings import Recording as Recording
    from horst.finetune.recordings import RecordingLimits as RecordingLimits
    from horst.finetune.recordings import Recordings as Recordings
    from horst.finetune.run import FinetuneResult as FinetuneResult
    from horst.finetune.run import finetune as finetune

_LAZY = {
    **dict.fromkeys(("FinetuneState", "Finetuner"), "finetuner"),
    **dict.fromkeys(("FinetuneResult", "finetune"), "run"),
    **dict.fromkeys(("Recording", "RecordingLimits", "Recordings"), "recordings"),
    "FinetuneProgress": "job",
}
__all__ = [*_LAZY]


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(f"horst.finetune.{_LAZY[name]}"), name)
    raise AttributeError(f"module 'horst.finetune' has no attribute {name!r}")
