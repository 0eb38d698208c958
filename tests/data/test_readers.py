"""Readers of annotations: their contents, and errors that name the file and the line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import videos

from horst.data.clips import ClipConfig
from horst.data.config import DataConfig
from horst.data.example import Annotations
from horst.data.readers.epic import read_epic
from horst.data.readers.folder import read_csv, read_folder
from horst.data.readers.ssv2 import read_ssv2
from horst.data.source import open_source
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
    with pytest.raises(DataError, match="has no template"):
        read_ssv2(ssv2, "clips", subset=subset)


def test_invalid_ssv2(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="neither something-something-v2-labels"):
        read_ssv2(tmp_path, "clips")
    (tmp_path / "labels.json").write_text(json.dumps(LABELS))
    with pytest.raises(DataError, match=r"has no train\.json"):
        read_ssv2(tmp_path, "clips")
    (tmp_path / "train.json").write_text("[{")
    with pytest.raises(DataError, match=r"train\.json cannot be read as JSON"):
        read_ssv2(tmp_path, "clips")
    (tmp_path / "train.json").write_text(json.dumps([{"id": "1", "template": "Moving [something] upwards"}]))
    with pytest.raises(DataError, match=r"clip 1 has the unknown template .*did you mean 'Moving something up'"):
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
    with pytest.raises(DataError, match="the split 'valid' has no examples; splits with examples: test, train, val"):
        found.split("valid")


def test_invalid_ek55(ek55: Path) -> None:
    training = (ek55 / "training.csv").read_text()
    for text, says in (
        (training.replace("0001\n", "0002\n"), "segment 00 has action 2; actions.csv says 1"),
        (
            training.replace(", 001, 0001", ", 007, 0001"),
            r"line 1: segment 00 has verb 0 and noun 7, and no action in .*actions\.csv has them",
        ),
        (training.replace("0000000152", "soon"), r"training\.csv, line 1: start is 'soon', not a whole number"),
        (training + "1,2\n", r"training\.csv, line 3: there are not 7 columns"),
    ):
        (ek55 / "training.csv").write_text(text)
        with pytest.raises(DataError, match=says):
            read_epic(ek55)
    for name in ("training.csv", "validation.csv"):
        (ek55 / name).unlink()
    with pytest.raises(DataError, match=r"has no training\.csv and no validation\.csv"):
        read_epic(ek55)


@pytest.fixture
def ek100(tmp_path: Path) -> Path:
    header = "narration_id,participant_id,video_id,start_timestamp,stop_timestamp,start_frame,verb_class,noun_class\n"
    return write(
        tmp_path / "ek100",
        EPIC_100_train=header + "P01_01_0,P01,P01_01,00:01:07.10,00:01:08.00,1,0,1\n",
        EPIC_100_validation=header + "P18_01_0,P18,P18_01,00:00:00.00,00:00:01.89,1,1,0\n",
        EPIC_100_verb_classes="id,key,instances,category\n0,take,x,y\n1,put,x,y\n",
        EPIC_100_noun_classes="id,key,instances,category\n0,tap,x,y\n1,pan,x,y\n",
        EPIC_100_tail_verbs="verb\n1\n",
        EPIC_100_tail_nouns="noun\n1\n",
        EPIC_100_unseen_participant_ids_validation="participant_id\nP18\n",
    )


def test_official_ek100(ek100: Path) -> None:
    found = read_epic(ek100, version="ek100", files="official")
    train, val = found.split("train").examples[0], found.split("val").examples[0]
    assert (train.start_frame, val.start_frame) == (2012, 1)  # 67.1 * 30 is a little less than 2013 in floating point
    assert found.classes["action"] == ("take pan", "put tap")
    assert (
        found.example_sets["unseen"] == found.example_sets["tail verb"] == found.example_sets["tail action"] == {val.id}
    )
    assert found.example_sets["tail noun"] == frozenset()


def test_official_ek55(ek55: Path) -> None:
    """Its own file has no validation split: RULSTM's list of videos makes one, and the segments are RULSTM's."""
    header = "uid,video_id,start_timestamp,stop_timestamp,start_frame,verb_class,noun_class\n"
    rows = "00,P01_02,00:00:05.07,00:00:06.84,304,0,1\n01,P01_02,00:00:00.10,00:00:00.30,6,1,0\n"
    rows += "07,P02_01,00:00:10.00,00:00:11.50,600,1,1\n"
    (ek55 / "EPIC_train_action_labels.csv").write_text(header + rows)
    (ek55 / "EPIC_test_s1_timestamps.csv").write_text(header + "09,P03_01,00:00:03.34,00:00:06.67,200,,\n")
    with pytest.raises(DataError, match=r"validation_videos\.csv is missing: .*fpv-iplab/rulstm"):
        read_epic(ek55, files="official")
    (ek55 / "validation_videos.csv").write_text("P02_01\n")
    found, rulstm = read_epic(ek55, files="official"), read_epic(ek55)
    assert found.examples == rulstm.examples
    assert found.classes == rulstm.classes
    (ek55 / "validation_videos.csv").write_text("\n")
    with pytest.raises(DataError, match="lists no video"):
        read_epic(ek55, files="official")
    (ek55 / "EPIC_train_action_labels.csv").unlink()
    with pytest.raises(DataError, match=r"has no EPIC_train_action_labels\.csv; get it from https"):
        read_epic(ek55, files="official")


def test_files_that_rulstms_folder_lacks_are_named(ek55: Path) -> None:
    """RULSTM's files do not name all verbs and nouns: where the missing file is public, the error says."""
    (ek55 / "EPIC_verb_classes.csv").unlink()
    with pytest.raises(DataError, match=r"EPIC_verb_classes\.csv is missing.*epic-kitchens-55-annotations"):
        read_epic(ek55)


def test_missing_metrics_are_noted(ek55: Path, ek100: Path) -> None:
    assert read_epic(ek55).notices == ()
    assert read_epic(ek100, version="ek100", files="official").notices == ()
    (ek55 / "EPIC_many_shot_actions.csv").unlink()
    assert read_epic(ek55).notices == ()  # RULSTM's actions need no list
    (said,) = read_epic(ek55, many_shot="official").notices
    assert "no many-shot metrics" in said
    assert "EPIC_many_shot_actions.csv" in said
    (ek55 / "EPIC_many_shot_nouns.csv").unlink()
    found = read_epic(ek55)
    assert found.subsets == {}
    assert "EPIC_many_shot_nouns.csv. Get it from https" in found.notices[0]
    (ek100 / "EPIC_100_unseen_participant_ids_validation.csv").unlink()
    found = read_epic(ek100, version="ek100", files="official")
    assert set(found.example_sets) == {"tail verb", "tail noun", "tail action"}  # one list has no need of the other
    assert ["no unseen metrics" in notice for notice in found.notices] == [True]
    (ek100 / "EPIC_100_tail_nouns.csv").unlink()
    found = read_epic(ek100, version="ek100", files="official")
    assert found.example_sets == {}
    assert "lacks EPIC_100_tail_nouns.csv" in found.notices[1]
    again = Annotations.from_dict(json.loads(json.dumps(found.to_dict())), media=Path("x"))
    assert again.notices == found.notices  # packed and extracted data tell it too


def test_rulstms_lists_of_segments_are_read(ek100: Path) -> None:
    for name in ("unseen_participant_ids_validation", "tail_verbs", "tail_nouns"):
        (ek100 / f"EPIC_100_{name}.csv").unlink()
    for name in ("unseen_participants", "tail_verbs", "tail_nouns", "tail_actions"):
        (ek100 / f"validation_{name}_ids.csv").write_text("" if name == "tail_nouns" else "P18_01_0\n")
    found = read_epic(ek100, version="ek100", files="official")
    assert found.notices == ()
    assert found.example_sets == {
        "unseen": {"P18_01_0"}, "tail verb": {"P18_01_0"}, "tail noun": frozenset(), "tail action": {"P18_01_0"},
    }  # fmt: skip
    (ek100 / "validation_tail_verbs_ids.csv").write_text("P18_01_0\nP99_01_7\n")
    with pytest.raises(
        DataError, match=r"validation_tail_verbs_ids\.csv, line 2: there is no validation segment 'P99_01_7'"
    ):
        read_epic(ek100, version="ek100", files="official")


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


def test_the_mirror_option(tmp_path: Path) -> None:
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
        ("path,split,label\n", "is empty"),
        ("path,split,lable\na.mp4,train,x\n", "no column 'label', did you mean 'lable'"),
        ("path,split,label\na.mp4,training set,x\n", "line 2: split is 'training set', did you mean"),
        ("path,split,label\na.mp4,train,\n", "line 2: label is empty"),
        ("path,split,label,start,end\na.mp4,train,x,3,2\n", "line 2: the action ends at 2 s"),
        ("path,split,label,start,end\na.mp4,train,x,-1,2\n", "line 2: start is '-1'; times start at 0"),
        ("path,split,label,start,end\na.mp4,train,x,soon,2\n", "line 2: start is 'soon'"),
        ("path,split,label\na.mp4,train,x,y\n", "line 2: there are not 3 columns"),
    ],
)
def test_invalid_csv(tmp_path: Path, text: str, says: str) -> None:
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
        ("source: folder\nroot: clips\nclip: {sise: 3}\n", "clip has no entry 'sise', did you mean 'size'"),
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


def test_invalid_tables(ek55: Path) -> None:
    """Each error names the file, the line and the value."""
    names = {"training": "training.csv", "verbs": "EPIC_verb_classes.csv", "actions": "actions.csv"}
    texts = {key: (ek55 / name).read_bytes() for key, name in names.items()}
    first = b"00, P01_02, 0000000152, 0000000205, 000, 001, 0001\n"
    for key, data, says in (
        ("training", first.replace(b"152", b"152.5"), r"training\.csv, line 1: start is '0000000152.5', not a whole"),
        ("training", first.replace(b"0000000152", b"1_5"), r"line 1: start is '1_5', not a whole number"),
        ("training", first.replace(b"0000000152", b"True"), r"line 1: start is 'True', not a whole number"),
        ("training", first.replace(b"0000000152", b"nan"), r"line 1: start is 'nan', not a whole number"),
        ("training", first.replace(b"0000000152", b"-5"), r"line 1: start is '-5'; it is a whole number from 1 on"),
        (
            "training",
            first.replace(b"0000000205", b"100"),
            r"line 1: segment 00 ends at frame 100, before its start 152",
        ),
        ("training", first.replace(b" 000, 001", b" -1, 001"), r"line 1: verb is '-1'; it is a whole number from 0 on"),
        ("training", first.replace(b"P01_02", b""), r"line 1: video is empty"),
        ("training", first + first, r"line 2: the id '00' is in .*training\.csv, line 1 too; remove one"),
        ("training", first + b"caf\xe9, P01_02, 1, 2, 0, 1, 1\n", r"line 2: byte 0xe9 is not UTF-8; save the file as"),
        ("training", first.decode().encode("utf-16"), r"line 1: byte 0xff is not UTF-8; save the file as UTF-8"),
        ("verbs", b"verb_id,class_key\n0,take\n0,put\n", r"EPIC_verb_classes\.csv, line 3: verb_id 0 occurs twice"),
        ("verbs", b"verb_id,class_key\n0,take\n2,put\n", r"verb_id must count from 0 without a gap"),
        ("verbs", b"verb,class_key\n0,take\n", r"has no column 'verb_id', did you mean 'verb'"),
        ("verbs", b"verb_id,class_key,class_key\n0,a,b\n", r"the column 'class_key' occurs twice"),
        ("actions", b"id,action,verb,noun\n0,x,9,0\n", r"verb 0 and noun 1, and no action in .*actions\.csv"),
    ):
        (ek55 / names[key]).write_bytes(data)
        with pytest.raises(DataError, match=says):
            read_epic(ek55)
        (ek55 / names[key]).write_bytes(texts[key])
    read_epic(ek55)


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("nan", "neither seconds nor h:m:s"),
        ("inf", "neither seconds nor h:m:s"),
        ("1e400", "neither seconds nor h:m:s"),
        ("0:-5:10", "neither seconds nor h:m:s"),
        ("0:5:-10", "neither seconds nor h:m:s"),
        ("0:75:10", "neither seconds nor h:m:s"),
        ("0:5:60", "neither seconds nor h:m:s"),
        ("1:2:3:4", "neither seconds nor h:m:s"),
        ("-0.5", "times start at 0"),
    ],
)
def test_invalid_times(tmp_path: Path, value: str, says: str) -> None:
    path = tmp_path / "clips.csv"
    path.write_text(f"path,split,label,start\na.mp4,train,x,{value}\n")
    with pytest.raises(DataError, match=rf"clips\.csv, line 2: start is '{value}'.*{says}"):
        read_csv(path)


def test_duplicate_ids_in_a_csv(tmp_path: Path) -> None:
    path = tmp_path / "clips.csv"
    path.write_text("path,split,label,start\na.mp4,train,x,1\na.mp4,train,y,1\n")
    with pytest.raises(DataError, match=r"line 3: the id 'a\.mp4@1' is in line 2 too; .*a column id"):
        read_csv(path)
    path.write_text("path,split,label,start,id\na.mp4,train,x,1,one\na.mp4,train,y,1,two\na.mp4,val,y,1,two\n")
    assert [e.id for e in read_csv(path).examples] == ["one", "two", "two"]  # `data check` tells of two splits
    path.write_text("path,split,label,fps\na.mp4,train,x,fast\n")
    with pytest.raises(DataError, match="line 2: fps is 'fast', not a number above 0"):
        read_csv(path)


def test_broken_json_of_ssv2(tmp_path: Path) -> None:
    labels, train = tmp_path / "labels.json", tmp_path / "train.json"
    good_labels, good_train = json.dumps(LABELS), json.dumps(ITEMS)
    for file, text, says in (
        (labels, '{"a": "1", "a": "2"}', r"labels\.json cannot be read as JSON: the key 'a' occurs twice"),
        (labels, '{"a": true}', r"labels\.json: 'a' has the id True; ids must be whole numbers"),
        (labels, '{"a": 1.0}', r"'a' has the id 1\.0; ids must be whole numbers"),
        (labels, '{"a": "1.5"}', r"'a' has the id '1\.5'"),
        (labels, '{"a": "-1"}', r"'a' has the id '-1'"),
        (labels, '{"a": NaN}', r"'a' has the id nan"),
        (labels, '{"a": "0", "b": "0"}', r"'b' and 'a' both have the id 0"),
        (labels, '{"a [b]": "0", "a b": "1"}', r"the template 'a b' occurs twice"),
        (labels, '["a"]', r"a mapping of templates to ids is needed"),
        (train, "{}", r"train\.json: a list of mappings with an id is needed"),
        (train, '[{"id": "1"}, 5]', r"train\.json, item 2: it is 5; a list of mappings"),
        (train, '[{"id": true}]', r"item 1: it is .*True"),
        (train, '[{"id": "1", "template": ["x"]}]', r"clip 1 has the template \['x'\], which is no text"),
        (train, json.dumps([ITEMS[0], ITEMS[0]]), r"item 2: the id 11 occurs twice"),
        (train, '[{"id": "1"}]', r"clip 1 has no template"),
        (tmp_path / "mirror.json", "[1]", r"mirror\.json: a mapping of templates to templates"),
    ):
        labels.write_text(good_labels)
        train.write_text(good_train)
        file.write_text(text)
        with pytest.raises(DataError, match=says):
            read_ssv2(tmp_path, "clips")
    labels.write_bytes(b'{"caf\xe9": "0"}')
    with pytest.raises(DataError, match=r"labels\.json cannot be read as JSON: 'utf-8'"):
        read_ssv2(tmp_path, "clips")


@pytest.mark.parametrize("change", [-1, 0, 1])
def test_a_model_sets_only_what_the_config_leaves_out(change: int) -> None:
    """A clip that differs from the default was set in code, whatever the file left out."""
    clip = ClipConfig(size=(224, 224 + change), fps=12.0 + change)
    left_out = DataConfig(source="csv", clip=clip, unset=frozenset({"size", "fps"}))
    found = left_out.clip_for(size=(8, 9), fps=7.0)
    assert found == (clip if change else ClipConfig(size=(8, 9), fps=7.0))
    assert DataConfig(source="csv", clip=clip).clip_for(size=(8, 9), fps=7.0) == clip
