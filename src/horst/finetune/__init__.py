"""Finetune a small model on a few recorded clips of each action, on the local machine.

finetune("clips", "models/mine")                        # from clips/<label>/*.mp4
recordings = Recordings("recordings")
recordings.add("wave", [(time, image), ...])
finetune(recordings.clips(), "models/mine")
Finetuner(recordings, "models").start("mine")           # in a worker process, next to a server
"""

from horst.finetune.finetuner import Finetuner as Finetuner
from horst.finetune.finetuner import FinetuneState as FinetuneState
from horst.finetune.job import NOTHING as NOTHING
from horst.finetune.job import FinetuneProgress as FinetuneProgress
from horst.finetune.job import LabelResult as LabelResult
from horst.finetune.recordings import Recording as Recording
from horst.finetune.recordings import RecordingLimits as RecordingLimits
from horst.finetune.recordings import Recordings as Recordings
from horst.finetune.run import FinetuneResult as FinetuneResult
from horst.finetune.run import finetune as finetune
