"""CAD-120 (Koppula, Gupta, Saxena 2013) as videos with sub-activities, for the tasks "online" and "detection".

A folder with `segments.csv` (video, subject, start, end in seconds, label) and `videos/<video>.mp4`. All videos are in
the training split: folds by group leave one subject out.
"""

from pathlib import Path

from horst.config import Task
from horst.data.example import Annotations, Example
from horst.data.readers.tables import read_rows
from horst.data.segments import WHOLE_VIDEOS, whole_videos
from horst.errors import ConfigError, DataError


def read_cad120(folder: str | Path, *, task: Task = "online") -> Annotations:
    """The recordings of all subjects in a folder."""
    if task not in WHOLE_VIDEOS:
        raise ConfigError(f"data.task is {task!r}; the source cad120 takes {' or '.join(WHOLE_VIDEOS)}")
    folder = Path(folder)
    rows = list(read_rows(folder / "segments.csv"))
    if not rows:
        raise DataError(f"{folder / 'segments.csv'} has no segments")
    names = tuple(sorted({row.text("label") for row in rows}))
    examples = []
    for row in rows:
        video, start, end = row.text("video"), row.seconds("start"), row.seconds("end")
        if end <= start:
            raise DataError(f"{row}: the segment ends at {end:g} s, which is not after its start {start:g} s")
        examples.append(
            Example(
                id=f"{video}@{start:g}",
                split="train",
                media=folder / "videos" / f"{video}.mp4",
                labels={"action": names.index(row.text("label"))},
                start=start,
                end=end,
                video=video,
                group=row.text("subject"),
            )
        )
    found = Annotations(
        name="CAD-120",
        task="anticipation",
        examples=tuple(examples),
        classes={"action": names},
        mirror=tuple(range(len(names))),  # no sub-activity has a side
    )
    return whole_videos(found, task)
