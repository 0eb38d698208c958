"""Whole videos with labelled segments: targets of frames, readers, folds, and what is evaluated."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from horst.data.clips import ClipConfig
from horst.data.config import DataConfig
from horst.data.example import UNKNOWN, ActionSegment, Annotations, Example
from horst.data.readers.folder import read_csv
from horst.data.segments import evaluated, frame_labels, horizons
from horst.data.source import open_source
from horst.errors import ConfigError, DataError

SEGMENTS = (ActionSegment(1.0, 2.0, 0), ActionSegment(2.0, 3.5, 1), ActionSegment(4.0, 5.0, 2))


def test_targets_of_frames() -> None:
    times = np.array([0.0, 1.0, 1.9, 2.0, 3.6, 4.0, 5.0])
    found = frame_labels(SEGMENTS, times, [1.0])
    assert found["present"].tolist() == [UNKNOWN, 0, 0, 1, UNKNOWN, 2, UNKNOWN]
    assert found["action"].tolist() == [0, 1, 1, 2, 2, UNKNOWN, UNKNOWN]
    # The first action that starts a second later or after that: at 1.0 s it is the one at 2.0 s, at 1.9 s that at 4.0.
    assert found["ahead"][:, 0].tolist() == [0, 1, 2, 2, UNKNOWN, UNKNOWN, UNKNOWN]
    assert found["gap"][:4, 0].tolist() == pytest.approx([0.0, 0.0, 1.1, 1.0])
    assert torch.isinf(found["gap"][4:]).all()


@given(
    starts=st.lists(st.integers(0, 60), min_size=2, max_size=12, unique=True).map(sorted),
    tau=st.sampled_from([0.25, 0.5, 1.0]),
)
def test_ahead_is_the_evaluated_action_at_its_evaluation_time(starts: list[int], tau: float) -> None:
    """At start - tau, whatever begins in between."""
    segments = [ActionSegment(float(s), s + 0.5, i) for i, s in enumerate(starts)]
    times = np.array([s.start - tau for s in segments])
    assert frame_labels(segments, times, [tau])["ahead"][:, 0].tolist() == list(range(len(segments)))


def test_horizons_are_the_evaluated_positions() -> None:
    assert horizons(ClipConfig(steps=4, stride=0.25)) == (1.0, 0.75, 0.5, 0.25)
    assert horizons(ClipConfig(steps=14, stride=0.25))[0] == 2.0


def video(segments: tuple[ActionSegment, ...] = SEGMENTS, **others: object) -> Example:
    return Example(**{"id": "v", "split": "val", "media": Path("v.mp4"), "labels": {}, "segments": segments} | others)  # type: ignore[arg-type]


def whole(*videos: Example) -> Annotations:
    names = ("a", "b", "c")
    return Annotations(name="made", task="online", examples=videos, classes={"action": names, "present": names})


def test_every_action_but_the_first_is_evaluated() -> None:
    rows = evaluated(whole(video())).examples
    assert [(row.id, row.start, row.labels) for row in rows] == [
        ("v#1", 2.0, {"action": 1}),
        ("v#2", 4.0, {"action": 2}),
    ]


@pytest.mark.parametrize(
    ("segments", "message"),
    [
        ((), "video v has no segments"),
        ((ActionSegment(1.0, 2.0, 3),), "label 3 of 3 classes"),
        ((ActionSegment(2.0, 3.0, 0), ActionSegment(1.0, 2.0, 1)), "segments must be in order"),
        ((ActionSegment(2.0, 2.0, 0),), "segments must be in order"),
    ],
)
def test_wrong_segments_are_errors(segments: tuple[ActionSegment, ...], message: str) -> None:
    with pytest.raises(DataError, match=message):
        whole(video(segments))


def test_plain_data_and_back() -> None:
    example = video(group="someone")
    assert Example.from_dict(example.to_dict(), media=example.media) == example
    assert "segments" not in Example(id="a", split="val", media=Path("a"), labels={"action": 0}).to_dict()


def write(path: Path, rows: list[dict[str, object]]) -> Path:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def action(start: float, end: float | str, label: str, **others: object) -> dict[str, object]:
    return {"path": "a.mp4", "split": "train", "start": start, "end": end, "label": label, "group": "x"} | others


def test_a_csv_file_of_actions_becomes_videos(tmp_path: Path) -> None:
    rows = [action(3, 4, "put"), action(0, 2, "take"), action(1, 2, "take", path="b.mp4", split="val")]
    found = read_csv(write(tmp_path / "actions.csv", rows), task="online")
    assert [e.id for e in found.examples] == ["a", "b"]
    assert found.examples[0].segments == (ActionSegment(0.0, 2.0, 1), ActionSegment(3.0, 4.0, 0))
    assert [e.id for e in evaluated(found).examples] == ["a#1"]
    assert found.classes["present"] == found.classes["action"] == ("put", "take")


def test_videos_of_one_name_in_two_folders_are_two(tmp_path: Path) -> None:
    rows = [action(0, 1, "take", path="a/x.mp4"), action(0, 1, "put", path="b/x.mp4")]
    found = read_csv(write(tmp_path / "actions.csv", rows), task="online")
    assert len({e.id for e in found.examples}) == 2


@pytest.mark.parametrize(
    ("second", "message"),
    [
        (action(5, 6, "put", split="val"), "the split 'train' and 'val'"),
        (action(5, 6, "put", group="y"), "the group 'x' and 'y'"),
        (action(5, "", "put"), "the action at 5 s has no end"),
    ],
)
def test_actions_of_one_file_must_agree(tmp_path: Path, second: dict[str, object], message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_csv(write(tmp_path / "actions.csv", [action(0, 1, "take"), second]), task="online")


def cad120(folder: Path, subjects: int = 3) -> Path:
    rows: list[dict[str, object]] = [
        {"video": f"S{s}_{v}", "subject": f"S{s}", "activity": "tea", "start": i, "end": i + 1, "label": "ab"[i % 2]}
        for s in range(subjects)
        for v in range(2)
        for i in range(3)
    ]
    folder.mkdir(exist_ok=True)
    write(folder / "segments.csv", rows)
    return folder


@pytest.mark.parametrize("subjects", [3, 4])
def test_folds_leave_one_subject_out(tmp_path: Path, subjects: int) -> None:
    folder = cad120(tmp_path, subjects)
    left_out = set()
    for index in range(subjects):
        config = DataConfig.from_dict(
            {"source": "cad120", "folder": str(folder), "fold": {"count": subjects, "index": index}}
        )
        examples = open_source(config).annotations.examples
        (subject,) = {e.group for e in examples if e.split == "val"}
        assert subject not in {e.group for e in examples if e.split == "train"}
        left_out.add(subject)
    assert len(left_out) == subjects


def test_damaged_cad120_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"segments\.csv"):
        open_source(DataConfig.from_dict({"source": "cad120", "folder": str(tmp_path)}))
    folder = cad120(tmp_path)
    text = (folder / "segments.csv").read_text()
    (folder / "segments.csv").write_text(text.replace(",0,1,a", ",1,1,a", 1))
    with pytest.raises(DataError, match="not after its start"):
        open_source(DataConfig.from_dict({"source": "cad120", "folder": str(folder)}))


def test_an_unknown_task_names_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises((DataError, ConfigError), match="online"):
        read_csv(write(tmp_path / "a.csv", [action(0, 1, "take")]), task="segmentation")  # type: ignore[arg-type]
