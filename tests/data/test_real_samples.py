"""Real samples: annotations of EPIC-Kitchens and SSv2, frames, gesture clips and CAD-120, read as they are."""

from __future__ import annotations

import csv
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image as Pictures

from horst.data.clips import ClipConfig, read_clip, seen_frames
from horst.data.config import DataConfig
from horst.data.example import Annotations
from horst.data.readers.epic import Version, official_fps, read_epic, read_ids, read_video_info
from horst.data.readers.folder import read_csv
from horst.data.readers.tables import read_rows
from horst.data.source import open_source
from horst.errors import InputError
from horst.video.sampling import UNOBSERVED


@pytest.fixture(scope="module")
def epic(samples: Path) -> dict[Version, Annotations]:
    versions: tuple[Version, ...] = ("ek55", "ek100")
    return {version: read_epic(samples / "epic" / version, version=version) for version in versions}


@pytest.mark.parametrize(
    ("version", "train", "val", "classes"),
    [("ek55", 23_493, 4_979, (2_513, 125, 352)), ("ek100", 67_217, 9_668, (3_806, 97, 300))],
)
def test_segments_and_classes(
    epic: dict[Version, Annotations], version: Version, train: int, val: int, classes: tuple[int, ...]
) -> None:
    found = epic[version]
    assert (found.counts()["train"], found.counts()["val"], found.notices) == (train, val, ())
    assert tuple(len(found.classes[task]) for task in ("action", "verb", "noun")) == classes


def test_sets_with_their_own_metrics(epic: dict[Version, Annotations], samples: Path) -> None:
    """By the official lists; RULSTM's lists of segments say the same."""
    subsets = epic["ek55"].subsets
    assert [len(subsets[f"many-shot {part}"]) for part in ("verb", "noun", "action")] == [26, 71, 2265]
    sets = epic["ek100"].example_sets
    assert {name: len(ids) for name, ids in sets.items()} == {
        "unseen": 1_065, "tail verb": 1_760, "tail noun": 1_900, "tail action": 3_105,
    }  # fmt: skip
    validation = epic["ek100"].split("val").examples
    names = {
        "unseen": "unseen_participants",
        **{f"tail {part}": f"tail_{part}s" for part in ("verb", "noun", "action")},
    }
    for name, file in names.items():
        assert sets[name] == read_ids(samples / "epic/ek100" / f"validation_{file}_ids.csv", validation)


@pytest.mark.parametrize(
    ("version", "discarded", "leaks"), [("ek55", {"train": 21, "val": 7}, 3), ("ek100", {"train": 35, "val": 10}, 20)]
)
def test_segments_without_frames_and_leaks(
    epic: dict[Version, Annotations], version: Version, discarded: dict[str, int], leaks: int
) -> None:
    """A frame later than 1 s before the action is shown by padding, and never in mode strict."""
    strict = ClipConfig(mode="strict")
    for split, count in discarded.items():
        kept, late = 0, 0
        examples = epic[version].split(split).examples
        for example in examples:
            try:
                shown = seen_frames(example, ClipConfig())
            except InputError:
                continue
            kept += 1
            assert example.start_frame is not None
            if shown[-4] > example.start_frame - 30:
                late += 1
                assert seen_frames(example, strict)[-4] == UNOBSERVED
        assert len(examples) - kept == count
        assert split == "train" or late == leaks


@pytest.mark.parametrize(("version", "name"), [("ek55", "EPIC-Kitchens 55"), ("ek100", "EPIC-Kitchens 100")])
def test_disk_space_of_maps(epic: dict[Version, Annotations], root: Path, version: Version, name: str) -> None:
    """docs/guides/data.md has the frames that clips need and what their maps take."""
    needed: dict[str, set[tuple[str, int]]] = {}
    for example in epic[version].examples:
        with suppress(InputError):
            numbers = seen_frames(example, ClipConfig()).tolist()
            needed.setdefault(example.split, set()).update((example.video, n) for n in numbers)
    for splits in (("train", "val"), ("train", "val", "test")):
        frames = len(set().union(*(needed[split] for split in splits)))
        size = round(frames * 1024 * 8 * 14 * 2 / 1e9)
        row = f"| {name} | {', '.join(splits)} | {frames:,} | {size} GB |"
        assert row in (root / "docs" / "guides" / "data.md").read_text()


def test_official_segments_are_rulstms(epic: dict[Version, Annotations], samples: Path) -> None:
    official = read_epic(samples / "epic/ek100", version="ek100", files="official")
    rulstm = {e.id: e for e in epic["ek100"].split("val").examples}
    assert len(official.examples) == len(rulstm)
    assert all(rulstm[e.id] == e for e in official.examples)


def test_official_frames_have_60_or_50_fps(samples: Path) -> None:
    """start_frame in EPIC's own files numbers EPIC's own frames; so do the counts that are known of them."""
    with (samples / "epic/ek100/EPIC_100_validation.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            hours, minutes, rest = row["start_timestamp"].split(":")
            time = 3600 * int(hours) + 60 * int(minutes) + float(rest)
            assert 0 <= int(row["start_frame"]) - time * official_fps(row["video_id"]) + 1 <= 2
    info = read_video_info(samples / "epic/ek100", "ek100")
    # Frames in EPIC's tar files, from the issues of epic-kitchens-100-annotations (34, 40), epic-fields-code (9) and
    # C2-Action-Detection (8): the videos have 29.97, 59.94, 47.95, 90 and 50 frames a second.
    for video, count in {"P09_08": 7599, "P01_04": 6320, "P17_02": 32754, "P18_09": 16622, "P02_130": 54177}.items():
        assert 0 <= count / official_fps(video) - info[video][1] < 0.25


def test_real_video_info(samples: Path) -> None:
    for version, counts in (
        ("ek55", {59.94: 423, 47.95: 4, 29.97: 4, 90.0: 1}),
        ("ek100", {59.94: 423, 50.0: 268, 47.95: 4, 29.97: 4, 90.0: 1}),
    ):
        info = read_video_info(samples / "epic" / version, version)  # type: ignore[arg-type]
        rates = [round(fps, 2) for fps, _ in info.values()]
        assert {rate: rates.count(rate) for rate in set(rates)} == counts
        assert info["P01_01"][1] == pytest.approx(1652.152817)
        if version == "ek100":
            new = {video for video, (fps, _) in info.items() if fps == 50}
            assert {video for video in info if official_fps(video) == 50} == new


def test_real_frames(samples: Path) -> None:
    """RULSTM's example: the first 100 frames of P01_01, flat and at 30 a second. The info file does not refuse them."""
    folder = samples / "epic/frames_P01_01"
    found = read_epic(samples / "epic/ek55", folder)
    known = next(e for e in found.examples if e.video == "P01_01")
    assert known.timing is not None
    assert (known.timing.fps, known.timing.duration) == (30, pytest.approx(1652.152817))
    example = replace(known, start_frame=105, start=104 / 30)  # none of the real actions has all of its frames there
    clip = read_clip(example, "anticipation", ClipConfig(size=(256, 456)))
    numbers = [max(7, int((105 / 30 - k / 4) * 30)) for k in range(14, 0, -1)]
    assert [round(t * 30) + 1 for t in clip.times] == numbers
    for number, frame in zip(numbers, clip.frames, strict=True):
        with Pictures.open(folder / f"P01_01_frame_{number:010d}.jpg") as picture:
            np.testing.assert_array_equal(frame, np.asarray(picture))


def test_gestures_have_the_frames_of_the_manifest(samples: Path) -> None:
    rows = list(read_rows(samples / "gestures" / "manifest.csv"))
    found = {e.id: e for e in read_csv(samples / "gestures" / "manifest.csv").examples}
    assert len(found) == len(rows) == 763
    for row in [row.cells for row in rows[::150]]:
        clip = read_clip(found[row["path"]], "recognition", ClipConfig(size=(28, 38), fps=float(row["fps"])))
        assert len(clip.frames) == int(row["frames"])
        np.testing.assert_allclose(np.diff(clip.times), 1 / float(row["fps"]), atol=1e-3)  # each frame once


def test_cad120_as_anticipation(samples: Path, tmp_path: Path) -> None:
    rows = [row.cells for row in read_rows(samples / "cad120" / "segments.csv")][:12]
    lines = [f"videos/{r['video']}.mp4,train,{r['label']},{r['start']},{r['end']},{r['subject']}\n" for r in rows]
    (tmp_path / "list.csv").write_text("path,split,label,start,end,group\n" + "".join(lines))
    found = read_csv(tmp_path / "list.csv", root=samples / "cad120", task="anticipation")
    config = ClipConfig(size=(30, 40), steps=4, stride=0.25, mode="strict")
    seen = 0
    for example in found.examples:
        if example.start < 1:
            continue
        clip = read_clip(example, "anticipation", config)
        assert clip.observed.all()
        wanted = example.start - np.arange(4, 0, -1) / 4
        assert (clip.times <= wanted + 1e-6).all()
        assert (wanted - clip.times < 1 / 30 + 1 / 15).all()  # of 15 frames a second, at times counted in 30
        np.testing.assert_allclose(clip.times * 15, np.round(clip.times * 15), atol=1e-6)  # times of frames, not wishes
        seen += 1
    assert seen > 5


@pytest.mark.parametrize(
    "options", [{"source": "folder", "root": "gestures"}, {"source": "csv", "path": "gestures/manifest.csv"}]
)
def test_gestures_by_config(samples: Path, options: dict[str, str]) -> None:
    data = DataConfig.from_dict({**options, "clip": {"size": [112, 112], "fps": 15, "observe": 0.5}}, base=samples)
    source = open_source(data)
    assert source.annotations.counts() == {"train": 663, "val": 100}
    for example in source.annotations.examples[::150]:
        assert source.read(example, data.clip).frames.shape[1:] == (112, 112, 3)


def test_ssv2_subset(samples: Path) -> None:
    subset = {"source": "ssv2", "annotations": "ssv2", "videos": "ssv2", "subset": "ssv2/41_classes_candidate.csv"}
    found = open_source(DataConfig.from_dict(subset, base=samples)).annotations
    assert found.counts() == {"val": 7_518}
    assert len(found.classes["action"]) == 41
