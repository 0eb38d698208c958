"""Data sets that the package makes by itself, written as real files in the real formats, or straight into packed form.

    somethings    videos/<id>.webm and the JSON files of Something-Something v2
    kitchen       videos/<id>.mp4 and the CSV files of EPIC-Kitchens 100, RULSTM's and the official ones

Beside them lies data.yaml, the config that reads them. Videos are written whole and renamed: after a kill, a second run
makes those that are missing. The packed form needs no FFmpeg.
"""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from horst.data.clips import EPIC_FPS, Clip, ClipConfig
from horst.data.example import Annotations, Example
from horst.data.jobs import run_jobs
from horst.data.packed import Render, write_packed
from horst.data.readers.ssv2 import plain
from horst.errors import HorstError, InputError
from horst.io import write_text
from horst.synth import kitchen, somethings
from horst.synth.recipe import CONFIG, Recipe, hold
from horst.video.sampling import UNOBSERVED, anticipation_frames

TAIL_SHARE = 0.01
"""A class with less than this share of the training segments is tail."""


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
    """`clips` clips of early recognition, of the first `templates` or of all; see `synthetic.somethings`."""
    folder = Path(folder)
    recipe = Recipe(
        generator="somethings", count=clips, seed=seed, size=(size, size), templates=templates, packed=packed
    )
    with hold(folder, recipe) as unfinished:
        if unfinished:
            _make_somethings(folder, recipe, processes)
    return folder / CONFIG


def make_kitchen(
    folder: str | Path,
    videos: int,
    *,
    seed: int = 0,
    size: Sequence[int] = (128, 228),
    packed: bool = False,
    processes: int | None = None,
) -> Path:
    """`videos` videos of anticipation; see `synthetic.kitchen`."""
    folder = Path(folder)
    recipe = Recipe(generator="kitchen", count=videos, seed=seed, size=size, packed=packed)
    with hold(folder, recipe) as unfinished:
        if unfinished:
            _make_kitchen(folder, recipe, processes)
    return folder / CONFIG


def _make_somethings(folder: Path, recipe: Recipe, processes: int | None) -> None:
    templates = somethings.TEMPLATES[: recipe.templates or None]
    specs, size = somethings.plan(recipe.count, recipe.seed, templates=templates), recipe.size[0]
    if recipe.packed:
        by_id = {spec.id: spec for spec in specs}
        render = partial(_somethings_clips, by_id, size)
        annotations = _somethings_annotations(specs, templates)
        _pack(folder, annotations, render, ClipConfig(size=(size, size), fps=somethings.FPS), processes)
        return _config(folder, {"source": "packed", "folder": "packed"}, size=[size, size])
    write_text(folder / "annotations" / "labels.json", _json({plain(t): str(i) for i, t in enumerate(templates)}))
    mirror = {plain(t): plain(somethings.MIRROR[t]) for t in templates if somethings.MIRROR[t] in templates}
    write_text(folder / "annotations" / "mirror.json", _json(mirror))
    for split, name in (("train", "train"), ("val", "validation")):
        items = [
            {"id": s.id, "label": s.label, "template": s.template, "placeholders": list(s.placeholders)}
            for s in specs
            if s.split == split
        ]
        write_text(folder / "annotations" / f"{name}.json", _json(items))
    videos = {folder / "videos" / f"{spec.id}.webm": spec for spec in specs}
    _make_missing("making somethings", videos, partial(_write_somethings, size), processes)
    source = {"source": "ssv2", "name": "somethings", "annotations": "annotations", "videos": "videos"}
    return _config(folder, source, size=[size, size])


def _make_kitchen(folder: Path, recipe: Recipe, processes: int | None) -> None:
    specs, size = kitchen.plan(recipe.count, recipe.seed), (recipe.size[0], recipe.size[1])
    _write_epic(folder / "annotations", specs)
    if recipe.packed:
        from horst.data.readers.epic import read_epic  # what is packed is what the files say

        annotations = read_epic(folder / "annotations", folder, version="ek100", name="kitchen")
        render = partial(_kitchen_clips, {spec.id: spec for spec in specs}, size)
        _pack(folder, annotations, render, ClipConfig(size=size, fps=4.0, mode="strict"), processes)
        return _config(folder, {"source": "packed", "folder": "packed"}, size=list(size))
    clips = {folder / "videos" / f"{spec.id}.mp4": spec for spec in specs}
    _make_missing("making kitchen", clips, partial(_write_kitchen, size), processes)
    source = {"source": "epic", "version": "ek100", "name": "kitchen", "annotations": "annotations", "media": "videos"}
    return _config(folder, source, size=list(size))


def _pack(folder: Path, annotations: Annotations, render: Render, clip: ClipConfig, processes: int | None) -> None:
    write_packed(folder / "packed", annotations, render, fps=clip.fps, clip=clip, native=True, processes=processes)


def _make_missing(
    title: str, files: Mapping[Path, Any], write: Callable[[tuple[Path, Any]], None], processes: int | None
) -> None:
    """Write the files that an earlier run has not finished."""
    missing = [piece for piece in files.items() if not piece[0].exists()]
    for folder in {path.parent for path in files}:
        folder.mkdir(exist_ok=True)
    run_jobs(title, write, missing, processes=processes, done=len(files) - len(missing))


def _write_somethings(size: int, piece: tuple[Path, somethings.ClipSpec]) -> None:
    from horst.video.encode import write_video

    write_video(piece[0], somethings.render(piece[1], size=size), somethings.FPS)


def _write_kitchen(size: tuple[int, int], piece: tuple[Path, kitchen.VideoSpec]) -> None:
    from horst.video.encode import write_video

    write_video(piece[0], kitchen.render(piece[1], size=size), kitchen.FPS)


def _somethings_clips(
    specs: dict[str, somethings.ClipSpec], size: int, examples: Sequence[Example]
) -> Iterator[Clip | HorstError]:
    for example in examples:
        frames = somethings.render(specs[example.id], size=size)
        yield Clip(frames, np.arange(len(frames)) / somethings.FPS)


def _kitchen_clips(
    specs: dict[str, kitchen.VideoSpec], size: tuple[int, int], examples: Sequence[Example]
) -> Iterator[Clip | HorstError]:
    """Every video is drawn once, and the frames before each of its segments taken from it."""
    drawn: tuple[str, list[Any]] = ("", [])
    for example in examples:
        if drawn[0] != example.video:
            drawn = (example.video, list(kitchen.render(specs[example.video], size=size)))
        assert example.start_frame is not None
        try:
            numbers = anticipation_frames(example.start_frame, mode="strict")
        except InputError as error:
            yield error
            continue
        drawn_at = np.floor((numbers - 1) / EPIC_FPS * kitchen.FPS + 1e-6).astype(int)
        observed = numbers != UNOBSERVED
        black = np.zeros((*size, 3), np.uint8)
        frames = [drawn[1][i] if seen else black for i, seen in zip(drawn_at, observed, strict=True)]
        yield Clip(np.stack(frames), np.where(observed, drawn_at / kitchen.FPS, np.nan))


def _somethings_annotations(specs: Iterable[somethings.ClipSpec], templates: Sequence[str]) -> Annotations:
    names = [plain(template) for template in templates]
    label = {template: index for index, template in enumerate(templates)}
    mirrored = [label.get(somethings.MIRROR[template], -1) for template in templates]
    return Annotations(
        name="somethings",
        task="recognition",
        examples=tuple(
            Example(id=s.id, split=s.split, media=Path(f"{s.id}.webm"), labels={"action": label[s.template]})
            for s in specs
        ),
        classes={"action": tuple(names)},
        mirror=tuple(mirrored),
    )


def _write_epic(folder: Path, specs: Sequence[kitchen.VideoSpec]) -> None:
    """EPIC-100's files: RULSTM's rows, the official rows, classes, actions, tail classes and unseen participants."""
    rows, actions = kitchen.epic_rows(specs)
    for split, rulstm, official in (
        ("train", "training", "EPIC_100_train"),
        ("val", "validation", "EPIC_100_validation"),
    ):
        pairs = zip(rows[split].rulstm, rows[split].official, strict=True)
        write_text(folder / f"{rulstm}.csv", _csv([[o["narration_id"], *r[1:]] for r, o in pairs]))
        table = rows[split].official
        header = list(table[0]) if table else ["narration_id"]
        write_text(folder / f"{official}.csv", _csv([list(row.values()) for row in table], header))
    write_text(folder / "actions.csv", _csv(list(actions), ["id", "verb", "noun", "action"]))
    for part, names in (("verb", kitchen.VERBS), ("noun", kitchen.NOUNS)):
        write_text(folder / f"EPIC_100_{part}_classes.csv", _csv(list(enumerate(names)), ["id", "key"]))
        seen = Counter(row[f"{part}_class"] for row in rows["train"].official)
        tail = [[i] for i in range(len(names)) if seen[i] < TAIL_SHARE * max(1, seen.total())]
        write_text(folder / f"EPIC_100_tail_{part}s.csv", _csv(tail, [part]))
    unseen = [[participant] for participant in kitchen.UNSEEN]
    write_text(folder / "EPIC_100_unseen_participant_ids_validation.csv", _csv(unseen, ["participant_id"]))


def _config(folder: Path, source: dict[str, str], **clip: Any) -> None:
    """data.yaml: JSON is YAML, and the order is kept. It names no rate: each model is shown the clips at its own."""
    lines = [f"{key}: {value}" for key, value in source.items()]
    write_text(folder / CONFIG, "\n".join([*lines, f"clip: {json.dumps(clip)}", ""]))


def _json(data: Any) -> str:
    return json.dumps(data, indent=1, ensure_ascii=False) + "\n"


def _csv(rows: Iterable[Iterable[Any]], header: Sequence[str] = ()) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows([header] if header else [])
    writer.writerows(rows)
    return text.getvalue()
