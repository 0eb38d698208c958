"""Small copies of EPIC-Kitchens in all the layouts that people have; every picture holds the time that it shows.

Videos have the rates of the real ones. Pictures are 32 x 32: 16 squares, black or white, are the bits of the time.
"""

from __future__ import annotations

import csv
import io
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import lmdb
import numpy as np
from PIL import Image as Pictures

from horst.data.readers.epic import official_fps
from horst.video.encode import write_video
from horst.video.frame import Image

Version = Literal["ek55", "ek100"]
Layout = Literal[
    "official tars", "official folders", "native tars", "native folders", "videos", "rulstm folders", "flat"
]
LAYOUTS: tuple[Layout, ...] = (
    "official tars", "official folders", "native tars", "native folders", "videos", "rulstm folders", "flat",
)  # fmt: skip
FRAMES: dict[Layout, dict[str, str]] = {
    "official tars": {"frames": "official"},
    "official folders": {"frames": "official"},
    "native tars": {"frames": "native"},
    "native folders": {"frames": "native"},
    "videos": {},
    "rulstm folders": {"frames": "rulstm"},
    "flat": {},
}
"""The options that a layout needs."""
SECONDS = 6.0
NATIVE = {
    "ek55": {"P01_01": 60_000 / 1001, "P17_01": 48_000 / 1001, "P09_07": 30_000 / 1001, "P18_09": 90.0},
    "ek100": {"P01_01": 60_000 / 1001, "P01_101": 50.0, "P18_02": 30_000 / 1001, "P18_09": 90.0},
}
"""Frames a second of the video files. The first two are for training."""
STARTS = (100, 151)
"""Frames, from 1 at 30 a second, at which actions start: 3.3 s, so that some positions have no frame, and 5 s."""
TICK = 1e-4
SIDE = 8


def paint(time: float) -> Image:
    bits = [round(time / TICK) >> bit & 1 for bit in range(16)]
    squares = np.array(bits, np.uint8).reshape(4, 4) * 255
    return np.repeat(squares.repeat(SIDE, 0).repeat(SIDE, 1)[..., None], 3, 2)


def time_in(image: Image) -> float:
    """The time that is painted into a picture."""
    squares = image[SIDE // 2 :: SIDE, SIDE // 2 :: SIDE].mean(-1) > 127
    return float(sum(int(bit) << i for i, bit in enumerate(squares.ravel())) * TICK)


def write(root: Path, version: Version, layout: Layout) -> dict[str, Any]:
    """Annotations and media below `root`; the options of the source, with paths relative to it."""
    annotations(root / "annotations", version)
    media(root / "EPIC-KITCHENS", version, layout)
    return {
        "source": "epic",
        "version": version,
        "annotations": "annotations",
        "media": "EPIC-KITCHENS",
        **FRAMES[layout],
    }


def annotations(folder: Path, version: Version) -> None:
    """RULSTM's files, the official ones, and the class files."""
    folder.mkdir(parents=True, exist_ok=True)
    new = version == "ek100"
    rows: dict[str, list[list[Any]]] = {"training": [], "validation": []}
    official: dict[str, list[list[Any]]] = {"training": [], "validation": []}
    for i, video in enumerate(NATIVE[version]):
        split = "training" if i < 2 else "validation"
        for j, start in enumerate(STARTS):
            ident, verb, noun = f"{video}_{j}" if new else f"{2 * i + j:05d}", j, (i + j) % 3
            rows[split].append([ident, video, start, start + 20, verb, noun, 3 * verb + noun])
            stamps = [f"00:00:{frame / 30:06.3f}" for frame in (start + 0.5, start + 20.5)]
            official[split].append([ident if new else 2 * i + j, video, *stamps, verb, noun])
    for split, some in rows.items():
        _csv(folder / f"{split}.csv", some)
        (folder / f"{split}_videos.csv").write_text("".join(f"{v}\n" for v in dict.fromkeys(r[1] for r in some)))
    verbs, nouns = ("take", "put"), ("tap", "pan", "cup")
    pairs = [(v, n) for v in range(2) for n in range(3)]
    _csv(
        folder / "actions.csv",
        [["id", "action", "verb", "noun"], *([i, f"{verbs[v]}_{nouns[n]}", v, n] for i, (v, n) in enumerate(pairs))],
    )
    header = ["narration_id" if new else "uid", "video_id", "start_timestamp", "stop_timestamp"]
    header += ["verb_class", "noun_class"]
    prefix = "EPIC_100_" if new else "EPIC_"
    for part, names in (("verb", verbs), ("noun", nouns)):
        columns = ["id", "key"] if new else [f"{part}_id", "class_key"]
        _csv(folder / f"{prefix}{part}_classes.csv", [columns, *enumerate(names)])
    if new:
        _csv(folder / "EPIC_100_train.csv", [header, *official["training"]])
        _csv(folder / "EPIC_100_validation.csv", [header, *official["validation"]])
        _csv(folder / "EPIC_100_tail_verbs.csv", [["verb"], [1]])
        _csv(folder / "EPIC_100_tail_nouns.csv", [["noun"], [2]])
        _csv(folder / "EPIC_100_unseen_participant_ids_validation.csv", [["participant_id"], ["P18"]])
    else:
        _csv(folder / "EPIC_train_action_labels.csv", [header, *official["training"], *official["validation"]])
        _csv(folder / "EPIC_many_shot_verbs.csv", [["verb_class", "verb"], [0, "take"]])
        _csv(folder / "EPIC_many_shot_nouns.csv", [["noun_class", "noun"], [1, "pan"]])
    facts = [[video, SECONDS, fps] for video, fps in NATIVE[version].items()]
    _csv(folder / f"{prefix}video_info.csv", [["video_id" if new else "video", "duration", "fps"], *facts])


def media(root: Path, version: Version, layout: Layout) -> None:
    for video, native in NATIVE[version].items():
        participant = root / video.split("_")[0]
        if layout == "videos":
            (participant / "videos").mkdir(parents=True, exist_ok=True)
            made = participant / "videos" / f"{video}.mp4"
            write_video(made, (image for _, image in frames(native)), native)
            made.rename(made.with_suffix(".MP4"))
            continue
        kind, _, form = layout.partition(" ")
        fps = {"official": official_fps(video), "native": native}.get(kind, 30.0)
        if form == "tars":
            put_tar(participant / "rgb_frames" / f"{video}.tar", fps)
        elif form == "folders":
            put_folder(participant / "rgb_frames" / video, fps)
        else:
            put_folder(root, fps, f"{video}_")


def features(root: Path, version: Version, channels: int = 8) -> dict[str, Any]:
    """RULSTM's LMDB, whose vectors hold the time of their frame."""
    annotations(root / "annotations", version)
    with lmdb.open(str(root / "rgb"), map_size=2**26) as environment, environment.begin(write=True) as transaction:
        for video in NATIVE[version]:
            for number in range(1, round(30 * SECONDS) + 1):
                vector = np.full(channels, (number - 1) / 30, np.float32)
                transaction.put(f"{video}_frame_{number:010d}.jpg".encode(), vector.tobytes())
    place = {"annotations": "annotations", "path": "rgb"}
    return {"source": "rulstm_lmdb", "version": version, **place, "channels": channels}


def frames(fps: float, seconds: float = SECONDS) -> Iterator[tuple[int, Image]]:
    """Numbered from 1."""
    for number in range(1, round(fps * seconds) + 1):
        yield number, paint((number - 1) / fps)


def put_folder(folder: Path, fps: float, prefix: str = "", seconds: float = SECONDS) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    _each(fps, seconds, lambda number, data: (folder / f"{prefix}frame_{number:010d}.jpg").write_bytes(data))


def put_tar(path: Path, fps: float, seconds: float = SECONDS) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w") as archive:

        def add(number: int, data: bytes) -> None:
            member = tarfile.TarInfo(f"./frame_{number:010d}.jpg")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))

        _each(fps, seconds, add)


def _each(fps: float, seconds: float, put: Callable[[int, bytes], Any]) -> None:
    for number, image in frames(fps, seconds):
        buffer = io.BytesIO()
        Pictures.fromarray(image).save(buffer, "JPEG", quality=75)
        put(number, buffer.getvalue())


def _csv(path: Path, rows: list[Any]) -> None:
    with path.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)
