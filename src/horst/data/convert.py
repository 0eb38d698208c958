"""`horst convert`: whole videos in the layouts `lstr` and `ms_tcn`, or the labels of a data set as a CSV file.

Vectors are those that training reads: of maps, the mean over positions. Labels are those of the same frames. A folder
gets its name when it is complete.
"""

import csv
import json
import os
import shutil
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import yaml
from numpy.typing import NDArray

from horst.config import to_dict
from horst.data.clips import Clip, ClipConfig
from horst.data.config import DataConfig
from horst.data.example import FIT_SPLITS, UNKNOWN, Annotations, Example
from horst.data.jobs import run_jobs
from horst.data.readers.lstr import DATA_INFO, SESSIONS, TARGETS
from horst.data.readers.ms_tcn import BUNDLES
from horst.data.segments import WHOLE_VIDEOS, active_classes, as_detection, detection_labels
from horst.data.source import Source, open_source
from horst.errors import ConfigError, DataError, HorstError
from horst.io import PARTIAL, atomic_write, disk_errors
from horst.video.frame import VIDEO_SUFFIXES

Layout = Literal["lstr", "ms_tcn", "csv"]
FEATURES = "rgb_features"  # lstr: the folder of vectors
AMBIGUOUS = "Ambiguous"  # lstr: the column of frames that do not count, as in THUMOS'14


@dataclass(frozen=True, slots=True)
class ConvertReport:
    """What was written."""

    output: Path
    rows: int  # videos; rows of a CSV file
    frames: int = 0
    notes: tuple[str, ...] = ()  # what the layout could not hold

    def __str__(self) -> str:
        what = f"{self.rows:,} videos with {self.frames:,} frames are" if self.frames else f"{self.rows:,} actions are"
        return f"{what} in {self.output}"


def convert(config: DataConfig, output: str | Path, to: Layout, *, suffix: str = ".mp4") -> ConvertReport:
    """Write a data set into a new folder, or a new CSV file. DataError if something is there."""
    source, output = open_source(config), Path(output)
    with disk_errors(output, DataError):
        if to == "csv":
            return _write_csv(source, output, suffix)
        if source.annotations.task not in WHOLE_VIDEOS:
            need = f"--to {to} takes whole videos, and {source.annotations.name} is for {source.annotations.task}"
            raise ConfigError(f"{need}: use --to csv, and read that file with task: detection")
        if source.map is None:
            raise ConfigError(f"{source.annotations.name} has no features: run horst extract, and convert its output")
        rate = float(getattr(source, "fps", config.clip.fps))
        clip = config.clip_for(size=(source.map[1], source.map[2]), fps=rate)
        source.check(clip)
        return _write_layout(source, clip, output, to)


def _write_layout(source: Source, clip: ClipConfig, output: Path, to: Layout) -> ConvertReport:
    partial = output.absolute().with_name(f".{output.absolute().name}{PARTIAL}")
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise DataError(f"{output} exists and is not empty: choose another folder")
    try:
        partial.mkdir(parents=True)
    except FileExistsError as error:
        why = "another conversion is writing it, or was stopped"
        raise DataError(f"{partial} exists: {why}. If none is running, remove it") from error
    try:
        report = _Writer(source, clip, partial, output, to).write()
        output.parent.mkdir(parents=True, exist_ok=True)
        os.replace(partial, output)
    finally:
        shutil.rmtree(partial, ignore_errors=True)  # unless it has its name by now
    return report


class _Writer:
    """Writes the files of a layout into `folder`, which becomes `output`."""

    def __init__(self, source: Source, clip: ClipConfig, folder: Path, output: Path, to: Layout) -> None:
        found = source.annotations
        self.annotations: Annotations = found if found.task == "detection" else as_detection(found)
        self.source, self.clip, self.folder, self.output, self.to = source, clip, folder, output, to
        self.examples = [e for e in self.annotations.examples if e.split in FIT_SPLITS]
        self.videos = _video_names(self.examples, to)
        self.classes = self.annotations.classes["action"]
        self.ambiguous = any(s.label == UNKNOWN for e in self.examples for s in e.segments)
        self.fps = int(clip.fps) if float(clip.fps).is_integer() else clip.fps  # LSTR counts frames with it
        self.frames = self.several = self.lost = 0

    def write(self) -> ConvertReport:
        for name in (FEATURES, TARGETS) if self.to == "lstr" else ("features", "groundTruth", "splits"):
            (self.folder / name).mkdir()
        work = self._lstr_video if self.to == "lstr" else self._ms_tcn_video
        run_jobs(f"converting {self.annotations.name}", work, range(len(self.examples)), processes=1)
        options = self._lstr_info() if self.to == "lstr" else self._ms_tcn_info()
        clip = to_dict(replace(self.clip, size=(1, 1)))
        kept = {name: clip[name] for name in ("size", "fps", "steps", "stride")}
        data = {"source": self.to, "folder": ".", **options, "clip": kept}
        (self.folder / "data.yaml").write_text(
            yaml.safe_dump(data, sort_keys=False, default_flow_style=None), encoding="utf-8"
        )
        return ConvertReport(self.output, len(self.examples), self.frames, tuple(self._notes()))

    def _notes(self) -> Iterable[str]:
        if self.several:
            yield f"{self.several:,} frames have several actions: the one that began last was written"
        if self.lost:
            yield f"{self.lost:,} ambiguous frames became background: {self.to} has no label for them"
        if left := len(self.annotations.examples) - len(self.examples):
            yield f"{left:,} videos of the split test were left out: there are a training and an evaluated set"

    def _read(self, index: int) -> tuple[Clip, NDArray[Any]]:
        """The clip of a video and its vectors (T, D), in the type of the stored ones if nothing is averaged."""
        example = self.examples[index]
        try:
            clip = self.source.read(example, self.clip)
        except HorstError as error:
            raise DataError(f"video {example.id} cannot be converted: {error}") from error
        maps = clip.frames
        self.frames += len(maps)
        one = maps.shape[2:] == (1, 1)
        return clip, maps[:, :, 0, 0] if one else maps.mean((2, 3), dtype=np.float32)

    def _lstr_video(self, index: int) -> None:
        clip, vectors = self._read(index)
        name, segments = f"{self.videos[index]}.npy", self.examples[index].segments
        active = active_classes(segments, clip.times, len(self.classes))
        if self.ambiguous:
            active = np.concatenate([active, ~active.any(1, keepdims=True)], 1)
        np.save(self.folder / FEATURES / name, vectors)
        np.save(self.folder / TARGETS / name, active.astype(np.float32))

    def _ms_tcn_video(self, index: int) -> None:
        clip, vectors = self._read(index)
        name, segments = self.videos[index], self.examples[index].segments
        self.several += int((active_classes(segments, clip.times, len(self.classes)).sum(1) > 1).sum())
        labels = detection_labels(segments, clip.times)["action"].numpy()
        self.lost += int((labels == UNKNOWN).sum())
        names = self._label_names()
        np.save(self.folder / "features" / f"{name}.npy", np.ascontiguousarray(vectors.T))
        lines = "".join(f"{names[max(label, 0)]}\n" for label in labels.tolist())
        (self.folder / "groundTruth" / f"{name}.txt").write_text(lines, encoding="utf-8")

    def _lstr_info(self) -> dict[str, Any]:
        names = ["Background", *self.classes[1:], *((AMBIGUOUS,) if self.ambiguous else ())]
        info: dict[str, Any] = {
            "data_root": f"data/{self.output.absolute().name}",
            "class_names": names,
            "num_classes": len(names),
            "ignore_index": len(names) - 1 if self.ambiguous else -100,
            "metrics": "AP",
            "fps": self.fps,
        }
        info |= {key: self._of(split) for split, key in SESSIONS.items()}
        text = json.dumps({self.output.absolute().name: info}, ensure_ascii=False, indent=1)
        (self.folder / DATA_INFO).write_text(text + "\n", encoding="utf-8")
        return {}

    def _ms_tcn_info(self) -> dict[str, Any]:
        names = self._label_names()
        mapping = "".join(f"{number} {name}\n" for number, name in enumerate(names))
        (self.folder / "mapping.txt").write_text(mapping, encoding="utf-8")
        for split, theirs in BUNDLES.items():
            bundle = "".join(f"{name}.txt\n" for name in self._of(split))
            (self.folder / "splits" / f"{theirs}.split1.bundle").write_text(bundle, encoding="utf-8")
        return {"fps": self.fps}

    def _of(self, split: str) -> list[str]:
        return [name for name, e in zip(self.videos, self.examples, strict=True) if e.split == split]

    def _label_names(self) -> list[str]:
        """Without spaces: the readers of this layout end a name at the first one."""
        names = ["_".join(name.split()) for name in self.classes]
        if repeated := [name for name, count in Counter(names).items() if count > 1]:
            raise DataError(f"{self.annotations.name}: several actions would be named {repeated[0]!r}: rename one")
        return names


def _video_names(examples: Sequence[Example], to: Layout) -> list[str]:
    """Names of files: the video without its suffix, _ in place of /, and in ms_tcn of dots, where its loader cuts."""
    found = []
    for example in examples:
        name = example.video or example.id
        name = name[: -len(Path(name).suffix)] if Path(name).suffix.lower() in VIDEO_SUFFIXES else name
        name = "_".join(Path(name).parts)
        found.append(name.replace(".", "_") if to == "ms_tcn" else name)
    if repeated := [name for name, count in Counter(found).items() if count > 1]:
        raise DataError(f"several videos would be named {repeated[0]!r}: rename one of them")
    return found


def _write_csv(source: Source, output: Path, suffix: str) -> ConvertReport:
    """A row for each action: path, split, label, start, end, and group or id where they are needed."""
    annotations = source.annotations
    if output.exists():
        raise DataError(f"{output} exists: choose another file")
    names = annotations.classes["action"]
    by_name = source.shared_media or source.map is not None  # files of features: the videos are elsewhere
    rows: list[dict[str, Any]] = []
    without = 0
    for example in annotations.examples:
        path = example.video or example.id
        if not by_name:
            path = os.path.relpath(example.media, output.parent)
        elif Path(path).suffix.lower() not in VIDEO_SUFFIXES:
            path += suffix
        actions: list[tuple[float, float | None, int]] = [(s.start, s.end, s.label) for s in example.segments]
        if annotations.task not in WHOLE_VIDEOS and example.labels:
            actions = [(example.start, example.end, example.labels["action"])]
        actions = [one for one in actions if one[2] != UNKNOWN]
        without += not actions
        rows += [
            {
                "path": Path(path).as_posix(),
                "split": example.split,
                "label": names[label],
                "start": str(round(start, 6)),
                "end": "" if end is None else str(round(end, 6)),
                "group": example.group,
                "id": f"{example.id}#{number}" if annotations.task in WHOLE_VIDEOS else example.id,
            }
            for number, (start, end, label) in enumerate(actions)
        ]
    if not rows:
        raise DataError(f"{annotations.name} has no labelled action")
    columns = ["path", "split", "label", "start", "end"]
    columns += ["group"] if any(row["group"] for row in rows) else []
    places = Counter((row["split"], row["path"], row["start"]) for row in rows)
    columns += ["id"] if max(places.values()) > 1 else []
    with atomic_write(output, overwrite=False) as partial, partial.open("w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, columns, extrasaction="ignore", lineterminator="\n")
        table.writeheader()
        table.writerows(rows)
    notes = (f"{without:,} examples without a labelled action are left out",) if without else ()
    return ConvertReport(output, len(rows), notes=notes)
