"""No stale data: every change on disk or in a config is read or rejected, with any cache."""

from __future__ import annotations

import json
import os
import re
import shutil
import tarfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import lmdb
import numpy as np
import pytest
import torch
from PIL import Image
from small_sets import FunctionSource

from horst.backbones import create_backbone
from horst.data.batches import BadClip, ClipDataset, collate
from horst.data.config import DataConfig
from horst.data.example import Example
from horst.data.extract import extract
from horst.data.identity import DataIdentity, clip_key
from horst.data.packed import read_each, write_packed
from horst.data.preload import PreloadedClips
from horst.data.readers.epic import find_media
from horst.data.source import open_source
from horst.errors import HorstError
from horst.video.encode import write_video

CLIP = {"size": [24, 32], "fps": 6}
MAPS = {"size": [6, 8]}
BEFORE = {"size": [24, 32], "steps": 2, "stride": 0.25}


def picture(number: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    return np.random.default_rng(number).integers(0, 256, (6, 8, 3), np.uint8).repeat(4, 0).repeat(4, 1)


def video(path: Path, seed: int = 0, frames: int = 12, fps: float = 12) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_video(path, (picture(100 * seed + i) for i in range(frames)), fps)


def frames(folder: Path, prefix: str = "", seed: int = 0) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for n in range(1, 31):
        Image.fromarray(picture(100 * seed + n)).save(folder / f"{prefix}frame_{n:010d}.jpg")


def csv(root: Path, **clip: Any) -> dict[str, Any]:
    for i, name in enumerate("abc"):
        video(root / f"{name}.mp4", seed=i)
    text = "path,split,label,start,end\na.mp4,train,x,0,0.8\nb.mp4,train,y,,\nc.mp4,val,x,,\n"
    (root / "clips.csv").write_text(text)
    return {"source": "csv", "path": str(root / "clips.csv"), "clip": {**CLIP, **clip}}


def folder(root: Path) -> dict[str, Any]:
    for i, name in enumerate(("train/x/a", "train/y/b", "val/x/c")):
        video(root / f"{name}.mp4", seed=i)
    return {"source": "folder", "root": str(root), "clip": CLIP}


def ssv2(root: Path) -> dict[str, Any]:
    labels = root / "labels"
    labels.mkdir()
    (labels / "labels.json").write_text(json.dumps({"Moving something up": "0", "Dropping something": "1"}))
    for split, name, ids in (("train", "train", (1, 2)), ("val", "validation", (3,))):
        items = [
            {"id": str(i), "label": "", "template": ("Moving [something] up", "Dropping [something]")[i % 2]}
            for i in ids
        ]
        (labels / f"{name}.json").write_text(json.dumps([{**item, "placeholders": [""]} for item in items]))
        for i in ids:
            video(root / "videos" / f"{i}.webm", seed=i)
        del split
    return {"source": "ssv2", "annotations": str(labels), "videos": str(root / "videos"), "clip": CLIP}


def annotations(root: Path) -> Path:
    root.mkdir(exist_ok=True)
    (root / "training.csv").write_text("0, P01_01, 20, 28, 0, 0, 0\n1, P01_01, 24, 28, 1, 0, 1\n")
    (root / "validation.csv").write_text("2, P01_01, 27, 28, 0, 0, 0\n")
    (root / "actions.csv").write_text("id,action,verb,noun\n0,take_tap,0,0\n1,put_tap,1,0\n")
    (root / "EPIC_verb_classes.csv").write_text("verb_id,class_key\n0,take\n1,put\n")
    (root / "EPIC_noun_classes.csv").write_text("noun_id,class_key\n0,tap\n")
    return root


def epic(root: Path, layout: str) -> dict[str, Any]:
    media = root / "media"
    if layout == "video":
        video(media / "P01_01.mp4", frames=30, fps=30)
    else:
        frames(media if layout == "flat" else media / "P01_01", "P01_01_" if layout == "flat" else "")
    if layout == "tar":
        pack(media / "P01_01", media / "P01_01.tar")
        shutil.rmtree(media / "P01_01")
    rate = {"frames": "rulstm"} if layout in ("folder", "tar") else {}
    return {
        "source": "epic",
        "annotations": str(annotations(root / "csv")),
        "media": str(media),
        "clip": BEFORE,
        **rate,
    }


def pack(source: Path, path: Path) -> None:
    with tarfile.open(path, "w") as tar:
        for file in sorted(source.iterdir()):
            tar.add(file, file.name)


def packed(root: Path, seed: int = 0) -> dict[str, Any]:
    (root / "from").mkdir(parents=True)
    data = DataConfig.from_dict(csv(root / "from"))
    video(root / "from" / "a.mp4", seed=seed)
    source = open_source(data)
    render = partial(read_each, source.read, data.clip)
    write_packed(root / "packed", source.annotations, render, fps=6, clip=data.clip, processes=1)
    return {"source": "packed", "folder": str(root / "packed"), "clip": CLIP}


def packed_epic(root: Path) -> dict[str, Any]:
    data = {**epic(root, "video"), "clip": {**BEFORE, "steps": 5}}
    config = DataConfig.from_dict(data)
    source, clip = open_source(config), replace(config.clip, mode="strict")
    write_packed(
        root / "packed", source.annotations, partial(read_each, source.read, clip), fps=4, clip=clip, processes=1
    )
    return {"source": "packed", "folder": str(root / "packed"), "clip": data["clip"]}


def features(root: Path, seed: int = 0) -> dict[str, Any]:
    (root / "from").mkdir(parents=True)
    data = DataConfig.from_dict(csv(root / "from"))
    torch.manual_seed(seed)
    extract(data, create_backbone("stem", widths=[2, 3]), root / "maps")
    return {"source": "features", "folder": str(root / "maps"), "clip": {**CLIP, **MAPS}}


def vectors(root: Path, seed: int = 0) -> dict[str, Any]:
    root.mkdir(parents=True, exist_ok=True)
    with lmdb.open(str(root / "lmdb"), map_size=2**22) as env, env.begin(write=True) as put:
        for n in range(1, 31):
            put.put(f"P01_01_frame_{n:010d}.jpg".encode(), np.full(4, n + seed, "<f4").tobytes())
    options = {"annotations": str(annotations(root / "csv")), "path": str(root / "lmdb"), "channels": 4}
    return {"source": "rulstm_lmdb", **options, "clip": {**BEFORE, "size": [1, 1]}}


def somethings(root: Path, **options: Any) -> dict[str, Any]:
    made = {"source": "somethings", "folder": str(root / "made"), "clips": 4, "size": 32, "templates": 2}
    return {**made, "clip": CLIP, **options}


def kitchen(root: Path) -> dict[str, Any]:
    clip = {"size": [32, 48]}
    return {"source": "kitchen", "folder": str(root / "made"), "videos": 1, "size": [32, 48], "clip": clip}


Change = Callable[[Path, dict[str, Any]], None]


def rewritten(name: str, old: str, new: str) -> Change:
    def change(root: Path, data: dict[str, Any]) -> None:
        text = (root / name).read_text()
        assert old in text
        (root / name).write_text(text.replace(old, new))

    return change


def again(make: Callable[..., Any], *parts: str, **options: Any) -> Change:
    """What lay in `parts` is replaced by what `make` makes with other options."""

    def change(root: Path, data: dict[str, Any]) -> None:
        make(root / "other", **options)
        for part in parts:
            shutil.rmtree(root / part)
            shutil.copytree(root / "other" / part, root / part)

    return change


def remade(root: Path, data: dict[str, Any]) -> None:
    shutil.rmtree(root / "made")
    data["seed"] = 1


def swapped(one: str, two: str) -> Change:
    """Two files under each other's names, as after a rename."""

    def change(root: Path, data: dict[str, Any]) -> None:
        (root / one).rename(root / "aside")
        (root / two).rename(root / one)
        (root / "aside").rename(root / two)

    return change


def option(**changes: Any) -> Change:
    return lambda root, data: data.update(clip={**data["clip"], **changes})


def flipped(name: str) -> Change:
    """A byte in the middle is another one, and time and size are as before: a disk that fails."""

    def change(root: Path, data: dict[str, Any]) -> None:
        path, before = root / name, (root / name).stat()
        content = bytearray(path.read_bytes())
        content[len(content) // 3] ^= 1
        path.write_bytes(bytes(content))
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 1))

    return change


def new_picture(name: str) -> Change:
    return lambda root, data: Image.fromarray(picture(999)).save(root / name)


def new_video(name: str, **options: Any) -> Change:
    return lambda root, data: video(root / name, seed=9, **options)


def new_tar(root: Path, data: dict[str, Any]) -> None:
    """Renamed into its place, and with its pictures at other places in it."""
    frames(root / "new", seed=9)
    Image.fromarray(picture(5).repeat(9, 0)).save(root / "new" / "a_picture_0.png")
    pack(root / "new", root / "new.tar")
    (root / "new.tar").replace(root / "media" / "P01_01.tar")


def other_layout(root: Path, data: dict[str, Any]) -> None:
    """Frames are deleted, and a video takes their place."""
    shutil.rmtree(root / "media" / "P01_01")
    video(root / "media" / "P01_01.mp4", seed=9, frames=30, fps=30)


SAMPLING = {"size": option(size=[16, 16]), "fps": option(fps=3), "observe": option(observe=0.5)}
POSITIONS = {"size": option(size=[16, 16]), "steps": option(steps=1), "stride": option(stride=0.1)}
STRICT = {"mode": option(steps=5, mode="strict")}
CASES: dict[str, tuple[Callable[[Path], dict[str, Any]], dict[str, Change]]] = {
    "csv": (
        csv,
        {
            "file": new_video("a.mp4"),
            "swapped": swapped("a.mp4", "b.mp4"),
            "label": rewritten("clips.csv", "train,x", "train,y"),
            "split": rewritten("clips.csv", "b.mp4,train", "b.mp4,val"),
            "time": rewritten("clips.csv", "0.8", "0.4"),
            "task": lambda root, data: data.update(task="anticipation", clip={**BEFORE, "steps": 1, "stride": 0.1}),
            **SAMPLING,
        },
    ),
    "folder": (
        folder,
        {
            "file": new_video("train/x/a.mp4"),
            "class": lambda root, data: (root / "train" / "x").rename(root / "train" / "z"),
            **SAMPLING,
        },
    ),
    "ssv2": (
        ssv2,
        {
            "file": new_video("videos/1.webm"),
            "label": rewritten("labels/train.json", "Dropping [something]", "Moving [something] up"),
            **SAMPLING,
        },
    ),
    "epic video": (
        partial(epic, layout="video"),
        {
            "file": new_video("media/P01_01.mp4", frames=30, fps=30),
            "label": rewritten("csv/training.csv", "28, 0, 0, 0", "28, 1, 0, 1"),
            "time": rewritten("csv/training.csv", "20, 28", "18, 28"),
            **POSITIONS,
            **STRICT,
        },
    ),
    "epic folder": (
        partial(epic, layout="folder"),
        {
            "file": new_picture("media/P01_01/frame_0000000012.jpg"),
            "layout": other_layout,
            "rate": lambda root, data: data.update(frames="official"),
            **POSITIONS,
        },
    ),
    "epic flat": (partial(epic, layout="flat"), {"file": new_picture("media/P01_01_frame_0000000012.jpg")}),
    "epic tar": (partial(epic, layout="tar"), {"file": new_tar}),
    "packed": (
        packed,
        {
            "set": again(packed, "packed", seed=9),
            "pictures": flipped("packed/shard-00000.jpgs"),
            "index": flipped("packed/shard-00000.json"),
            "larger": option(size=[48, 64]),
            "rate": option(fps=4),
            **SAMPLING,
        },
    ),
    "packed anticipation": (
        packed_epic,
        {"size": option(size=[16, 16]), "steps": option(steps=2), "stride": option(stride=0.1), **STRICT},
    ),
    "features": (
        features,
        {
            "set": again(features, "maps", seed=1),
            "maps": flipped("maps/000000.maps"),
            "index": flipped("maps/index.json"),
            "other size": option(size=[7, 7]),
            "rate": option(fps=4),
            "fps": option(fps=3),
            "observe": option(observe=0.5),
        },
    ),
    "rulstm_lmdb": (
        vectors,
        {
            "set": again(vectors, "lmdb", seed=9),
            "label": rewritten("csv/training.csv", "28, 0, 0, 0", "28, 1, 0, 1"),
            "other size": option(size=[7, 7]),
            "steps": option(steps=1),
            "stride": option(stride=0.1),
            **STRICT,
        },
    ),
    "somethings": (somethings, {"seed": remade, "refused": lambda root, data: data.update(seed=1), **SAMPLING}),
    "somethings as files": (partial(somethings, packed=False), {"seed": remade}),
    "kitchen": (kitchen, {"seed": remade, "stride": option(steps=7, stride=0.5)}),
}


def contents(config: DataConfig, cache: Path | None, preload: bool = False) -> list[Any]:
    """All that training would learn from, or the error."""
    found: list[Any] = []
    try:
        source = open_source(config)
        found.append({task: list(names) for task, names in source.annotations.classes.items()})
        for split in ("train", "val"):
            clips = ClipDataset(source, split, config.clip, cache)
            kept = PreloadedClips(clips, torch.device("cpu")) if preload else None
            for index, example in enumerate(clips.examples):
                item = collate([clips[index]]) if kept is None else kept.batch([index]).read()
                assert [e.id for e in (clips.examples[i] for i in item.indices)] == list(item.ids)
                tensors = (item.frames.shape, hash(item.frames.numpy().tobytes()), str(item.times.tolist()))
                labels = {task: label.tolist() for task, label in item.labels.items()}
                bad = [clip.id for clip in item.bad]
                found.append((split, example.id, labels, tensors, bad, [bool(note) for note in item.notes]))
    except HorstError as error:
        found.append(type(error).__name__)
    return found


@pytest.fixture(autouse=True)
def one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """To start others takes longer than to draw so few clips."""
    monkeypatch.setattr("horst.data.jobs.available_cores", lambda: 1)


@pytest.mark.parametrize("name", CASES)
def test_changed_data_are_read_again_or_rejected(name: str, tmp_path: Path) -> None:
    make, changes = CASES[name]
    (tmp_path / "first").mkdir()
    data = make(tmp_path / "first")
    open_source(DataConfig.from_dict(data))  # makes what makes itself
    for what, change in changes.items():
        root = tmp_path / what.replace(" ", "_")
        cache = root.with_name(f"{root.name}.cache")
        shutil.copytree(tmp_path / "first", root)  # keeps times, as a backup that is restored
        now = json.loads(json.dumps(data).replace(str(tmp_path / "first"), str(root)))
        config = DataConfig.from_dict(now)
        before = contents(config, None)
        assert len(before) > 2, before  # nothing failed
        assert contents(config, cache) == contents(config, cache, preload=True) == before
        assert contents(config, cache) == contents(config, cache, preload=True) == before  # kept by now
        identity = DataIdentity.of(open_source(config))
        change(root, now)
        config = DataConfig.from_dict(now)
        after = contents(config, None)
        assert after != before, what
        for preload in (False, True):
            assert contents(config, cache, preload) == after, what
        is_read = isinstance(after[-1], tuple) and not any(row[4] for row in after[1:])
        if is_read and now["clip"] == json.loads(json.dumps(data))["clip"]:
            assert identity.differences(DataIdentity.of(open_source(config))), what


def test_each_clip_is_cached_once(tmp_path: Path) -> None:
    """A clip that is made of another file takes the place of the old one: a cache does not grow by itself."""
    config = DataConfig.from_dict(csv(tmp_path))
    for seed in (1, 2, 3):
        video(tmp_path / "a.mp4", seed=seed)
        contents(config, tmp_path / "cache", preload=True)
    assert len([f for f in (tmp_path / "cache").rglob("*") if f.is_file()]) == 3 + 2  # clips, and splits


def test_a_touched_file_is_read_again_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = DataConfig.from_dict(csv(tmp_path))
    source = open_source(config)
    asked: list[str] = []

    def read(example: Any, clip: Any) -> Any:
        asked.append(example.id)
        return source.read(example, clip)

    clips = ClipDataset(FunctionSource(source.annotations, read), "train", config.clip, tmp_path / "cache")
    first = clips.examples[0]
    for _ in range(2):
        _ = clips[0], clips[1]
    assert len(asked) == 2
    os.utime(first.media, ns=(1, 1))
    _ = clips[0], clips[1]
    assert asked[2:] == [first.id]


def test_the_key_of_a_clip() -> None:
    """All that changes a clip, and nothing else."""
    config = DataConfig.from_dict({"source": "csv", "path": "x"}).clip
    example = Example(id="a", split="train", media=Path("a.mp4"), labels={"action": 0})
    key = clip_key(example, config, "d")
    for same in (replace(example, split="val"), replace(example, labels={}), replace(example, group="p")):
        assert clip_key(same, config, "d") == key
    for other in ({"start": 1.0}, {"end": 2.0}, {"start_frame": 3}, {"video": "v"}, {"media": Path("b.mp4")}):
        assert clip_key(replace(example, **other), config, "d") != key
    assert clip_key(example, replace(config, fps=3), "d") != key
    assert clip_key(example, config, "e") != key


def test_media_that_appear_later_are_found(tmp_path: Path) -> None:
    """In one process: nothing that was looked up is believed for ever."""
    frames(tmp_path, "P01_01_")
    assert find_media(tmp_path, "P02_02").name == "P02_02.MP4"  # it is not there
    frames(tmp_path, "P02_02_")
    assert find_media(tmp_path, "P02_02") == tmp_path
    video(tmp_path / "P02" / "P02_02.mp4")
    assert find_media(tmp_path, "P02_02") == tmp_path / "P02" / "P02_02.mp4"


def identity_of(root: Path, rows: str) -> DataIdentity:
    (root / "clips.csv").write_text("path,split,label,start,end\n" + rows)
    return DataIdentity.of(open_source(DataConfig.from_dict({"source": "csv", "path": str(root / "clips.csv")})))


ROWS = "a.mp4,train,x,0,1\nb.mp4,train,y,0,1\nc.mp4,val,x,0,1\n"


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        (
            ROWS.replace("y", "z"),
            ["the action 'y' is now 'z'", "1 example have other labels .*b.mp4.*'y' before.*'z' now"],
        ),
        (ROWS.replace("b.mp4,train,y", "b.mp4,train,x"), ["1 action missing .'y'"]),
        (ROWS.replace("b.mp4,train", "b.mp4,val"), ["1 example moved .b.mp4.* from train to val"]),
        (ROWS.replace("c.mp4,val,x,0,1\n", "c.mp4,val,x,0,2\n"), ["1 example have other times .c.mp4"]),
        (ROWS.replace("c.mp4,val,x,0,1\n", "c.mp4,val,x,0.5,1\n"), ["1 example missing", "1 example new"]),
        (ROWS + "a.mp4,val,x,0,1\n", ["1 example new"]),
        ("".join(reversed(ROWS.splitlines(keepends=True))), ["in another order"]),
    ],
)
def test_changes_are_named(tmp_path: Path, rows: str, says: list[str]) -> None:
    before = identity_of(tmp_path, ROWS)
    assert not before.differences(identity_of(tmp_path, ROWS))
    found = before.differences(identity_of(tmp_path, rows))
    for one in says:
        assert any(re.search(one, line) for line in found), (one, found)


def changed(**parts: Any) -> DataIdentity:
    known: dict[str, Any] = {
        "task": "recognition",
        "classes": {"action": ["w", "x", "y", "z"]},
        "meaning": "",
        "media": dict.fromkeys("abcdef", "1"),
        "examples": [[name, "train", {"action": "x"}, "t", name] for name in "abcdef"],
    }
    return DataIdentity(**{**known, **parts})


def examples(**changes: list[Any]) -> list[list[Any]]:
    """Those of `changed`, some with other values after their id; without those that have none."""
    kept = {name: changes.get(name, ["train", {"action": "x"}, "t", name]) for name in "abcdef"}
    return [[name, *rest] for name, rest in kept.items() if rest]


@pytest.mark.parametrize(
    ("parts", "told"),
    [
        ({"task": "anticipation"}, ["the task was recognition and is anticipation"]),
        ({"classes": {"action": ["w", "x", "z", "y"]}}, ["the actions are in another order"]),
        ({"classes": {"action": ["w", "x", "y", "v"]}}, ["the action 'z' is now 'v'"]),
        ({"classes": {"action": ["w", "x", "y"]}}, ["1 action missing ('z')"]),
        ({"classes": {"action": ["w", "x", "y", "z", "v"]}}, ["1 action new ('v')"]),
        ({"classes": {"action": ["x", "u", "v"]}}, ["3 actions missing ('w', 'y', 'z')", "2 actions new ('u', 'v')"]),
        ({"classes": {"action": ["w", "x", "y", "z"], "verb": ["v"]}}, ["1 verb new ('v')"]),
        ({"meaning": "other"}, ["examples are in another order, or classes have other parts"]),
        ({"media": {name: "1" if name < "d" else "2" for name in "abcdef"}}, ["3 files were replaced (d, e, f)"]),
        ({"media": dict.fromkeys("abcdef", "2")}, ["6 files were replaced (a, b, c and 3 more)"]),
        ({"media": {**dict.fromkeys("bcdef", "1"), "g": "1", "a": "2"}}, ["1 file were replaced (a)"]),
        ({"examples": examples(b=[], d=[])}, ["2 examples missing (b (train), d (train))"]),
        ({"examples": [*examples(), ["g", "val", {}, "t", "g"]]}, ["1 example new (g (val))"]),
        ({"examples": [*examples(), ["a", "val", {}, "t", "a"]]}, ["1 example new (a (val))"]),
        (
            {"examples": [*examples(), *[["a", "train", {}, "t", "a"]] * 2]},
            ["2 examples new (a #2 (train), a #3 (train))"],
        ),
        (
            {"examples": examples(c=["val", {"action": "x"}, "t", "c"], e=[])},
            ["1 example moved (c from train to val)", "1 example missing (e (train))"],
        ),
        (
            {"examples": examples(a=["train", {"action": "y", "verb": "v"}, "t", "a"], b=["train", {}, "u", "b2"])},
            [
                "2 examples have other labels (a: action 'x' before, action 'y', verb 'v' now, "
                "b: action 'x' before,  now)",
                "1 example have other times (b)",
                "1 example are in other files (b: b before, b2 now)",
            ],
        ),
        ({"examples": examples()[::-1]}, ["examples are in another order, or classes have other parts"]),
    ],
)
def test_exactly_the_changes_are_listed(parts: dict[str, Any], told: list[str], tmp_path: Path) -> None:
    before, now = changed(), changed(**parts)
    assert before.differences(before) == now.differences(now) == []
    assert before.differences(now) == told
    assert before.digest != now.digest
    before.check(changed(), tmp_path)
    with pytest.raises(HorstError, match="was trained on other data") as error:
        before.check(now, tmp_path)
    assert f": {'; '.join(told)}. Restore" in str(error.value)


def test_the_contents_of_an_identity(tmp_path: Path) -> None:
    """Names of files do not depend on where the data lie, and test clips are no part of it."""
    found = []
    for place in ("here", "there/now"):
        root = tmp_path / place
        (root / "train").mkdir(parents=True)
        for name, size in (("train/a.mp4", 3), ("b.mp4", 5)):
            (root / name).write_bytes(b"x" * size)
            os.utime(root / name, (100, 100))
        found.append(identity_of(root, "train/a.mp4,train,x,0,1\nb.mp4,val,y,0.5,\nb.mp4,test,z,1,\n"))
    one = found[0]
    assert list(one.media) == ["train/a.mp4", "b.mp4"]
    assert one.classes == {"action": ["x", "y", "z"]}
    assert [(e[1], e[2], e[4]) for e in one.examples] == [
        ("train", {"action": "x"}, "train/a.mp4"),
        ("val", {"action": "y"}, "b.mp4"),
    ]
    assert [len(e[3]) for e in one.examples] == [12, 12]
    assert len(one.digest) == 24
    assert [e[:2] + e[4:] for e in found[1].examples] == [e[:2] + e[4:] for e in one.examples]


def test_round_trip_of_an_identity(tmp_path: Path) -> None:
    one = identity_of(tmp_path, ROWS)
    assert DataIdentity.read(tmp_path) is None
    one.write(tmp_path)
    assert DataIdentity.read(tmp_path) == one
    assert one.digest == DataIdentity.read(tmp_path).digest  # type: ignore[union-attr]
    text = (tmp_path / "data.json").read_text()
    for damaged in ("[]", "{}", text.replace('"x"', '"z"'), text.replace('"format": 1', '"format": 9')):
        (tmp_path / "data.json").write_text(damaged)
        with pytest.raises(HorstError, match=r"data\.json is damaged"):
            DataIdentity.read(tmp_path)


def test_a_copy_of_packed_clips_is_identical(tmp_path: Path) -> None:
    """Wherever it lies, and whenever it was copied: its checksums say so."""
    data = packed(tmp_path)
    before = DataIdentity.of(open_source(DataConfig.from_dict(data)))
    shutil.copytree(tmp_path / "packed", tmp_path / "copy", copy_function=shutil.copyfile)
    now = DataIdentity.of(open_source(DataConfig.from_dict({**data, "folder": str(tmp_path / "copy")})))
    assert now == before


def test_bad_clips_are_not_cached(tmp_path: Path) -> None:
    """What is mended is read the next time."""
    config = DataConfig.from_dict(csv(tmp_path))
    (tmp_path / "b.mp4").write_bytes(b"")
    clips = ClipDataset(open_source(config), "train", config.clip, tmp_path / "cache")
    assert isinstance(clips[1], BadClip)
    video(tmp_path / "b.mp4")
    assert not isinstance(clips[1], BadClip)
