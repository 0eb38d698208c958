"""The layout of MS-TCN: features and a label of every frame (50 Salads, Breakfast, GTEA).

features/VIDEO.npy                  (channels, frames)
groundTruth/VIDEO.txt               the label of each frame, one in each line
mapping.txt                         number and name of each label
splits/train.split1.bundle          names of label files, one in each line; test.split1.bundle
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from horst.config import Task, check_positive
from horst.data.example import Annotations
from horst.data.readers.tables import read_lines, read_text
from horst.data.readers.vectors import (
    BACKGROUND_NAME,
    VectorFiles,
    VectorVideos,
    check_rate,
    label_columns,
    label_segments,
    vector_example,
)
from horst.errors import ConfigError, DataError, did_you_mean

BUNDLES = {"train": "train", "val": "test"}  # papers report on the test set


def read_ms_tcn(
    folder: str | Path,
    fps: float,
    *,
    split: int = 1,
    background: Sequence[str] | None = None,
    task: Task = "detection",
) -> VectorVideos:
    """The data set in `folder`. The test bundle of `split` becomes the split val.

    `fps`: rate of features and labels, 30 for 50 Salads and 15 for Breakfast and GTEA. `background`: names of labels
    that are no action; by default "background", if there is such a label.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise DataError(f"{folder}: there is no such folder")
    check_rate(fps)
    check_positive(split=split)
    names = read_mapping(folder / "mapping.txt")
    for name in background or ():
        if name not in names:
            raise ConfigError(
                f"background names {name!r}, which {folder / 'mapping.txt'} lacks{did_you_mean(name, names)}"
            )
    beyond = {names.index(name) for name in names if name in ((BACKGROUND_NAME,) if background is None else background)}
    classes, columns = label_columns(names, beyond, None, task)
    files: dict[str, VectorFiles] = {}
    examples = []
    for ours, theirs in BUNDLES.items():
        bundle = folder / "splits" / f"{theirs}.split{split}.bundle"
        seen: dict[str, int] = {}
        for line, text in read_lines(bundle):
            video = text.removesuffix(".txt")
            if (before := seen.setdefault(video, line)) != line:
                raise DataError(f"{bundle}, line {line}: {video!r} is in line {before} too; remove one of them")
            labels = folder / "groundTruth" / f"{video}.txt"
            if not labels.is_file():
                raise DataError(f"{labels}: there is no such file ({bundle}, line {line}, names it)")
            found = _frame_labels(labels, names)
            files[video] = VectorFiles((folder / "features" / f"{video}.npy",), labels, len(found))
            segments = label_segments(np.arange(len(found)), found, columns, fps)
            examples.append(vector_example(video, ours, files[video], segments))
    annotations = Annotations(name=folder.resolve().name, task=task, examples=tuple(examples), classes=classes)
    return VectorVideos(annotations, files, fps=float(fps), frames_last=True)


def read_mapping(path: Path) -> list[str]:
    """The names of labels, in the order of their numbers, which count from 0."""
    found: dict[int, str] = {}
    for line, text in read_lines(path):
        number, _, name = text.partition(" ")
        if not (number.isascii() and number.isdigit() and name.strip()):
            raise DataError(f"{path}, line {line}: {text!r} is not a number and a name")
        if int(number) in found or name.strip() in found.values():
            raise DataError(
                f"{path}, line {line}: {text!r}: the number or the name occurs twice; remove one of the lines"
            )
        found[int(number)] = name.strip()
    if not found or sorted(found) != list(range(len(found))):
        raise DataError(f"{path}: its numbers must count from 0 without a gap")
    return [found[number] for number in range(len(found))]


def _frame_labels(path: Path, names: Sequence[str]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """The number of the label of each frame. An empty line in between would shift all later ones: it is an error."""
    numbers = {name: number for number, name in enumerate(names)}
    found = []
    for line, text in enumerate(map(str.strip, read_text(path).rstrip().splitlines()), 1):
        if text not in numbers:
            what = f"{text!r} is no label of mapping.txt{did_you_mean(text, names)}" if text else "it is empty"
            raise DataError(f"{path}, line {line}: {what}")
        found.append(numbers[text])
    if not found:
        raise DataError(f"{path} is empty: it takes the label of each frame, one in each line")
    return np.asarray(found, np.int64)
