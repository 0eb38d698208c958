"""Annotations of all kinds: what is in the files is what is read, and what does not fit is named with its line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import videos

from horst.data.clips import ClipConfig
from horst.data.config import DataConfig, open_source
from horst.data.epic import read_epic
from horst.data.folder import read_csv, read_folder
from horst.data.ssv2 import read_ssv2
from horst.errors import ConfigError, DataError

LABELS = {"Moving something up": "1", "Moving something down": "0", "Holding something": "2"}
ITEMS = [
    {"id": "11", "label": "moving cup up", "template": "Moving [something] up", "placeholders": ["cup"]},
    {"id": "12", "label": "holding a book", "template": "Holding [something]", "placeholders": ["a book"]},
    {"id": "13", "label": "moving pen down", "template": "Moving [something] down", "placeholders": ["pen"]},
]


@pytest.fixture(params=["something-something-v2-{}.json", "{}.json"])
def ssv2(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    (tmp_path / request.param.format("labels")).write_text(json.dumps(LABELS))
    (tmp_path / request.param.format("train")).write_text(json.dumps(ITEMS))
    (tmp_path / request.param.format("validation")).write_text(json.dumps(ITEMS[:1]))
    (tmp_path / request.param.format("test")).write_text(json.dumps([{"id": "14"}]))
    return tmp_path


def test_ssv2(ssv2: Path) -> None:
    found = read_ssv2(ssv2, "clips")
    assert found.counts() == {"test": 1, "train": 3, "val": 1}
    assert found.classes["action"] == ("Moving something down", "Moving something up", "Holding something")
    assert [dict(e.labels) for e in found.split("train").examples] == [{"action": 1}, {"action": 2}, {"action": 0}]
    assert found.examples[0].media == Path("clips/11.webm")
    assert dict(found.split("test").examples[0].labels) == {}


def test_ssv2_subset(ssv2: Path, tmp_path: Path) -> None:
    subset = tmp_path / "subset.txt"
    subset.write_text("Moving [something] up\n\nMoving something down\n")
    found = read_ssv2(ssv2, "clips", subset=subset)
    assert found.classes["action"] == ("Moving something up", "Moving something down")
    assert [e.id for e in found.split("train").examples] == ["11", "13"]
    table = tmp_path / "subset.csv"
    table.write_text("idx,template\n0,Moving [something] down\n")
    assert read_ssv2(ssv2, "clips", subset=table).split("train").examples[0].id == "13"
    subset.write_text("Moving [something] upp\n")
    with pytest.raises(DataError, match=r"subset\.txt, line 1: 'Moving something upp' is no template, did you mean"):
        read_ssv2(ssv2, "clips", subset=subset)
    subset.write_text("\n")
    with pytest.raises(DataError, match="names no template"):
        read_ssv2(ssv2, "clips", subset=subset)


def test_ssv2_that_does_not_fit(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="neither something-something-v2-labels"):
        read_ssv2(tmp_path, "clips")
    (tmp_path / "labels.json").write_text(json.dumps(LABELS))
    with pytest.raises(DataError, match=r"there is none of train\.json"):
        read_ssv2(tmp_path, "clips")
    (tmp_path / "train.json").write_text("[{")
    with pytest.raises(DataError, match=r"train\.json cannot be read as JSON"):
        read_ssv2(tmp_path, "clips")
    (tmp_path / "train.json").write_text(json.dumps([{"id": "1", "template": "Moving [something] upwards"}]))
    with pytest.raises(DataError, match=r"clip 1 has the template .*did you mean 'Moving something up'"):
        read_ssv2(tmp_path, "clips")


def write(folder: Path, **files: str) -> Path:
    folder.mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / f"{name}.csv").write_text(text)
    return folder


@pytest.fixture
def ek55(tmp_path: Path) -> Path:
    return write(
        tmp_path / "ek55",
        training="00, P01_02, 0000000152, 0000000205, 000, 001, 0001\n01, P01_02, 3, 9, 1, 0, 0\n",
        validation="07, P02_01, 0000000300, 0000000345, 001, 001, 0002\n",
        test_seen="09, P03_01, 0000000100, 0000000200\n",
        actions="id,action,verb,noun\n0, put_tap,1,0\n1, take_pan,0,1\n2, put_pan,1,1\n",
        EPIC_verb_classes="verb_id,class_key,verbs\n0,take,\"['take']\"\n1,put,\"['put']\"\n",
        EPIC_noun_classes="noun_id,class_key,nouns\n0,tap,x\n1,pan,y\n",
        EPIC_many_shot_verbs="verb_class,verb\n0,take\n",
        EPIC_many_shot_nouns="noun_class,noun\n0,tap\n",
        EPIC_many_shot_actions='action_class,noun,noun_class,verb,verb_class\n"(1, 1)",pan,1,put,1\n',
    )


def test_ek55(ek55: Path) -> None:
    found = read_epic(ek55)
    assert found.counts() == {"test": 1, "train": 2, "val": 1}
    first = found.split("train").examples[0]
    assert (first.id, first.video, first.group, first.start_frame) == ("00", "P01_02", "P01", 152)
    assert dict(first.labels) == {"verb": 0, "noun": 1, "action": 1}
    assert found.classes["action"] == ("put tap", "take pan", "put pan")
    assert found.action_parts == ((1, 0), (0, 1), (1, 1))
    assert found.subsets["many-shot action"] == {0, 1}
    assert read_epic(ek55, many_shot="official").subsets["many-shot action"] == {2}
    with pytest.raises(DataError, match="no example in the split 'valid'; splits with examples: test, train, val"):
        found.split("valid")


def test_ek55_that_does_not_fit(ek55: Path) -> None:
    training = (ek55 / "training.csv").read_text()
    for text, says in (
        (training.replace("0001\n", "0002\n"), "segment 00 has action 2; actions.csv says 1"),
        (training.replace(", 001, 0001", ", 007, 0001"), "no action of verb 0 and noun 7, as segment 00 has"),
        (training.replace("0000000152", "soon"), r"training\.csv, line 1: start is 'soon', not a whole number"),
        (training + "1,2\n", r"training\.csv, line 3: there are not 7 columns"),
    ):
        (ek55 / "training.csv").write_text(text)
        with pytest.raises(DataError, match=says):
            read_epic(ek55)
    for name in ("training.csv", "validation.csv"):
        (ek55 / name).unlink()
    with pytest.raises(DataError, match=r"neither training\.csv nor validation\.csv"):
        read_epic(ek55)


def test_official_ek100(tmp_path: Path) -> None:
    header = "narration_id,participant_id,video_id,start_timestamp,stop_timestamp,start_frame,verb_class,noun_class\n"
    folder = write(
        tmp_path / "ek100",
        EPIC_100_train=header + "P01_01_0,P01,P01_01,00:01:07.10,00:01:08.00,1,0,1\n",
        EPIC_100_validation=header + "P18_01_0,P18,P18_01,00:00:00.00,00:00:01.89,1,1,0\n",
        EPIC_100_verb_classes="id,key,instances,category\n0,take,x,y\n1,put,x,y\n",
        EPIC_100_noun_classes="id,key,instances,category\n0,tap,x,y\n1,pan,x,y\n",
        EPIC_100_tail_verbs="verb\n1\n",
        EPIC_100_tail_nouns="noun\n1\n",
        EPIC_100_unseen_participant_ids_validation="participant_id\nP18\n",
    )
    found = read_epic(folder, version="ek100", files="official")
    train, val = found.split("train").examples[0], found.split("val").examples[0]
    assert (train.start_frame, val.start_frame) == (2012, 1)  # 67.1 * 30 is a little less than 2013 in floating point
    assert found.classes["action"] == ("take pan", "put tap")
    assert (
        found.example_sets["unseen"] == found.example_sets["tail verb"] == found.example_sets["tail action"] == {val.id}
    )
    assert found.example_sets["tail noun"] == frozenset()


def test_folder(tmp_path: Path) -> None:
    for name in (
        "train/stop/a.mp4",
        "train/wave/b.webm",
        "validation/stop/c.MP4",
        "train/wave/notes.txt",
        "other/x/y.mp4",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    found = read_folder(tmp_path)
    assert [(e.id, e.split, e.labels["action"]) for e in found.examples] == [
        ("train/stop/a.mp4", "train", 0),
        ("train/wave/b.webm", "train", 1),
        ("validation/stop/c.MP4", "val", 0),
    ]
    with pytest.raises(DataError, match="no such folder"):
        read_folder(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="there is no video in it"):
        read_folder(tmp_path / "empty")


def test_csv(tmp_path: Path) -> None:
    path = tmp_path / "clips.csv"
    path.write_text(
        "path,split,label,start,end,verb,noun\n"
        "a.mp4,train,take cup,1.5,3,take,cup\n"
        "a.mp4,valid,put cup,0:01:04.5,65,put,cup\n"
    )
    found = read_csv(path, task="anticipation")
    first, second = found.examples
    assert (first.start, first.end, first.start_frame, first.media) == (1.5, 3.0, 46, tmp_path / "a.mp4")
    assert (second.start, second.split) == (64.5, "val")
    assert dict(second.labels) == {"action": 0, "verb": 0, "noun": 0}
    assert found.classes == {"action": ("put cup", "take cup"), "verb": ("put", "take"), "noun": ("cup",)}
    assert first.id != second.id


def test_what_mirrored_clips_show_is_said_by_the_user(tmp_path: Path) -> None:
    path = tmp_path / "clips.csv"
    path.write_text("path,split,label\n" + "".join(f"{i}.mp4,train,{name}\n" for i, name in enumerate("lrsu")))
    assert read_csv(path).mirror == ()  # nothing is mirrored
    assert read_csv(path, mirror={}).mirror == (0, 1, 2, 3)
    assert (
        read_csv(path, mirror={"l": "r"}).mirror == read_csv(path, mirror={"r": "l", "l": "r"}).mirror == (1, 0, 2, 3)
    )
    for wrong, says in (({"l": "x"}, "'x', which is no action"), ({"l": "r", "s": "r"}, "in several pairs")):
        with pytest.raises(ConfigError, match=says):
            read_csv(path, mirror=wrong)
    with pytest.raises(ConfigError, match="mirror is"):
        read_csv(path, mirror=["l", "r"])  # type: ignore[arg-type]


def test_anticipation_needs_start_times(tmp_path: Path) -> None:
    path = tmp_path / "clips.csv"
    path.write_text("path,split,label,strat\na.mp4,train,x,1\n")
    with pytest.raises(DataError, match="no column 'start', did you mean 'strat'"):
        read_csv(path, task="anticipation")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("path,split,label\n", "lists nothing"),
        ("path,split,lable\na.mp4,train,x\n", "no column 'label', did you mean 'lable'"),
        ("path,split,label\na.mp4,training set,x\n", "line 2: split is 'training set', did you mean"),
        ("path,split,label\na.mp4,train,\n", "line 2: label is empty"),
        ("path,split,label,start,end\na.mp4,train,x,3,2\n", "line 2: the action ends at 2 s"),
        ("path,split,label,start,end\na.mp4,train,x,-1,2\n", "line 2: start is '-1'; times start at 0"),
        ("path,split,label,start,end\na.mp4,train,x,soon,2\n", "line 2: start is 'soon'"),
        ("path,split,label\na.mp4,train,x,y\n", "line 2: there are not 3 columns"),
    ],
)
def test_csv_that_does_not_fit(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "clips.csv"
    path.write_text(text)
    with pytest.raises(DataError, match=says):
        read_csv(path)


def test_config_files(tmp_path: Path) -> None:
    """A few lines of YAML open any source; paths are relative to the file."""
    (tmp_path / "clips" / "train" / "wave").mkdir(parents=True)
    videos.clip(tmp_path / "clips" / "train" / "wave" / "a.webm", frames=24)
    config = tmp_path / "data.yaml"
    config.write_text("source: folder\nroot: clips\nclip: {size: [24, 32], fps: 6, observe: 0.5}\n")
    loaded = DataConfig.from_file(config)
    source = open_source(loaded)
    clip = source.read(source.annotations.examples[0], loaded.clip)
    assert clip.frames.shape == (6, 24, 32, 3)
    assert [videos.number_of(f) for f in clip.frames] == [0, 2, 4, 6, 8, 10]
    for text, says in (
        ("source: foldr\n", "no data source 'foldr', did you mean 'folder'"),
        ("source: folder\nrot: clips\n", "no option 'rot', did you mean 'root'"),
        ("source: folder\n", "needs the option 'root'"),
        ("source: folder\nroot: clips\nclip: {sise: 3}\n", "clip has no option 'sise', did you mean 'size'"),
        ("source: folder\nroot: clips\nclip: {observe: 2}\n", "observe is 2"),
        ("source: folder\nroot: clips\nclip: 3\n", "clip is 3"),
        ("- 1\n", "a data config is a mapping with a source"),
        ("a: [\n", "cannot be read as YAML"),
        ("source: epic\nannotations: x\nversion: ek56\n", "'version'.*choose from 'ek55', 'ek100'"),
    ):
        config.write_text(text)
        with pytest.raises(ConfigError, match=says):
            open_source(DataConfig.from_file(config))
    with pytest.raises(ConfigError, match="there is no such file"):
        DataConfig.from_file(tmp_path / "nowhere.yaml")


def test_bad_clip_options() -> None:
    bad: list[dict[str, Any]] = [
        {"size": (0, 3)},
        {"fps": 0},
        {"observe": 1.5},
        {"steps": 0},
        {"mode": "loose"},
        {"stride": -1},
    ]
    for options in bad:
        with pytest.raises(ConfigError, match=next(iter(options))):
            ClipConfig(**options)
