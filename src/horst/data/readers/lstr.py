"""The layout of LSTR, TeSTra and MAT: features and labels of every frame, for THUMOS'14, TVSeries, HDD and EK100.

THUMOS/rgb_kinetics_resnet50/VIDEO.npy        (frames, channels)
THUMOS/flow_kinetics_bninception/VIDEO.npy    likewise; optional
THUMOS/target_perframe/VIDEO.npy              (frames, classes): 0 or 1, several may be 1; column 0: background
data_info.json                                of each data set: class_names, fps, ignore_index, train_session_set
                                              and test_session_set

Frames of the column `ignore_index` are ambiguous: they are neither learned nor evaluated.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from horst.config import Task
from horst.data.example import Annotations
from horst.data.readers.vectors import (
    VectorFiles,
    VectorVideos,
    check_rate,
    label_columns,
    label_segments,
    open_array,
    vector_example,
)
from horst.errors import ConfigError, DataError, VideoError, did_you_mean
from horst.io import read_json

TARGETS = "target_perframe"
DATA_INFO = "data_info.json"
SESSIONS = {"train": "train_session_set", "val": "test_session_set"}  # papers report on the test set
KINDS = ("rgb", "flow")
BLOCK = 4096  # frames of labels that are read at a time: those of EK100 have 3,807 columns


def read_lstr(
    folder: str | Path,
    *,
    data_info: str | Path | None = None,
    dataset: str | None = None,
    features: Sequence[str] | None = None,
    fps: float | None = None,
    task: Task = "detection",
) -> VectorVideos:
    """The data set in `folder`. Its test sessions become the split val.

    `data_info`: by default in the folder or in the one above. `dataset`: its entry; by default the name of the folder,
    or the only entry. `features`: folders whose vectors are concatenated; by default rgb_* and flow_*. `fps`: rate of
    features and labels; by default that of the data info.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise DataError(f"{folder}: there is no such folder")
    path = _data_info(folder) if data_info is None else Path(data_info)
    name, info = _entry(path, dataset, folder.resolve().name)
    where = f"{path}, {name}"
    names = _texts(info, "class_names", where)
    rate = info.get("fps") if fps is None else fps
    if rate is None:
        raise DataError(f"{where}: there is no fps; set the option fps to the rate of the features, such as 4")
    check_rate(rate)
    ignored = _ignored(info, len(names), where)
    classes, columns = label_columns(names, (0,), ignored, task)
    chosen = _feature_folders(folder) if features is None else list(features)
    if not chosen or (lost := [one for one in chosen if not (folder / one).is_dir()]):
        what = f"has no folder {lost[0]!r}" if chosen else "is to be read without features"
        raise DataError(f"{folder} {what}: set the option features to some of its folders")
    files: dict[str, VectorFiles] = {}
    examples = []
    for split, key in SESSIONS.items():
        for video in _texts(info, key, where):
            labels = folder / TARGETS / f"{video}.npy"
            try:
                targets = open_array(labels)
            except VideoError as error:
                raise DataError(f"{error} ({key} of {where} names the video {video!r})") from error
            if targets.ndim != 2 or targets.shape[1] != len(names):
                columns_of = f"{len(names)} class_names of {where}"
                raise DataError(
                    f"{labels}: it has the shape {targets.shape}; (frames, {len(names)}) fits the {columns_of}"
                )
            paths = tuple(folder / one / f"{video}.npy" for one in chosen)
            files[video] = VectorFiles(paths, labels, len(targets))
            segments = label_segments(*active_columns(targets, labels), columns, rate)
            examples.append(vector_example(video, split, files[video], segments))
    annotations = Annotations(name=name, task=task, examples=tuple(examples), classes=classes)
    return VectorVideos(annotations, files, fps=float(rate))


def active_columns(targets: NDArray[Any], path: Path) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Frames and columns of all labels that are 1. DataError if one is neither 0 nor 1."""
    found = []
    for first in range(0, len(targets), BLOCK):
        block = np.asarray(targets[first : first + BLOCK])
        frames, columns = np.nonzero(block)
        values = block[frames, columns]
        if wrong := np.flatnonzero(values != 1).tolist():
            frame, column, value = first + int(frames[wrong[0]]), int(columns[wrong[0]]), values[wrong[0]]
            raise DataError(f"{path}: frame {frame} has {value} in column {column}; labels are 0 or 1")
        found.append((frames + first, columns))
    frames, columns = (np.concatenate(parts) for parts in zip(*found, strict=True)) if found else np.empty((2, 0), int)
    return frames, columns


def _data_info(folder: Path) -> Path:
    for path in (folder / DATA_INFO, folder.parent / DATA_INFO):
        if path.exists():
            return path
    where = "https://github.com/amazon-science/long-short-term-transformer (data/data_info.json)"
    raise DataError(f"{folder} has no {DATA_INFO}, nor has the folder above: get it from {where}, or set data_info")


def _entry(path: Path, dataset: str | None, folder: str) -> tuple[str, dict[str, Any]]:
    found = read_json(path)
    if not isinstance(found, dict) or not all(isinstance(one, dict) for one in found.values()) or not found:
        raise DataError(f"{path}: it takes a mapping of data sets, as LSTR's {DATA_INFO}")
    name = dataset or (next(iter(found)) if len(found) == 1 else folder)
    if name not in found:
        remedy = "set the option dataset to one of them"
        raise ConfigError(f"{path} has no data set {name!r}{did_you_mean(name, found, 'There are')} {remedy}")
    return name, found[name]


def _texts(info: dict[str, Any], key: str, where: str) -> list[str]:
    found = info.get(key)
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise DataError(f"{where}: {key} is missing, or no list of names")
    if repeated := [one for one in found if found.count(one) > 1]:
        raise DataError(f"{where}: {key} has {repeated[0]!r} twice; remove one of them")
    return found


def _ignored(info: dict[str, Any], count: int, where: str) -> int | None:
    """The column of ambiguous frames; None if there is none: a negative one, or 0, the background, as in EK100."""
    index = info.get("ignore_index", -100)
    if type(index) is not int or index >= count:
        raise DataError(f"{where}: ignore_index is {index!r}; it is a column of {count}, or negative if there is none")
    return index if index > 0 else None


def _feature_folders(folder: Path) -> list[str]:
    found = []
    for kind in KINDS:
        names = sorted(path.name for path in folder.glob(f"{kind}_*") if path.is_dir())
        if len(names) > 1:
            raise ConfigError(f"{folder} has {' and '.join(names)}: set the option features to those that you want")
        found += names
    if not found:
        raise DataError(f"{folder} has no folder rgb_* or flow_*: set the option features to its folders of features")
    return found
