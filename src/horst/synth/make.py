"""Writing the synthetic data sets, as video files in the formats of the real data sets or in packed form.

    somethings    videos/<id>.webm and the JSON files of Something-Something v2
    kitchen       videos/<id>.mp4 and the CSV files of EPIC-Kitchens 100, RULSTM's and the official ones

data.yaml beside them is the config that reads them. A folder belongs to one `DatasetSpec`. One process at a time writes
to it, and every file is renamed when it is complete. So a second run after a kill adds what is missing, and without
file locks (some network disks) work is done twice at worst. Packed form needs no FFmpeg.
"""

import csv
import io
import json
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from horst.config import check_positive
from horst.data.clips import EPIC_FPS, Clip, ClipConfig
from horst.data.config import DataConfig
from horst.data.example import Annotations, Example
from horst.data.jobs import run_jobs
from horst.data.packed import ReadClips, is_complete, write_packed
from horst.data.readers.ssv2 import without_brackets
from horst.data.source import Source, open_source
from horst.errors import ConfigError, DataError, HorstError, InputError
from horst.io import LOCK, PARTIAL, disk_errors, lock, read_json, write_text
from horst.synth import kitchen, somethings
from horst.video.frame import Image
from horst.video.sampling import UNOBSERVED, anticipation_frames

MADE = "made.json"
CONFIG = "data.yaml"  # written last: if it exists, the data set is complete
VERSIONS = {"somethings": 2, "kitchen": 1}  # increased whenever a generator renders other clips for the same seed
SMALLEST = {"somethings": 16, "kitchen": 32}  # pixels each way
Clips = Iterator[Clip | HorstError]
TAIL_SHARE = 0.01  # a class with less than this share of the training segments is a tail class


@dataclass(frozen=True, kw_only=True, slots=True)
class DatasetSpec:
    """What was requested; made.json records it."""

    generator: str
    count: int
    seed: int = 0
    size: Sequence[int]  # height and width
    packed: bool = False
    templates: int = 0  # for somethings: use only the first templates, which are the simplest. 0: all.
    drawing: int = 0  # version of the generator. 0: the current one.

    def __post_init__(self) -> None:
        check_positive(count=self.count)
        object.__setattr__(self, "drawing", self.drawing or VERSIONS[self.generator])
        if type(self.templates) is not int or self.templates < 0 or self.templates == 1:
            raise ConfigError(f"templates is {self.templates!r}; it must be 0 (all) or an integer from 2 on")
        if type(self.seed) is not int or self.seed < 0:
            raise ConfigError(f"seed is {self.seed!r}; it must be an integer from 0 on")
        least = SMALLEST[self.generator]
        sides = self.size if isinstance(self.size, Sequence) else ()
        if len(sides) != 2 or not all(type(v) is int and v >= least for v in sides):
            raise ConfigError(f"size is {self.size!r}; height and width must be integers from {least} on")
        object.__setattr__(self, "size", tuple(sides))


@contextmanager
def claim(folder: Path, spec: DatasetSpec) -> Iterator[bool]:
    """Lock a folder for a data set; yields whether files are missing in it.

    Other processes, for example of a distributed run, wait here until they are written. The lock ends with the process.
    A folder of another data set is an error, and a complete one is not written to.
    """
    if _complete(folder, spec):
        yield False
        return
    with disk_errors(folder, DataError):
        held = lock(folder)
    with held:
        missing = not _complete(folder, spec)  # the process that held the lock before may have written it
        if missing and not (folder / MADE).exists():
            write_text(folder / MADE, json.dumps(asdict(spec), indent=1) + "\n")
        yield missing


def _complete(folder: Path, spec: DatasetSpec) -> bool:
    """Whether all files exist, by their names alone: planning the clips again would take seconds."""
    if folder.exists() and not folder.is_dir():
        raise DataError(f"{folder} is a file: choose another folder")
    # Listed first: whatever is there beside MADE was written after it.
    there = {path.name for path in folder.iterdir()} if folder.exists() else set()
    if not (folder / MADE).exists():
        if any(name != LOCK and not name.endswith(PARTIAL) for name in there):
            raise DataError(f"{folder} is not empty: choose another folder")
        return False
    made, asked = read_json(folder / MADE), json.loads(json.dumps(asdict(spec)))
    if made != asked:
        others = [f"{key} {made.get(key)} instead of {new}" for key, new in asked.items() if made.get(key) != new]
        other = ", ".join(others)
        raise DataError(f"{folder} was made with {other or made}: choose another folder (data.folder), or delete it")
    if CONFIG not in there:
        return False
    if spec.packed:
        return is_complete(folder / "packed")
    videos = folder / "videos"
    return videos.is_dir() and sum(not path.name.startswith(".") for path in videos.iterdir()) == spec.count


def make_somethings(
    folder: str | Path,
    clips: int,
    *,
    seed: int = 0,
    size: int = 112,
    templates: int = 0,
    packed: bool = False,
    processes: int | None = None,
) -> Path:
    """Write `clips` clips for early recognition, of the first `templates` or of all; see `horst.synth.somethings`."""
    spec = DatasetSpec(
        generator="somethings", count=clips, seed=seed, size=(size, size), templates=templates, packed=packed
    )
    return _make(Path(folder), spec, processes)


def make_kitchen(
    folder: str | Path,
    videos: int,
    *,
    seed: int = 0,
    size: Sequence[int] = (128, 228),
    packed: bool = False,
    processes: int | None = None,
) -> Path:
    """Write `videos` videos for anticipation; see `horst.synth.kitchen`."""
    spec = DatasetSpec(generator="kitchen", count=videos, seed=seed, size=size, packed=packed)
    return _make(Path(folder), spec, processes)


def open_somethings(
    folder: str | Path,
    clips: int = 1000,
    seed: int = 0,
    size: int = 112,
    templates: int = 0,
    packed: bool = True,
    planned: bool = False,
) -> Source:
    """The data source "somethings": made if it is missing, and opened. `planned`: see `open_source`."""
    spec = DatasetSpec(
        generator="somethings", count=clips, seed=seed, size=(size, size), templates=templates, packed=packed
    )
    if planned and not _complete(Path(folder), spec):
        chosen = somethings.TEMPLATES[: templates or None]
        annotations = _somethings_annotations(somethings.plan(clips, seed, templates=chosen), chosen)
        return _planned(annotations, f"{clips:,} clips", folder)
    made = make_somethings(folder, clips, seed=seed, size=size, templates=templates, packed=packed)
    return open_source(DataConfig.from_file(made))


def open_kitchen(
    folder: str | Path,
    videos: int = 40,
    seed: int = 0,
    size: Sequence[int] = (128, 228),
    packed: bool = True,
    planned: bool = False,
) -> Source:
    """The data source "kitchen": made if it is missing, and opened. `planned`: see `open_source`."""
    spec = DatasetSpec(generator="kitchen", count=videos, seed=seed, size=size, packed=packed)
    if planned and not _complete(Path(folder), spec):
        with tempfile.TemporaryDirectory() as place:
            annotations = _kitchen_annotations(Path(place), kitchen.plan(videos, seed))
        return _planned(annotations, f"{videos:,} videos", folder)
    return open_source(DataConfig.from_file(make_kitchen(folder, videos, seed=seed, size=size, packed=packed)))


def _planned(annotations: Annotations, what: str, folder: str | Path) -> Source:
    source = Source(annotations)
    source.not_made = f"{folder}: the run will first make its {what}"
    return source


def _make(folder: Path, spec: DatasetSpec, processes: int | None) -> Path:
    with claim(folder, spec) as unfinished:
        if unfinished:
            write = _make_somethings if spec.generator == "somethings" else _make_kitchen
            source = write(folder, spec, processes)
            # JSON is valid YAML. No frame rate: each model reads the clips at its own.
            lines = [f"{key}: {value}" for key, value in source.items()]
            write_text(folder / CONFIG, "\n".join([*lines, f"clip: {json.dumps({'size': list(spec.size)})}", ""]))
    return folder / CONFIG


def _make_somethings(folder: Path, spec: DatasetSpec, processes: int | None) -> dict[str, str]:
    templates = somethings.TEMPLATES[: spec.templates or None]
    clips, size = somethings.plan(spec.count, spec.seed, templates=templates), spec.size[0]
    if spec.packed:
        render = partial(_somethings_clips, {clip.id: clip for clip in clips}, size)
        clip = ClipConfig(size=(size, size), fps=somethings.FPS)
        return _pack(folder, _somethings_annotations(clips, templates), render, clip, processes)
    names = {template: without_brackets(template) for template in templates}
    mirror = {name: names[somethings.MIRROR[t]] for t, name in names.items() if somethings.MIRROR[t] in names}
    tables: dict[str, Any] = {"labels": {name: str(i) for i, name in enumerate(names.values())}, "mirror": mirror}
    for split, name in (("train", "train"), ("val", "validation")):
        chosen = [asdict(clip) for clip in clips if clip.split == split]
        tables[name] = [{key: clip[key] for key in ("id", "label", "template", "placeholders")} for clip in chosen]
    for name, table in tables.items():
        text = json.dumps(table, indent=1, ensure_ascii=False) + "\n"
        write_text(folder / "annotations" / f"{name}.json", text)
    _write_videos(folder, spec, clips, processes)
    return {"source": "ssv2", "name": "somethings", "annotations": "annotations", "videos": "videos"}


def _make_kitchen(folder: Path, spec: DatasetSpec, processes: int | None) -> dict[str, str]:
    videos, size = kitchen.plan(spec.count, spec.seed), (spec.size[0], spec.size[1])
    if spec.packed:
        annotations = _kitchen_annotations(folder, videos)  # the packed examples are those of the files
        render = partial(_kitchen_clips, {video.id: video for video in videos}, size)
        return _pack(folder, annotations, render, ClipConfig(size=size, fps=4.0, mode="strict"), processes)
    _write_epic(folder / "annotations", videos)
    _write_videos(folder, spec, videos, processes)
    return {"source": "epic", "version": "ek100", "name": "kitchen", "annotations": "annotations", "media": "videos"}


def _pack(
    folder: Path, annotations: Annotations, render: ReadClips, clip: ClipConfig, processes: int | None
) -> dict[str, str]:
    write_packed(folder / "packed", annotations, render, fps=clip.fps, clip=clip, native=True, processes=processes)
    return {"source": "packed", "folder": "packed"}


def _write_videos(folder: Path, spec: DatasetSpec, plan: Sequence[Any], processes: int | None) -> None:
    """Write the files that an earlier run has not finished."""
    generator, suffix = (somethings, "webm") if spec.generator == "somethings" else (kitchen, "mp4")
    (folder / "videos").mkdir(exist_ok=True)
    files = [(folder / "videos" / f"{video.id}.{suffix}", video) for video in plan]
    missing = [(path, video) for path, video in files if not path.exists()]
    write = partial(_write_video, partial(generator.render, size=spec.size), generator.FPS)
    run_jobs(f"making {spec.generator}", write, missing, processes=processes, done=len(files) - len(missing))


def _write_video(render: Callable[..., Iterable[Image]], fps: int, piece: tuple[Path, Any]) -> None:
    from horst.video.encode import write_video

    write_video(piece[0], render(piece[1]), fps)


def _somethings_clips(specs: dict[str, somethings.ClipSpec], size: int, examples: Sequence[Example]) -> Clips:
    for example in examples:
        frames = somethings.render(specs[example.id], size=size)
        yield Clip(frames, np.arange(len(frames)) / somethings.FPS)


def _kitchen_clips(specs: dict[str, kitchen.VideoSpec], size: tuple[int, int], examples: Sequence[Example]) -> Clips:
    """The frames before each segment. Every video is rendered once."""
    rendered: tuple[str, list[Any]] = ("", [])
    for example in examples:
        if rendered[0] != example.video:
            rendered = (example.video, list(kitchen.render(specs[example.video], size=size)))
        assert example.start_frame is not None
        try:
            numbers = anticipation_frames(example.start_frame, mode="strict")
        except InputError as error:
            yield error
            continue
        indices = np.floor((numbers - 1) / EPIC_FPS * kitchen.FPS + 1e-6).astype(int)
        observed, black = numbers != UNOBSERVED, np.zeros((*size, 3), np.uint8)
        frames = [rendered[1][i] if seen else black for i, seen in zip(indices, observed, strict=True)]
        yield Clip(np.stack(frames), np.where(observed, indices / kitchen.FPS, np.nan))


def _somethings_annotations(clips: Iterable[somethings.ClipSpec], templates: Sequence[str]) -> Annotations:
    label = {template: index for index, template in enumerate(templates)}
    examples = tuple(
        Example(id=c.id, split=c.split, media=Path(f"{c.id}.webm"), labels={"action": label[c.template]}) for c in clips
    )
    classes = {"action": tuple(without_brackets(template) for template in templates)}
    mirror = tuple(label.get(somethings.MIRROR[template], -1) for template in templates)
    return Annotations(name="somethings", task="recognition", examples=examples, classes=classes, mirror=mirror)


def _kitchen_annotations(folder: Path, videos: Sequence[kitchen.VideoSpec]) -> Annotations:
    """Write the annotations into `folder` and read them."""
    from horst.data.readers.epic import read_epic

    _write_epic(folder / "annotations", videos)
    return read_epic(folder / "annotations", folder, version="ek100", name="kitchen")


def _write_epic(folder: Path, specs: Sequence[kitchen.VideoSpec]) -> None:
    """EPIC-100's files: RULSTM's rows, the official rows, classes, actions, tail classes and unseen participants."""
    rows = {split: kitchen.epic_rows(specs, split) for split in ("train", "val")}
    rulstm = ("narration_id", "video_id", "start_frame", "stop_frame", "verb_class", "noun_class")
    for split, own, official in (("train", "training", "train"), ("val", "validation", "validation")):
        ids = (kitchen.action_id(str(row["verb"]), str(row["noun"])) for row in rows[split])
        short = [[*(row[key] for key in rulstm), action] for row, action in zip(rows[split], ids, strict=True)]
        _write_csv(folder / f"{own}.csv", short)
        header = list(rows[split][0]) if rows[split] else ["narration_id"]
        _write_csv(folder / f"EPIC_100_{official}.csv", [list(row.values()) for row in rows[split]], header)
    actions = [(action.id, action.verb_id, action.noun_id, action.name) for action in kitchen.ACTIONS]
    _write_csv(folder / "actions.csv", actions, ["id", "verb", "noun", "action"])
    for part, names in (("verb", kitchen.VERBS), ("noun", kitchen.NOUNS)):
        _write_csv(folder / f"EPIC_100_{part}_classes.csv", list(enumerate(names)), ["id", "key"])
        seen = Counter(row[f"{part}_class"] for row in rows["train"])
        tail = [[i] for i in range(len(names)) if seen[i] < TAIL_SHARE * max(1, seen.total())]
        _write_csv(folder / f"EPIC_100_tail_{part}s.csv", tail, [part])
    unseen = [[participant] for participant in kitchen.UNSEEN]
    _write_csv(folder / "EPIC_100_unseen_participant_ids_validation.csv", unseen, ["participant_id"])


def _write_csv(path: Path, rows: Iterable[Iterable[Any]], header: Sequence[str] = ()) -> None:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows([header] if header else [])
    writer.writerows(rows)
    write_text(path, text.getvalue())
