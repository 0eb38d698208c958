"""`horst data`: make, check and pack data sets; `horst extract`, `horst convert`: their features, and other layouts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from horst.cli.options import Cpus, Device, Flag, Gpus, Json, Output, Processes, Ray, Source, ray_launcher
from horst.console import Console, new_table, print_bad, working
from horst.errors import ConfigError, DataError

if TYPE_CHECKING:
    from horst.backbones import Backbone
    from horst.data.check import DataReport
    from horst.data.source import Source as DataSource

SHOWN = 10
MADE = 3  # examples of a data set that was made
Layout = Literal["lstr", "ms_tcn", "csv"]
Depth = Literal["files", "headers", "frames"]


def make_somethings(
    folder: Output,
    /,
    *,
    clips: int = 1000,
    seed: int = 0,
    size: int = 112,
    templates: int = 0,
    packed: Flag = False,
    processes: Processes = None,
) -> None:
    """Make clips of hands and things in the format of Something-Something v2, for early recognition.

    Args:
        clips: Number of clips.
        seed: Another seed makes other clips.
        size: Height and width in pixels.
        templates: How many of the 24 actions, the simplest first; 0: all.
        packed: Write the packed form instead of files. This needs no FFmpeg.
    """
    with working("loading"):
        from horst.synth import make

    options = {"seed": seed, "size": size, "templates": templates, "packed": packed, "processes": processes}
    _print_made(make.make_somethings(folder, clips, **options))  # type: ignore[arg-type]


def make_kitchen(
    folder: Output,
    /,
    *,
    videos: int = 40,
    seed: int = 0,
    size: tuple[int, int] = (128, 228),
    packed: Flag = False,
    processes: Processes = None,
) -> None:
    """Make long videos of a cook in the format of EPIC-Kitchens 100, for anticipation.

    Args:
        videos: Number of videos, each of one to two minutes.
        seed: Another seed makes other videos.
        size: Height and width in pixels.
        packed: Write the packed form instead of files. This needs no FFmpeg.
    """
    with working("loading"):
        from horst.synth import make

    _print_made(make.make_kitchen(folder, videos, seed=seed, size=size, packed=packed, processes=processes))


def _print_made(file: Path) -> None:
    """The file of a data set that was made. On stderr some of its examples: file names do not tell the actions."""
    from horst.data.config import DataConfig
    from horst.data.source import open_source

    Console(highlight=False).print(str(file))
    console, annotations = Console(stderr=True, highlight=False), open_source(DataConfig.from_file(file)).annotations
    counts = " and ".join(f"{count:,} {split}" for split, count in annotations.counts().items())
    console.print(f"{counts} examples of {len(annotations.classes['action'])} actions, such as")
    for example in annotations.examples[:MADE]:
        name = example.media if example.media.is_file() else example.id  # packed clips have no files of their own
        start = f" from {example.start:.1f} s" if example.start else ""
        console.print(f"  {name}{start}: {annotations.classes['action'][example.labels['action']]}")


def check(
    data: Path,
    /,
    *,
    depth: Depth = "headers",
    as_json: Json = False,
    processes: Processes = None,
) -> None:
    """Check a data set: counts, classes, missing and damaged files, overlap between splits.

    Args:
        data: The data set's YAML file.
        depth: Check that files exist, that they open, or that they decode to their ends.
    """
    from horst.data.check import check_data
    from horst.data.config import DataConfig
    from horst.data.source import open_source

    config = DataConfig.from_file(data)
    source = open_source(config)
    found = check_data(source, clip=config.clip, depth=depth, processes=processes)
    if as_json:
        print(json.dumps({**asdict(found), "ok": found.ok}, indent=2))
    else:
        _print(source, found, depth)
    if not found.ok:
        missing, bad = f"{len(found.missing):,} missing", f"{len(found.bad):,}"
        count = f"{bad} cannot be read" if found.stored else f"{missing}, {bad} damaged"
        raise DataError(f"{data}: of {found.files:,} {'videos' if found.stored else 'files'}, {count}")


def pack(data: Path, folder: Output, /, *, quality: int = 90, tar: Flag = False, processes: Processes = None) -> None:
    """Pack a data set into a few large files that are read without FFmpeg.

    Args:
        data: The data set's YAML file. Its clip's size and fps are packed.
        quality: JPEG quality, 1 to 95.
        tar: Write tar files, which readers of WebDataset can open too.
    """
    from horst.data.config import DataConfig
    from horst.data.packed import pack

    packed, bad = pack(DataConfig.from_file(data), folder, quality=quality, tar=tar, processes=processes)
    console = Console()
    console.print(f"{packed} clips are packed in {folder}")
    print_bad(console, "left out", bad)


def extract(
    data: Path,
    folder: Output,
    /,
    *,
    backbone: str = "bn_inception",
    options: Annotated[str, Parameter(show_default=False)] = "{}",
    weights: Source | None = None,
    part: int | None = None,
    parts: int | None = None,
    batch: int = 16,
    device: Device = "cpu",
    ray: Ray = None,
    cpus: Cpus = 1.0,
    gpus: Gpus = None,
) -> None:
    """Run a backbone over all frames that a data set's clips show, and store its maps (fp16) for training.

    Args:
        data: The data set's YAML file.
        backbone: Name of the backbone: bn_inception, efficientnet_lite0, stem, timm, vjepa2 or videomae.
        options: Its options, such as {pretrained: true}.
        weights: RULSTM's TSN checkpoint for bn_inception, or a model (folder, run, hf://user/name) with a backbone.
        part: Which part of the work this process does, from 0; 0 by default.
        parts: Number of parts, one for each process or machine; 1 by default, with --ray as many as run at once.
        batch: Frames in a batch.
    """
    from horst.data.config import DataConfig

    config = DataConfig.from_file(data)
    with working("loading torch"):
        from horst.data.extract import extract, extracted
        from horst.models.hub import find_device
        from horst.tasks import run_parts

    console = Console()
    if (launcher := ray_launcher(ray, cpus, gpus)) is not None:
        if part is not None:
            raise ConfigError("--part is for one process: --ray makes all parts")
        chosen = {"backbone": backbone, "options": options, "weights": weights, "batch": batch, "device": device}
        words = [f"--{name}={value}" for name, value in chosen.items() if value is not None]
        logs, parts = folder / ".logs", parts or launcher.fitting()
        run_parts("extracting", ["extract", str(data), str(folder), *words], parts, logs, launcher, console.print)
        report = extracted(folder)
        console.print(f"{report.videos} videos are in {folder}")
    else:
        part, parts = part or 0, parts or 1
        where = find_device(device)
        with working("loading the backbone"):
            network = _backbone(backbone, options, weights)
        report = extract(config, network, folder, part=part, parts=parts, batch=batch, device=where)
        console.print(f"{report.videos} videos of part {part} of {parts} are in {folder}")
    print_bad(console, "could not be read", report.bad)


def convert(
    data: Path,
    output: Annotated[Path, Parameter(help="A new folder; with --to csv a new file.")],
    /,
    *,
    to: Layout,
    suffix: str = ".mp4",
) -> None:
    """Write a data set in a layout of others, with features and labels of every frame, or its labels as a CSV file.

    Args:
        data: The data set's YAML file: features of whole videos (online, detection); with --to csv any data set.
        to: lstr (LSTR, TeSTra, MAT), ms_tcn (MS-TCN and successors) or csv.
        suffix: With --to csv, what follows the names of videos whose files are unknown.
    """
    from horst.data.config import DataConfig

    config = DataConfig.from_file(data)
    from horst.data.convert import convert

    report = convert(config, output, to, suffix=suffix)
    console = Console()
    console.print(str(report), highlight=False)
    for note in report.notes:
        console.print(f"note: {note}", highlight=False)


def _backbone(name: str, options: str, weights: Source | None) -> Backbone:
    import yaml

    from horst.backbones import BNInception, CellsBackbone, WindowBackbone, create_backbone, load_tsn, read_tsn
    from horst.models import open_model

    if weights is not None and not Path(weights).is_file():
        backbone = open_model(weights).backbone
        return backbone.encoder if isinstance(backbone, CellsBackbone) else backbone  # a store has its own grid
    try:
        chosen = dict(yaml.safe_load(options))
    except (yaml.YAMLError, TypeError, ValueError) as error:
        raise ConfigError(f"--options is {options!r}; it takes a mapping such as {{pretrained: true}}") from error
    network = create_backbone(name, **chosen)
    if isinstance(network, CellsBackbone):
        raise ConfigError(
            "cells has weights of its own: extract with its encoder, or pass --weights of a trained model"
        )
    if weights is None:
        if name in ("bn_inception", "stem"):
            raise ConfigError(f"{name} has random weights: pass --weights, RULSTM's TSN checkpoint or a saved model")
        if isinstance(network, WindowBackbone) and not chosen.get("pretrained"):
            raise ConfigError(f"{name} has random weights: give --options a folder or a name of the Hub as pretrained")
        return network
    if not isinstance(network, BNInception):
        raise ConfigError(f"--weights is for bn_inception, or a saved model; {name} takes none")
    load_tsn(network, read_tsn(Path(weights)))
    return network


def _print(source: DataSource, found: DataReport, depth: Depth) -> None:
    console = Console(highlight=False)
    paper = ["in the paper"] if found.paper else []
    counts = new_table(source.annotations.name, "", "number", *paper)
    rows = [(split, f"{split} examples", number) for split, number in found.counts.items()]
    for key, title, number in [*rows, *((task, f"{task} classes", count) for task, count in found.classes.items())]:
        counts.add_row(title, f"{number:,}", *(f"{found.paper[key]:,}" if key in found.paper else "" for _ in paper))
    console.print(counts)
    classes = new_table("", "action", "train", "val")
    for action, train, val in found.histogram[:SHOWN]:
        classes.add_row(action, f"{train:,}", f"{val:,}")
    if rest := found.histogram[SHOWN:]:
        classes.add_row(f"{len(rest)} other actions", f"{sum(r[1] for r in rest):,}", f"{sum(r[2] for r in rest):,}")
    console.print("examples of each action, the most frequent first")
    console.print(classes)
    if source.map is not None:
        console.print(f"features: {' x '.join(map(str, source.map))} numbers for each frame; no images are read")
    fine, done = found.files - len(found.missing) - len(found.bad), {"files": "exist", "headers": "open"}
    if found.stored:
        console.print(f"stored videos: {found.files:,}")
    else:
        count = f"all {fine:,}" if found.ok else f"{fine:,} of {found.files:,}"
        console.print(f"files: {count} {done.get(depth, 'decode to their ends')}")
    for title, listed in (
        ("missing", found.missing),
        ("cannot be read" if found.stored else "damaged", [f"{path}: {why}" for path, why in found.bad]),
        ("in several splits", [f"{what}: {splits}" for what, splits in found.overlap]),
    ):
        _print_list(console, f"{title}: {len(listed):,}" if listed else "", listed)
    clips = [f"{clip.example}: {clip.first:.3f} s to {clip.last:.3f} s of {clip.media}" for clip in found.clips]
    _print_list(console, "clips read as training reads them, from the first to the last frame:", clips)
    for notice in found.notices:
        console.print(f"note: {notice}")
    if found.ok:
        console.print("no problems" + (" in the files; check what is in several splits" if found.overlap else ""))


def _print_list(console: Console, title: str, rows: Sequence[str]) -> None:
    """A title and the first few rows; nothing if there are none."""
    for line in [title, *(f"  {row}" for row in rows[:SHOWN])] if rows else []:
        console.print(line)
    if len(rows) > SHOWN:
        console.print(f"  and {len(rows) - SHOWN:,} more")
