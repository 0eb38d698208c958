"""The layouts of LSTR and MS-TCN, and RULSTM's EGTEA Gaze+: what is read, and what is rejected."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import layouts
import numpy as np
import pytest
from layouts import FPS, SESSIONS, write_egtea, write_lstr, write_ms_tcn

from horst.data.check import check_data
from horst.data.clips import ClipConfig
from horst.data.config import DataConfig
from horst.data.example import UNKNOWN
from horst.data.identity import DataIdentity
from horst.data.readers.lstr import read_lstr
from horst.data.readers.ms_tcn import read_ms_tcn
from horst.data.segments import active_classes, detection_labels
from horst.data.source import open_source
from horst.errors import ConfigError, DamagedVideoError, DataError, HorstError, MissingVideoError, NotAVideoError
from horst.evaluation.detection import targets

CLIP = ClipConfig(size=(1, 1), fps=FPS, steps=2, stride=0.25)


def test_lstr_labels_and_features_are_those_of_every_frame(tmp_path: Path) -> None:
    source = read_lstr(write_lstr(tmp_path))
    assert source.annotations.classes == {"action": ("background", "jump", "turn left")}
    assert source.annotations.counts() == {"train": 2, "val": 1}  # test sessions are val
    assert source.map == (5, 1, 1)
    for video in source.annotations.examples:
        clip, stored = source.read(video, CLIP), SESSIONS[video.id]
        rgb, flow = (np.load(tmp_path / "SMALL" / f"{kind}_net" / f"{video.id}.npy") for kind in ("rgb", "flow"))
        np.testing.assert_array_equal(clip.frames[..., 0, 0], np.concatenate([rgb, flow], 1))
        assert clip.times.tolist() == [frame / FPS for frame in range(len(stored))]
        expected = np.where(stored[:, 3:] == 1, 0, stored[:, :3])  # nothing where it is ambiguous
        np.testing.assert_array_equal(active_classes(video.segments, clip.times, 3), expected)


def test_ambiguous_frames_are_neither_learned_nor_evaluated(tmp_path: Path) -> None:
    video = read_lstr(write_lstr(tmp_path)).annotations.examples[0]
    times = np.arange(12) / FPS
    learned = detection_labels(video.segments, times, [0.25])
    assert learned["action"].tolist() == [0, 0, 1, 1, 1, 0, 2, 2, 0, UNKNOWN, UNKNOWN, 0]
    assert learned["ahead"][:, 0].tolist() == [0, 1, 1, 1, 0, 2, 2, 0, UNKNOWN, UNKNOWN, 0, UNKNOWN]
    evaluated = targets(video.segments, times, (0.25, 0.0), 3)
    assert evaluated.any(2)[:, 1].logical_not().nonzero()[:, 0].tolist() == [9, 10]
    assert evaluated.any(2)[:, 0].logical_not().nonzero()[:, 0].tolist() == [8, 9, 11]


def test_frames_with_several_labels_are_overlapping_segments(tmp_path: Path) -> None:
    both = layouts.columns(0, 1, 1, 2, 0)
    both[2, 2] = 1
    source = read_lstr(write_lstr(tmp_path, {"train_1": both, "test_1": both}), features=["flow_net"])
    assert source.map == (2, 1, 1)
    assert [(s.start * FPS, s.end * FPS, s.label) for s in source.annotations.examples[0].segments] == [
        (1, 3, 1),
        (2, 4, 2),
    ]


def test_ms_tcn(tmp_path: Path) -> None:
    folder = write_ms_tcn(tmp_path)
    source = read_ms_tcn(folder, 15, background=["SIL"])
    video = source.annotations.examples[0]
    assert source.annotations.classes == {"action": ("background", "jump", "turn")}
    for every in (1, 2):  # every second frame is half the rate
        clip = source.read(video, ClipConfig(size=(1, 1), fps=15 / every))
        stored = np.load(folder / "features" / "train_1.npy")
        np.testing.assert_array_equal(clip.frames[..., 0, 0], stored.T[::every])
        labels = [0, 1, 1, 0, 2, 2, 0, 0][::every]
        assert detection_labels(video.segments, clip.times)["action"].tolist() == labels
        assert source.lengths([video], ClipConfig(size=(1, 1), fps=15 / every)) == [len(labels)]
    online = read_ms_tcn(folder, 15, background=["SIL"], task="online").annotations
    assert online.classes["action"] == online.classes["present"] == ("jump", "turn")
    assert [s.label for s in online.examples[0].segments] == [0, 1]


def test_folds_stamps_and_check(tmp_path: Path) -> None:
    folder = write_lstr(tmp_path)
    data = {"source": "lstr", "folder": "SMALL", "data_info": "data_info.json", "clip": {"size": [1, 1], "fps": FPS}}
    source = open_source(DataConfig.from_dict({**data, "fold": {"count": 3, "index": 2}}, base=tmp_path))
    assert source.annotations.counts() == {"train": 2, "val": 1}
    assert check_data(source, clip=CLIP, depth="frames").ok
    before = DataIdentity.of(source)
    np.save(folder / "flow_net" / "test_1.npy", layouts.vectors(9, 2, 7, np.float16))  # the second feature file
    assert before.differences(DataIdentity.of(source))
    (folder / "rgb_net" / "test_1.npy").unlink()
    for depth in ("files", "headers", "frames"):
        assert [name for name, _ in check_data(source, clip=CLIP, depth=depth).bad] == ["test_1"]  # type: ignore[arg-type]


@pytest.mark.parametrize("frames", [-2, -1, 1, 2])
def test_small_differences_in_length_are_cut(frames: int, tmp_path: Path) -> None:
    folder = write_lstr(tmp_path)
    np.save(folder / "rgb_net" / "test_1.npy", layouts.vectors(9 + frames, 3, 0))
    source = read_lstr(folder)
    clip = source.read(source.annotations.split("val").examples[0], CLIP)
    assert len(clip.frames) == min(9, 9 + frames)
    assert bool(clip.note) == (frames < 0)


def saved(name: str, array: Any) -> Callable[[Path], None]:
    return lambda folder: np.save(folder / name, array)


def text(name: str, content: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).write_text(content) and None


def removed(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).unlink()


def info(**changes: Any) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        path = folder.parent / "data_info.json"
        data = json.loads(path.read_text())
        data["SMALL"] = {key: value for key, value in {**data["SMALL"], **changes}.items() if value is not None}
        path.write_text(json.dumps(data))

    return change


def holed(folder: Path) -> None:
    array = layouts.vectors(9, 3, 0)
    array[4, 1] = np.nan
    np.save(folder / "rgb_net" / "test_1.npy", array)


def cut_off(folder: Path) -> None:
    path = folder / "rgb_net" / "test_1.npy"
    path.write_bytes(path.read_bytes()[:-8])


LSTR = {
    "no features": (removed("rgb_net/test_1.npy"), MissingVideoError, "rgb_net/test_1.npy: there is no such file"),
    "no labels": (removed("target_perframe/test_1.npy"), DataError, "target_perframe/test_1.npy.*test_session_set"),
    "session without files": (info(test_session_set=["lost"]), DataError, "lost.npy.*names the video 'lost'"),
    "repeated session": (info(test_session_set=["test_1"] * 2), DataError, "'test_1' twice"),
    "length": (saved("rgb_net/test_1.npy", layouts.vectors(12, 3, 0)), DataError, "12 frames, and .*/test_1.npy has 9"),
    "swapped": (saved("rgb_net/test_1.npy", layouts.vectors(3, 9, 0)), DataError, "rgb_net/test_1.npy.*may be swapped"),
    "width": (
        saved("rgb_net/test_1.npy", layouts.vectors(9, 4, 0)),
        DataError,
        "test_1.npy: it has 4 channels.*have 3",
    ),
    "NaN": (holed, DamagedVideoError, "rgb_net/test_1.npy: the vector of frame 4 holds NaN"),
    "no npy": (text("rgb_net/test_1.npy", "text"), NotAVideoError, "rgb_net/test_1.npy: .*as an .npy file"),
    "empty file": (text("rgb_net/test_1.npy", ""), NotAVideoError, "rgb_net/test_1.npy: .*as an .npy file"),
    "cut off": (cut_off, NotAVideoError, "rgb_net/test_1.npy: .*cut off"),
    "three axes": (saved("rgb_net/test_1.npy", np.zeros((9, 3, 1))), DamagedVideoError, r"shape \(9, 3, 1\)"),
    "whole numbers": (saved("rgb_net/test_1.npy", np.zeros((9, 3), int)), DamagedVideoError, "holds int64"),
    "labels of text": (text("target_perframe/test_1.npy", "x"), DataError, "target_perframe/test_1.npy: .*npy"),
    "columns": (saved("target_perframe/test_1.npy", np.eye(9)), DataError, r"test_1.npy: .*\(9, 9\).* 4 class_names"),
    "half a label": (saved("target_perframe/test_1.npy", layouts.columns(0, 1) / 2), DataError, "frame 0 has 0.5"),
    "NaN label": (saved("target_perframe/test_1.npy", np.full((9, 4), np.nan)), DataError, "frame 0 has nan"),
    "no classes": (info(class_names=None), DataError, "class_names is missing"),
    "no rate": (info(fps=None), DataError, "there is no fps"),
    "wrong rate": (info(fps="4"), ConfigError, "fps is '4'"),
    "ignored": (info(ignore_index=9), DataError, "ignore_index is 9"),
    "info": (text("../data_info.json", "[]"), DataError, "data_info.json: it takes a mapping"),
    "no info": (removed("../data_info.json"), DataError, "has no data_info.json"),
    "several kinds": (lambda folder: (folder / "rgb_other").mkdir(), ConfigError, "rgb_net and rgb_other"),
}
MS_TCN = {
    "no features": (removed("features/test_1.npy"), MissingVideoError, "features/test_1.npy: there is no such file"),
    "no labels": (removed("groundTruth/test_1.txt"), DataError, "groundTruth/test_1.txt: .*test.split1.bundle, line 1"),
    "session": (text("splits/test.split1.bundle", "lost.txt\n"), DataError, "groundTruth/lost.txt: there is no"),
    "twice": (
        text("splits/test.split1.bundle", "test_1.txt\ntest_1.txt\n"),
        DataError,
        "line 2: 'test_1' is in line 1",
    ),
    "no bundle": (removed("splits/train.split1.bundle"), DataError, "train.split1.bundle: there is no such file"),
    "label": (text("groundTruth/test_1.txt", "SIL\njumpp\n"), DataError, "test_1.txt, line 2: 'jumpp'.*'jump'"),
    "empty line": (text("groundTruth/test_1.txt", "SIL\n\njump\n"), DataError, "test_1.txt, line 2: it is empty"),
    "empty labels": (text("groundTruth/test_1.txt", ""), DataError, "test_1.txt is empty"),
    "length": (saved("features/test_1.npy", np.zeros((5, 40))), DataError, "has 40 frames, and .*test_1.txt has 6"),
    "swapped": (saved("features/test_1.npy", np.zeros((6, 50))), DataError, "features/test_1.npy.*has 50 frames"),
    "width": (saved("features/test_1.npy", np.zeros((4, 6))), DataError, "test_1.npy: it has 4 channels.*have 5"),
    "NaN": (saved("features/test_1.npy", np.full((5, 6), np.inf)), DamagedVideoError, "frame 0 holds NaN or inf"),
    "no npy": (text("features/test_1.npy", "text"), NotAVideoError, "features/test_1.npy: .*as an .npy file"),
    "gap": (text("mapping.txt", "0 SIL\n2 jump\n"), DataError, "mapping.txt: its numbers must count from 0"),
    "mapping": (text("mapping.txt", "SIL 0\n"), DataError, "mapping.txt, line 1: 'SIL 0'"),
    "same name": (text("mapping.txt", "0 SIL\n1 SIL\n"), DataError, "mapping.txt, line 2: .*twice"),
}


def read_all(folder: Path, layout: str) -> None:
    source = read_lstr(folder) if layout == "lstr" else read_ms_tcn(folder, FPS, background=["SIL"])
    for example in source.annotations.examples:
        source.read(example, CLIP)


@pytest.mark.parametrize(
    ("layout", "case"), [(layout, case) for layout, of in (("lstr", LSTR), ("ms_tcn", MS_TCN)) for case in of]
)
def test_bad_files_are_named(layout: str, case: str, tmp_path: Path) -> None:
    folder = write_lstr(tmp_path) if layout == "lstr" else write_ms_tcn(tmp_path)
    read_all(folder, layout)
    change, kind, message = (LSTR if layout == "lstr" else MS_TCN)[case]
    change(folder)
    with pytest.raises(HorstError, match=message) as caught:
        read_all(folder, layout)
    assert caught.type is kind


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"features": ["rgb_nett"]}, "no folder 'rgb_nett'"),
        ({"features": []}, "without features"),
        ({"dataset": "SMAL"}, "no data set 'SMAL', did you mean 'SMALL'"),
        ({"task": "recognition"}, "online or detection"),
        ({"fps": -1}, "fps is -1"),
    ],
)
def test_bad_options_of_lstr(options: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(HorstError, match=message):
        read_lstr(write_lstr(tmp_path), **options)


def test_bad_options(tmp_path: Path) -> None:
    folder = write_ms_tcn(tmp_path)
    with pytest.raises(ConfigError, match=r"background names 'SLI'.*did you mean 'SIL'"):
        read_ms_tcn(folder, 15, background=["SLI"])
    with pytest.raises(DataError, match=r"train.split2.bundle: there is no such file"):
        read_ms_tcn(folder, 15, split=2)
    source = read_ms_tcn(folder, 15)
    with pytest.raises(ConfigError, match=r"set it to \[1, 1\]"):
        source.check(ClipConfig(size=(2, 2), fps=15))
    with pytest.raises(ConfigError, match=r"15 fps, which is no multiple of clip.fps = 4"):
        source.check(CLIP)


def test_egtea(tmp_path: Path) -> None:
    write_egtea(tmp_path, tmp_path / "rgb")
    data: dict[str, Any] = {"source": "rulstm_lmdb", "version": "egtea", "annotations": ".", "path": "rgb"}
    data |= {"channels": 4, "split": 2}
    source = open_source(DataConfig.from_dict(data, base=tmp_path))
    annotations = source.annotations
    assert annotations.classes["action"] == ("Inspect/Read recipe", "Turn on faucet")
    assert annotations.classes["verb"] == ("Inspect/Read", "Turn on")
    assert [e.group for e in annotations.examples] == ["P07", "P07", "OP01"]
    clip = source.read(annotations.split("val").examples[0], ClipConfig(size=(1, 1), steps=2, stride=0.5))
    assert clip.frames[:, 0, 0, 0].tolist() == [15, 30]  # 1 s and 0.5 s before frame 45, at 30 fps
    (tmp_path / "validation2.csv").write_text("9,OP01-R02-Pizza,45,55,0,1,1\n")
    with pytest.raises(DataError, match=r"validation2.csv, line 1: action 1 has \(verb, noun\) \(0, 1\)"):
        open_source(DataConfig.from_dict(data, base=tmp_path))
    with pytest.raises(DataError, match=r"training3.csv is missing"):
        open_source(DataConfig.from_dict({**data, "split": 3}, base=tmp_path))
