"""`horst convert`: what is written is what is read back, and nothing is left by a conversion that fails."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import layouts
import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from layouts import FPS, LABELS, write_lstr, write_ms_tcn

from horst.cli import main
from horst.data.config import DataConfig
from horst.data.convert import convert
from horst.data.example import ActionSegment, Annotations, Example
from horst.data.features import ExtractedVideo, FeatureStore, maps_file, write_maps
from horst.data.readers.lstr import read_lstr
from horst.data.readers.ms_tcn import read_ms_tcn
from horst.data.segments import active_classes
from horst.data.source import open_source
from horst.errors import ConfigError, DataError
from horst.io import INDEX, write_checked

CLIP = {"size": [1, 1], "fps": FPS, "steps": 2, "stride": 0.25}
NAMES = len(layouts.NAMES)


@st.composite
def sessions(draw: st.DrawFn) -> dict[str, Any]:
    """Of two videos: labels of frames, of which some are several, ambiguous or without any action."""
    frames = [draw(st.lists(st.integers(0, 3), min_size=2, max_size=12)) for _ in range(2)]
    found = {name: layouts.columns(*of) for name, of in zip(("train_1", "test_1"), frames, strict=True)}
    for targets in found.values():
        for row in targets:
            if row[1] and draw(st.booleans()):
                row[2] = 1
    return found


@settings(max_examples=12, deadline=None)
@given(stored=sessions(), dtype=st.sampled_from([np.float16, np.float32]))
def test_lstr_round_trip(stored: dict[str, Any], dtype: Any, tmp_path_factory: pytest.TempPathFactory) -> None:
    root = tmp_path_factory.mktemp("round")
    folder = write_lstr(root, stored, dtype)
    convert(
        DataConfig(source="lstr", options={"folder": str(folder)}, unset=frozenset({"size", "fps"})), root / "b", "lstr"
    )
    data = DataConfig.from_file(root / "b" / "data.yaml")
    again, before = open_source(data), read_lstr(folder)
    ambiguous = any(targets[:, 3].any() for targets in stored.values())
    for video in again.annotations.examples:
        there = next(e for e in before.annotations.examples if e.id == video.id)
        assert video.split == there.split
        written = np.load(root / "b" / "target_perframe" / f"{video.id}.npy")
        np.testing.assert_array_equal(
            written[:, : NAMES - 1], np.where(stored[video.id][:, 3:], 0, stored[video.id][:, :3])
        )
        assert written.shape[1] == NAMES - (not ambiguous)
        one, two = before.read(there, data.clip), again.read(video, data.clip)
        assert two.frames.dtype == dtype
        np.testing.assert_array_equal(one.frames, two.frames)
        for source_video in (there, video):
            np.testing.assert_array_equal(
                active_classes(source_video.segments, one.times, NAMES - 1), written[:, : NAMES - 1]
            )


@settings(max_examples=12, deadline=None)
@given(
    labels=st.lists(st.lists(st.integers(0, 2), min_size=2, max_size=12), min_size=2, max_size=2),
    dtype=st.sampled_from([np.float16, np.float32]),
)
def test_ms_tcn_round_trip(labels: list[list[int]], dtype: Any, tmp_path_factory: pytest.TempPathFactory) -> None:
    root = tmp_path_factory.mktemp("round")
    folder = write_ms_tcn(root, dict(zip(("train_1", "test_1"), labels, strict=True)), dtype)
    options = {"folder": str(folder), "fps": FPS, "background": ["SIL"]}
    convert(DataConfig.from_dict({"source": "ms_tcn", **options, "clip": CLIP}), root / "b", "ms_tcn")
    names = {"background": "SIL"}
    for video, of in zip(("train_1", "test_1"), labels, strict=True):
        written = (root / "b" / "groundTruth" / f"{video}.txt").read_text().split()
        assert [names.get(name, name) for name in written] == [LABELS[label] for label in of]
        one, two = (np.load(place / "features" / f"{video}.npy") for place in (folder, root / "b"))
        assert two.dtype == dtype
        np.testing.assert_array_equal(one, two)
    assert read_ms_tcn(root / "b", FPS).annotations.counts() == {"train": 1, "val": 1}


def write_store(folder: Path) -> FeatureStore:
    """Maps of 2 x 2 of one video of each split, for the task online."""
    folder.mkdir()
    videos = ["a/walk.mp4", "b/walk.2.mp4"]
    examples = [
        Example(id=name, split=split, media=folder, labels={}, video=name, segments=(ActionSegment(0.5, 1.0, index),))
        for index, (name, split) in enumerate(zip(videos, ("train", "val"), strict=True))
    ]
    names = ("jump up", "turn")
    annotations = Annotations(
        name="own", task="online", examples=tuple(examples), classes={"action": names, "present": names}
    )
    index = {"format": 1, "backbone": {"name": "stem"}, "map": [3, 2, 2], "clip": {"size": [8, 8], "fps": FPS}}
    write_checked(folder / INDEX, {**index, "videos": videos, "annotations": annotations.to_dict()})
    for number in range(2):
        maps = np.random.default_rng(number).normal(size=(6, 3, 2, 2)).astype(np.float16)
        frames = [round(1e6 * place / FPS) for place in range(6)]
        video = ExtractedVideo(clips=[(0.0, None, frames, "")])
        write_maps(maps_file(folder, number), [(frames, maps)], video)
    return FeatureStore(folder)


@pytest.mark.parametrize("to", ["lstr", "ms_tcn"])
def test_a_feature_store_becomes_means_over_positions(to: str, tmp_path: Path) -> None:
    store = write_store(tmp_path / "maps")
    (tmp_path / "maps.yaml").write_text("{source: features, folder: maps}")
    assert main(["convert", str(tmp_path / "maps.yaml"), "--to", to, str(tmp_path / "new")]) == 0
    found = open_source(data := DataConfig.from_file(tmp_path / "new" / "data.yaml"))
    assert found.annotations.classes["action"] == ("background", "jump up" if to == "lstr" else "jump_up", "turn")
    for number, video in enumerate(found.annotations.examples):
        assert video.id == ("a_walk", "b_walk.2" if to == "lstr" else "b_walk_2")[number]
        clip = found.read(video, data.clip)
        maps = store.read_maps(store.index["videos"][number], [round(1e6 * t) for t in clip.times])
        np.testing.assert_array_equal(clip.frames[..., 0, 0], maps.mean((2, 3), dtype=np.float32))
        labels = active_classes(video.segments, clip.times, 3).argmax(1)
        assert labels.tolist() == [0, 0, number + 1, number + 1, 0, 0]


def test_labels_as_csv(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Overlapping actions of one start too: the reader needs ids for them."""
    both = layouts.columns(0, 1, 1, 2, 3, 0)
    both[1, 2] = 1
    write_lstr(tmp_path, {"train_1": both, "train_2": layouts.columns(0, 0, 3), "test_1": layouts.columns(2, 2)})
    (tmp_path / "data.yaml").write_text("{source: lstr, folder: SMALL}")
    args = ["convert", str(tmp_path / "data.yaml"), str(tmp_path / "own.csv"), "--to", "csv"]
    assert main(args) == 0
    assert "1 examples without a labelled action" in capsys.readouterr().out
    csv = {"source": "csv", "path": str(tmp_path / "own.csv"), "task": "detection"}
    found = open_source(DataConfig.from_dict(csv)).annotations
    before = read_lstr(tmp_path / "SMALL").annotations
    for video in found.examples:
        there = next(e for e in before.examples if e.id == video.id)
        assert video.media == tmp_path / f"{video.id}.mp4"
        assert video.split == there.split
        assert set(video.segments) == {s for s in there.segments if s.label >= 0}
    assert main(args) == 2
    assert "own.csv exists" in capsys.readouterr().err


def test_nothing_is_overwritten_or_left_behind(tmp_path: Path) -> None:
    folder = write_lstr(tmp_path)
    config = DataConfig.from_dict({"source": "lstr", "folder": str(folder), "clip": CLIP})
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(DataError, match="SMALL exists and is not empty"):
        convert(config, folder, "lstr")
    (folder / "rgb_net" / "test_1.npy").write_text("no array")
    with pytest.raises(DataError, match="video test_1 cannot be converted"):
        convert(config, tmp_path / "new", "ms_tcn")
    assert sorted(tmp_path.rglob("*")) == before
    (tmp_path / ".new.partial").mkdir()  # of one that was killed, or is running
    with pytest.raises(DataError, match="If none is running, remove it"):
        convert(config, tmp_path / "new", "ms_tcn")
    (tmp_path / "walk").mkdir()
    (tmp_path / "walk.csv").write_text("path,split,label,start,end\na.mp4,train,x,0,1\n")
    for task, message in (("detection", "run horst extract"), ("anticipation", "takes whole videos")):
        own = {"source": "csv", "path": str(tmp_path / "walk.csv"), "task": task}
        with pytest.raises(ConfigError, match=message):
            convert(DataConfig.from_dict(own), tmp_path / "other", "lstr")


RUN = {
    "loss": {"steps": "every"},
    "augment": {"operations": 0, "mirror": False},
    "batches": {"size": 2, "workers": 0},
    "trainer": {"epochs": 1, "accelerator": "cpu", "devices": 1},
}
MODELS = {
    "lstr": {"name": "gru_tiny", "options": {"backbone": {"name": "maps", "channels": 5}}},
    "ms_tcn": {
        "name": "horst_tiny",
        "options": {"backbone": {"name": "maps", "channels": 5}, "hidden": [4], "stride": [1], "order": 2},
    },
}


@pytest.mark.parametrize("layout", MODELS)
def test_from_files_to_a_table(
    layout: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = (write_lstr if layout == "lstr" else write_ms_tcn)(tmp_path)
    data: dict[str, Any] = {"source": layout, "folder": folder.name, "clip": CLIP}
    data |= {"fps": FPS, "background": ["SIL"]} if layout == "ms_tcn" else {}
    (tmp_path / "data.yaml").write_text(yaml.safe_dump(data))
    (tmp_path / "run.yaml").write_text(json.dumps({"name": layout, "model": MODELS[layout], "data": data, **RUN}))
    assert main(["data", "check", "data.yaml"]) == 0
    assert main(["train", "run.yaml", "--folder", "run"]) == 0
    assert main(["evaluate", "run", "--device", "cpu"]) == 0
    found = json.loads((tmp_path / "run" / "evaluation" / "val.json").read_text())
    assert found["counts"]["read"] == found["counts"]["examples"] == (9 if layout == "lstr" else 6)
    capsys.readouterr()
    assert main(["table", "run"]) == 0
    assert "map" in capsys.readouterr().out.lower()
