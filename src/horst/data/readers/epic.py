"""EPIC-Kitchens 55 and 100, for anticipation: RULSTM's CSV files or the official ones.

RULSTM's files have no header (id, video, start, end, verb, noun, action; frames at 30 fps, numbered from 1), and
actions.csv numbers the actions. The official files have timestamps, verbs and nouns. Their actions are the pairs that
occur in training and validation, numbered in the order of (verb, noun) unless there is an actions.csv.

EPIC-Kitchens 55 has no official validation split: with the official files, the videos in RULSTM's validation_videos.csv
are for validation and all others for training. That is RULSTM's split. docs/guides/data.md lists files and options.
"""

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Literal, TypeVar, get_args

from horst.data.clips import EPIC_FPS
from horst.data.example import Annotations, Example, SequenceTiming
from horst.data.readers.tables import CsvRow, read_lines, read_rows
from horst.errors import DataError
from horst.video.frame import VIDEO_SUFFIXES, is_image_sequence

T = TypeVar("T")
Version = Literal["ek55", "ek100"]
Frames = Literal["rulstm", "official", "native"]
# where the official annotation files are
PUBLIC = {f"ek{n}": f"https://github.com/epic-kitchens/epic-kitchens-{n}-annotations" for n in (55, 100)}
INFO = {"ek55": ("EPIC_video_info.csv", "video"), "ek100": ("EPIC_100_video_info.csv", "video_id")}
SUFFIXES = (".MP4", *VIDEO_SUFFIXES)
Origin = Literal["rulstm", "official"]
Segment = tuple[CsvRow, Example]
COLUMNS = ("id", "video", "start", "end", "verb", "noun", "action")
NAMES = {"ek55": "EPIC-Kitchens 55", "ek100": "EPIC-Kitchens 100"}
RULSTM_PUBLIC = "https://github.com/fpv-iplab/rulstm (RULSTM/data)"
VALIDATION_VIDEOS = "validation_videos.csv"
SPLITS = ("train", "val", "test")
FILES: dict[tuple[Origin, Version], tuple[tuple[str, ...], ...]] = {  # of each split
    ("rulstm", "ek55"): (("training.csv",), ("validation.csv",), ("test_seen.csv", "test_unseen.csv")),
    ("rulstm", "ek100"): (("training.csv",), ("validation.csv",), ("test_timestamps.csv",)),
    ("official", "ek55"): (
        ("EPIC_train_action_labels.csv",), (), ("EPIC_test_s1_timestamps.csv", "EPIC_test_s2_timestamps.csv"),
    ),
    ("official", "ek100"): (
        ("EPIC_100_train.csv",), ("EPIC_100_validation.csv",), ("EPIC_100_test_timestamps.csv",),
    ),
}  # fmt: skip
MANY_SHOT = {part: f"EPIC_many_shot_{part}s.csv" for part in ("verb", "noun", "action")}
UNSEEN = "EPIC_100_unseen_participant_ids_validation.csv"
TAIL = {part: f"EPIC_100_tail_{part}s.csv" for part in ("verb", "noun")}
RULSTM_IDS = {
    "unseen": "validation_unseen_participants_ids.csv",
    **{f"tail {part}": f"validation_tail_{part}s_ids.csv" for part in ("verb", "noun", "action")},
}  # RULSTM's lists of segments, which are read if the official ones are missing


def read_epic(
    annotations: str | Path,
    media: str | Path | None = None,
    *,
    version: Version = "ek55",
    files: Origin = "rulstm",
    frames: Frames | None = None,
    many_shot: Origin = "rulstm",
    name: str | None = None,
) -> Annotations:
    """The annotations of EPIC-Kitchens, from the folder of the CSV files of one version.

    `media` is the folder of the videos, frame folders or tar files (see `find_media`); without it clips cannot be read.
    `frames` is the origin, and so the frame rate, of numbered images; flat ones are always RULSTM's. `many_shot`: which
    EK55 actions are many-shot, RULSTM's with a many-shot verb or noun, or the official 819. `name` is for other data
    sets in the same format.
    """
    folder = Path(annotations)
    if version not in get_args(Version):
        raise DataError(f"version is {version!r}; choose from 'ek55', 'ek100'")
    segments = list(_read_segments(folder, files, version))
    verbs, nouns = (_read_classes(folder, version, part) for part in ("verb", "noun"))
    parts = _read_actions(folder, len(verbs), len(nouns), segments)
    number = {pair: i for i, pair in enumerate(parts)}
    info = read_video_info(folder, version)
    places: dict[str, tuple[Path, SequenceTiming | None]] = {}
    if media is not None:
        for video in dict.fromkeys(example.video for _, example in segments):
            path = find_media(Path(media), video)
            places[video] = path, epic_timing(video, path, frames, info.get(video), folder, version)
    examples = []
    for row, example in segments:
        labels, (path, timing) = dict(example.labels), places.get(example.video, (example.media, None))
        if labels:
            action = number[labels["verb"], labels["noun"]]
            if labels.setdefault("action", action) != action:
                raise DataError(f"{row}: segment {example.id} has action {labels['action']}; actions.csv says {action}")
        examples.append(replace(example, labels=labels, media=path, timing=timing))
    validation = [example for example in examples if example.split == "val"]
    subsets, few = many_shot_classes(folder, parts, many_shot) if version == "ek55" else ({}, ())
    sets, less = ek100_sets(folder, validation) if version == "ek100" else ({}, ())
    return Annotations(
        name=name or NAMES[version],
        task="anticipation",
        examples=tuple(examples),
        classes={"action": tuple(f"{verbs[v]} {nouns[n]}" for v, n in parts), "verb": verbs, "noun": nouns},
        action_parts=parts,
        subsets=subsets,
        example_sets=sets,
        notices=(*few, *less),
    )


def _read_segments(folder: Path, origin: Origin, version: Version) -> Iterator[Segment]:
    """The segments of all splits, with frames numbered from 1 at 30 fps. Their media is found later."""
    files = FILES[origin, version]
    labelled = [name for names in files[:2] for name in names]
    if not any((folder / name).exists() for name in labelled):
        public = RULSTM_PUBLIC if origin == "rulstm" else PUBLIC[version]
        raise DataError(f"{folder} has no {' and no '.join(labelled)}; get it from {public}")
    validation = _validation_videos(folder) if (origin, version) == ("official", "ek55") else ()
    first: dict[tuple[str, str], CsvRow] = {}
    for of, path in ((split, folder / name) for split, names in zip(SPLITS, files, strict=True) for name in names):
        columns = COLUMNS[:4] if of == "test" else COLUMNS
        for row in read_rows(path, columns if origin == "rulstm" else None) if path.exists() else ():
            if origin == "rulstm":
                start, end = (row.whole(column, least=1) for column in columns[2:4])
                labels = {column: row.whole(column) for column in columns[4:]}
                ident, video = row.text("id"), row.text("video")
            else:
                times = [row.seconds(column) for column in ("start_timestamp", "stop_timestamp")]
                start, end = (max(1, math.floor(time * EPIC_FPS)) for time in times)  # rounded as in RULSTM's files
                labels = {part: row.whole(f"{part}_class") for part in ("verb", "noun")} if of != "test" else {}
                ident, video = row.text("uid" if version == "ek55" else "narration_id"), row.text("video_id")
            split = "val" if of == "train" and video in validation else of
            if (before := first.setdefault((split, ident), row)) is not row:
                raise DataError(f"{row}: the id {ident!r} is in {before} too; remove one of the segments")
            yield row, frame_segment(row, ident, split, video, (start, end), labels)


def frame_segment(
    row: CsvRow, ident: str, split: str, video: str, frames: tuple[int, int], labels: dict[str, int]
) -> Example:
    """An action from its first to its last frame, numbered from 1 at EPIC_FPS. Its group is the participant."""
    start, end = frames
    if end < start:
        raise DataError(f"{row}: segment {ident} ends at frame {end}, before its start {start}")
    return Example(
        id=ident,
        split=split,
        media=Path(video),
        labels=labels,
        start=(start - 1) / EPIC_FPS,
        end=end / EPIC_FPS,
        start_frame=start,
        video=video,
        group=re.split("[_-]", video)[0],
    )


def _validation_videos(folder: Path) -> frozenset[str]:
    path = folder / VALIDATION_VIDEOS
    if not path.exists():
        why = "EPIC-Kitchens 55 has no official validation split, and this list of videos makes one"
        remedy = f"RULSTM's is at {RULSTM_PUBLIC}; or list videos of your choice, one in each line"
        raise DataError(f"{path} is missing: {why}. {remedy}")
    if not (found := frozenset(text for _, text in read_lines(path))):
        raise DataError(f"{path} lists no video: write one in each line")
    return found


def _read_classes(folder: Path, version: Version, part: str) -> tuple[str, ...]:
    new = version == "ek100"
    path = folder / (f"EPIC_100_{part}_classes.csv" if new else f"EPIC_{part}_classes.csv")
    if not path.exists():  # RULSTM's folder does not have it, and its actions do not have all classes
        raise DataError(f"{path} is missing; it names all {part}s. Get it from {PUBLIC[version]}")
    return tuple(_numbered(path, "id" if new else f"{part}_id", lambda row: row.text("key" if new else "class_key")))


def _numbered(path: Path, ident: str, value: Callable[[CsvRow], T]) -> list[T]:
    """A value of each row, in the order of the ids, which count from 0."""
    found: dict[int, T] = {}
    for row in read_rows(path):
        number = row.whole(ident)
        if number in found:
            raise DataError(f"{row}: {ident} {number} occurs twice; remove one of the rows")
        found[number] = value(row)
    if sorted(found) != list(range(len(found))):
        raise DataError(f"{path}: {ident} must count from 0 without a gap")
    return [found[i] for i in range(len(found))]


def _read_actions(folder: Path, verbs: int, nouns: int, segments: Sequence[Segment]) -> tuple[tuple[int, int], ...]:
    """(verb, noun) of every action."""
    path = folder / "actions.csv"
    used = [(row, e, (e.labels["verb"], e.labels["noun"])) for row, e in segments if e.labels]
    if path.exists():
        pairs = _numbered(path, "id", lambda row: (row.whole("verb"), row.whole("noun")))
    else:
        pairs = sorted({pair for _, _, pair in used})
    known = set(pairs)
    for row, example, (verb, noun) in used:
        if (verb, noun) not in known:
            pair = f"verb {verb} and noun {noun}"
            raise DataError(f"{row}: segment {example.id} has {pair}, and no action in {path} has them")
    for verb, noun in pairs:
        if not (0 <= verb < verbs and 0 <= noun < nouns):
            raise DataError(f"{folder}: an action has verb {verb} of {verbs} and noun {noun} of {nouns}")
    return tuple(pairs)


def many_shot_classes(
    folder: Path, parts: tuple[tuple[int, int], ...], which: Origin
) -> tuple[dict[str, frozenset[int]], tuple[str, ...]]:
    """EK55: verbs, nouns and actions with many training examples; and notices."""
    needed = MANY_SHOT.values() if which == "official" else (MANY_SHOT["verb"], MANY_SHOT["noun"])
    if missing := [name for name in needed if not (folder / name).exists()]:
        return {}, (_notice(folder, missing, "many-shot", PUBLIC["ek55"]),)
    verbs, nouns = (
        frozenset(row.whole(f"{part}_class") for row in read_rows(folder / MANY_SHOT[part]))
        for part in ("verb", "noun")
    )
    if which == "official":
        rows = read_rows(folder / MANY_SHOT["action"])
        pairs = {(row.whole("verb_class"), row.whole("noun_class")) for row in rows}
        actions = frozenset(i for i, pair in enumerate(parts) if pair in pairs)
    else:
        actions = frozenset(i for i, (v, n) in enumerate(parts) if v in verbs or n in nouns)
    return {"many-shot verb": verbs, "many-shot noun": nouns, "many-shot action": actions}, ()


def ek100_sets(folder: Path, validation: Sequence[Example]) -> tuple[dict[str, frozenset[str]], tuple[str, ...]]:
    """EK100: validation segments of unseen participants and of tail classes (of action: its verb or noun); notices."""
    sets: dict[str, frozenset[str]] = {}
    missing: dict[str, list[str]] = {}
    if (folder / UNSEEN).exists():
        unseen = {row.text("participant_id") for row in read_rows(folder / UNSEEN)}
        sets["unseen"] = frozenset(e.id for e in validation if e.group in unseen)
    elif (folder / RULSTM_IDS["unseen"]).exists():
        sets["unseen"] = read_ids(folder / RULSTM_IDS["unseen"], validation)
    else:
        missing["unseen"] = [UNSEEN]
    tails = [name for name in RULSTM_IDS if name != "unseen"]
    if all((folder / name).exists() for name in TAIL.values()):
        for part, name in TAIL.items():
            classes = {row.whole(part) for row in read_rows(folder / name)}
            sets[f"tail {part}"] = frozenset(e.id for e in validation if e.labels[part] in classes)
        sets["tail action"] = sets["tail verb"] | sets["tail noun"]
    elif all((folder / RULSTM_IDS[name]).exists() for name in tails):
        sets |= {name: read_ids(folder / RULSTM_IDS[name], validation) for name in tails}
    else:
        missing["tail"] = [name for name in TAIL.values() if not (folder / name).exists()]
    if not validation:
        return sets, ()
    return sets, tuple(_notice(folder, names, what, PUBLIC["ek100"]) for what, names in missing.items())


def _notice(folder: Path, names: Sequence[str], what: str, where: str) -> str:
    return f"There will be no {what} metrics: {folder} lacks {' and '.join(names)}. Get it from {where}"


def read_ids(path: Path, validation: Sequence[Example]) -> frozenset[str]:
    """The ids of validation segments in a file, one in each line."""
    known, found = {example.id for example in validation}, read_lines(path)
    for line, ident in found:
        if ident not in known:
            raise DataError(f"{path}, line {line}: there is no validation segment {ident!r}: other annotations have it")
    return frozenset(ident for _, ident in found)


def find_media(root: Path, video: str) -> Path:
    """The video file, folder or tar file of a video such as P01_01; `root` itself if images lie flat in it.

    P01_01.mp4 (.MP4, .webm, ...), a folder P01_01 and P01_01.tar are tried in `root`, in root/P01 and in the folders of
    EPIC's own downloads; then flat images (P01_01_frame_0000000001.jpg) in `root`. If nothing is found the first place
    is returned; opening it is an error.
    """
    participant = video.split("_")[0]
    folders = [root, root / participant, *(root / participant / sub for sub in ("rgb_frames", "videos"))]
    folders += [root / split / participant for split in ("train", "test")]
    for folder in folders:
        for path in (*(folder / f"{video}{suffix}" for suffix in SUFFIXES), folder / video, folder / f"{video}.tar"):
            if path.is_dir() if path.name == video else path.is_file():
                return path
    changed = root.stat().st_mtime_ns if root.exists() else 0
    return root if video in _flat_videos(root.absolute(), changed) else root / f"{video}{SUFFIXES[0]}"


@lru_cache(maxsize=8)
def _flat_videos(root: Path, changed: int) -> frozenset[str]:
    """The videos whose images lie flat in a folder, which may hold millions of files: it is listed only if changed."""
    if not root.is_dir():
        return frozenset()
    return frozenset(p.name.split("_frame_")[0] for p in root.iterdir() if "_frame_" in p.name)


def read_video_info(folder: Path, version: Version) -> dict[str, tuple[float, float]]:
    """(fps, duration in seconds) of every video; empty if there is no video info file."""
    path, key = folder / INFO[version][0], INFO[version][1]
    found: dict[str, tuple[float, float]] = {}
    for row in read_rows(path) if path.exists() else ():
        video = row.text(key)
        if video in found:
            raise DataError(f"{row}: {key} {video!r} occurs twice; remove one of the rows")
        found[video] = row.positive("fps"), row.positive("duration")
    return found


def official_fps(video: str) -> float:
    """The rate of EPIC's own frames of a video."""
    return 50.0 if re.fullmatch(r"P\d+_1\d\d", video) else 60.0


def epic_timing(
    video: str, media: Path, frames: Frames | None, info: tuple[float, float] | None, folder: Path, version: Version
) -> SequenceTiming | None:
    """The timing of a video's images; None if `media` is a video file. `info`: see `read_video_info`."""
    if not is_image_sequence(media):
        return None
    flat = media.suffix != ".tar" and media.name != video
    if flat and frames not in (None, "rulstm"):
        why = f"frames is {frames!r}, but names such as {video}_frame_0000000001.jpg are RULSTM's, at 30 fps"
        remedy = "set frames: rulstm, or point media at a folder or tar file for each video"
        raise DataError(f"{media}: {why}: {remedy}")
    if frames is None and not flat:
        choices = "official (60 or 50 fps: EPIC's own rgb_frames), native (all frames of the video) or rulstm (30 fps)"
        raise DataError(f"{media} holds images, which do not state their frame rate. Set the option frames: {choices}")
    if frames == "native" and info is None:
        remedy = f"get that file from {PUBLIC[version]}, or set frames to official or rulstm"
        raise DataError(f"{folder / INFO[version][0]} has no frame rate of {video}, and frames is 'native': {remedy}")
    fps, duration = info or (None, None)
    rates = {"rulstm": EPIC_FPS, "official": official_fps(video), **({"native": fps} if fps is not None else {})}
    chosen = rates.pop(frames or "rulstm")
    return SequenceTiming(fps=chosen, first=1, duration=duration, others=tuple(rates.items()))
