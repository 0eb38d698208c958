"""`horst data check`: videos, folders, tar files and LMDBs are opened, and clips are read."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import fake_epic
import lmdb
import pytest
import videos

from horst.cli import main
from horst.data.check import DataReport, _notices, check_data
from horst.data.clips import ClipConfig
from horst.data.config import DataConfig
from horst.data.source import Depth, open_source


def looked(root: Path, options: dict[str, Any], depth: Depth = "headers") -> DataReport:
    data = DataConfig.from_dict(options, base=root)
    return check_data(open_source(data), clip=data.clip, depth=depth, processes=1)


def own(root: Path, *clips: str, fps: float = 10, **clip: Any) -> dict[str, Any]:
    rows = "".join(f"{name},train,x\n" for name in clips)
    (root / "list.csv").write_text("path,split,label\n" + rows)
    return {"source": "csv", "path": "list.csv", "frames_fps": fps, "clip": {"size": [32, 32], "fps": 10, **clip}}


@pytest.mark.parametrize("depth", ["headers", "frames"])
def test_folders_and_tars_are_opened(tmp_path: Path, depth: Depth) -> None:
    fake_epic.put_folder(tmp_path / "good", 10, seconds=1)
    fake_epic.put_tar(tmp_path / "good.tar", 10, seconds=1)
    (tmp_path / "empty").mkdir()
    (tmp_path / "text.tar").write_text("no tar file")
    whole = (tmp_path / "good.tar").read_bytes()
    (tmp_path / "half.tar").write_bytes(whole[: len(whole) // 2])
    fake_epic.put_folder(tmp_path / "gap", 10, seconds=1)
    for number in (4, 5):
        (tmp_path / "gap" / f"frame_{number:010d}.jpg").unlink()
    names = ("good", "good.tar", "empty", "text.tar", "half.tar", "gap", "nowhere.tar")
    found = looked(tmp_path, own(tmp_path, *names), depth)
    assert found.missing == (str(tmp_path / "nowhere.tar"),)
    assert found.files == len(names)
    bad = {Path(path).name: why for path, why in found.bad}
    assert set(bad) == {"empty", "text.tar", "half.tar", "gap"}
    assert "there is no numbered image" in bad["empty"]
    assert bad["gap"] == "2 numbers are missing, the first is 4"
    assert not found.ok


def test_an_image_that_does_not_decode(tmp_path: Path) -> None:
    fake_epic.put_folder(tmp_path / "clip", 10, seconds=1)
    broken = tmp_path / "clip" / "frame_0000000007.jpg"
    broken.write_bytes(broken.read_bytes()[:-50])
    options = own(tmp_path, "clip", observe=0.5)  # which does not need it
    assert looked(tmp_path, options).ok  # nothing was decoded
    ((_, why),) = looked(tmp_path, options, "frames").bad
    assert "frame 7: the image does not decode" in why


@pytest.mark.parametrize("layout", ["official tars", "flat"])
def test_clips_are_read_with_their_times(tmp_path: Path, layout: fake_epic.Layout) -> None:
    options = {**fake_epic.write(tmp_path, "ek55", layout), "clip": {"size": [32, 32], "mode": "strict"}}
    found = looked(tmp_path, options, "frames")
    assert found.ok
    assert found.files == 4
    assert found.notices == ()
    assert len(found.clips) == 8  # the first and the last segment of each of four videos
    for shown in found.clips:
        start = fake_epic.STARTS[int(shown.example) % 2]
        assert 0 <= (start - 1) / 30 - 0.25 - shown.last < 1 / 30
    victim = tmp_path / "EPIC-KITCHENS"
    if layout == "flat":
        for path in victim.glob("P17_01_frame_00000001[0-9]*"):
            path.unlink()
    else:
        fake_epic.put_tar(victim / "P17" / "rgb_frames" / "P17_01.tar", 60, seconds=4)
    ((name, why),) = looked(tmp_path, options).bad
    assert "P17_01" in name
    assert "of 6.00 s" in why


def test_lmdb_keys_are_looked_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = fake_epic.features(tmp_path, "ek100")
    found = looked(tmp_path, options)
    assert found.ok
    assert found.files == 4
    shutil.copytree(tmp_path / "rgb", tmp_path / "copy")
    with lmdb.open(str(tmp_path / "copy"), map_size=2**26) as environment, environment.begin(write=True) as transaction:
        transaction.delete(b"P01_01_frame_0000000092.jpg")
        transaction.put(b"P18_09_frame_0000000092.jpg", b"short")
        transaction.delete(b"P18_02_frame_0000000001.jpg")  # which no clip needs
    options["path"] = "copy"
    found = looked(tmp_path, options)
    assert [video for video, _ in found.bad] == ["P01_01", "P18_09"]
    assert "1 of 27 vectors that clips need: there is no key P01_01_frame_0000000092.jpg" in found.bad[0][1]
    (tmp_path / "data.yaml").write_text(json.dumps(options))
    assert main(["data", "check", str(tmp_path / "data.yaml"), "--processes", "1"]) == 2
    assert "there is no key P01_01_frame_0000000092.jpg" in capsys.readouterr().out


def test_what_is_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Of a set that was made: its examples, no problems, then what is wrong, and that of packed clips."""
    monkeypatch.chdir(tmp_path)
    make = ["data", "make", "somethings", "made", "--clips", "12", "--size", "32", "--processes", "1"]
    check = ["data", "check", "made/data.yaml", "--processes", "1"]
    assert main(make) == 0
    printed = capsys.readouterr()
    assert printed.out == "made/data.yaml\n"
    said = printed.err.splitlines()
    start = said.index("10 train and 2 val examples of 24 actions, such as")
    name, _, action = said[start + 1].strip().partition(": ")
    assert Path(name).is_file()
    assert action in [row[0] for row in check_data(open_source(DataConfig.from_file("made/data.yaml"))).histogram]
    assert main(check) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[-2:] == ["files: all 12 open", "no problems"]
    assert not any("in the paper" in line for line in said)
    assert any("14 other actions" in line for line in said)
    first, *others = sorted(Path("made/videos").iterdir())
    first.unlink()
    for video in others:
        video.write_bytes(b"")
    assert main(check) == 2
    printed = capsys.readouterr()
    said = printed.out.splitlines()
    assert said[said.index("files: 0 of 12 open") + 1 :][:3] == ["missing: 1", f"  {first}", "damaged: 11"]
    assert said[-1] == "  and 1 more"
    assert "made/data.yaml: of 12 files, 1 missing, 11 damaged" in printed.err
    assert main([*make[:3], "packed", *make[4:], "--packed"]) == 0
    assert main(["data", "check", "packed/data.yaml"]) == 0
    assert capsys.readouterr().out.splitlines()[-2:] == ["stored videos: 12", "no problems"]


def test_rates_that_repeat_frames(tmp_path: Path) -> None:
    for name, fps in (("a.webm", 12), ("b.webm", 24)):
        videos.clip(tmp_path / name, frames=6, fps=fps)
    options = own(tmp_path, "a.webm", "b.webm", fps=24)
    assert looked(tmp_path, {**options, "clip": {"fps": 12}}).notices == ()
    (notice,) = looked(tmp_path, {**options, "clip": {"fps": 24}}).notices
    assert "1 of 2 files have a lower frame rate than clip.fps = 24" in notice
    assert "Set clip.fps to 12" in notice


def test_clips_that_could_not_be_packed(tmp_path: Path) -> None:
    fake_epic.put_folder(tmp_path / "good", 10, seconds=1)
    (tmp_path / "empty").mkdir()
    (tmp_path / "data.yaml").write_text(json.dumps(own(tmp_path, "good", "empty")))
    assert main(["data", "pack", str(tmp_path / "data.yaml"), str(tmp_path / "packed"), "--processes", "1"]) == 0
    found = looked(tmp_path, {"source": "packed", "folder": "packed"})
    assert [ident for ident, _ in found.bad] == ["empty"]


def test_notices_are_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By `data check`, `train` and `evaluate`: metrics do not vanish silently."""
    options = fake_epic.features(tmp_path, "ek100")
    (tmp_path / "annotations" / "EPIC_100_tail_verbs.csv").unlink()
    model = {"backbone": {"name": "maps", "channels": 8}, "hidden": [8], "stride": [1]}
    run = {
        "name": "small",
        "model": {"name": "horst_ek100", "options": model},
        "data": {**options, "clip": {"size": [1, 1]}},
        "loss": {"steps": "anticipation"},
        "augment": {"operations": 0, "mirror": False},
        "batches": {"size": 4},
        "trainer": {"epochs": 1, "accelerator": "cpu", "devices": 1},
    }
    (tmp_path / "data.yaml").write_text(json.dumps(options))
    (tmp_path / "run.yaml").write_text(json.dumps(run))
    folder = str(tmp_path / "run")
    for command in (
        ["data", "check", str(tmp_path / "data.yaml"), "--processes", "1"],
        ["train", str(tmp_path / "run.yaml"), "--folder", folder],
        ["evaluate", folder, "--device", "cpu"],
    ):
        assert main(command) == 0
        said = " ".join(capsys.readouterr().out.split())
        assert "note: There will be no tail metrics" in said, command
        assert "EPIC_100_tail_verbs.csv. Get it from https" in said
    assert "There will be no tail" in json.loads((tmp_path / "run/evaluation/val.json").read_text())["notices"][0]


def test_actions_without_preceding_frames_are_counted(tmp_path: Path) -> None:
    videos.clip(tmp_path / "long.mp4", frames=30, fps=10)
    starts = (0, 0.2, 0.3, 2)
    rows = [f"long.mp4,train,a,{start},{start + 0.1}" for start in starts]
    (tmp_path / "own.csv").write_text("\n".join(["path,split,label,start,end", *rows]))
    options = {"source": "csv", "path": "own.csv", "task": "anticipation"}
    (notice,) = looked(tmp_path, {**options, "clip": {"steps": 2, "stride": 0.25}}).notices
    assert notice.startswith("2 actions start in the first 0.25 s")
    assert not looked(tmp_path, {**options, "clip": {"fps": 10}, "task": "recognition"}).notices


def test_counts_and_overlap(tmp_path: Path) -> None:
    rows = [
        "a.mp4,train,x,0,g",
        "a.mp4,val,x,0,g",
        "b.mp4,train,y,0,h",
        "b.mp4,train,y,1,h",
        "c.mp4,val,y,0,",
        "c.mp4,test,y,2,",
    ]
    rows += ["d.mp4,test,x,0,g"]
    (tmp_path / "list.csv").write_text("path,split,label,start,group\n" + "".join(f"{row}\n" for row in rows))
    for name in "abc":
        videos.clip(tmp_path / f"{name}.mp4", frames=24)
    found = looked(tmp_path, {"source": "csv", "path": "list.csv"}, "files")
    assert found.counts == {"test": 2, "train": 3, "val": 2}
    assert found.classes == {"action": 2}
    assert found.paper == {}
    assert found.histogram == (("y", 2, 1), ("x", 1, 1))
    assert found.files == 4
    assert found.missing == (str(tmp_path / "d.mp4"),)
    assert (found.bad, found.clips, found.ok) == ((), (), False)
    overlap = dict(found.overlap)
    assert overlap[f"file {tmp_path / 'a.mp4'}"] == "train, val"
    assert overlap[f"file {tmp_path / 'c.mp4'}"] == "test, val"
    assert not any("b.mp4" in what or "d.mp4" in what for what in overlap)
    assert list(overlap) == sorted(overlap)


@pytest.mark.parametrize(("rates", "told"), [((11.89, 11.87, 24), True), ((11.89, 12), False), ((), False)])
def test_one_percent_slower_does_not_repeat_frames(rates: tuple[float, ...], told: bool) -> None:
    found = list(_notices("recognition", ClipConfig(fps=12), 0, [("", fps, []) for fps in rates]))
    assert len(found) == told
    if told:
        assert "1 of 3 files have a lower frame rate than clip.fps = 12, down to 11.87" in found[0]
        assert "Set clip.fps to 11.87" in found[0]
    assert list(_notices("anticipation", ClipConfig(fps=12), 0, [("", fps, []) for fps in rates])) == []


def test_the_first_and_the_last_clip_of_a_file_are_read(tmp_path: Path) -> None:
    videos.clip(tmp_path / "a.mp4", frames=48, fps=12)
    rows = "".join(f"a.mp4,train,x,{start},{start + 1}\n" for start in (2, 0, 1))
    (tmp_path / "list.csv").write_text("path,split,label,start,end\n" + rows)
    clip = {"size": [32, 32], "fps": 12}
    first, last = looked(tmp_path, {"source": "csv", "path": "list.csv", "clip": clip}, "frames").clips
    assert (first.first, last.first) == pytest.approx((0, 2))
    assert (first.last, last.last) == pytest.approx((11 / 12, 35 / 12))
    assert first.media == last.media == str(tmp_path / "a.mp4")
    assert looked(tmp_path, {"source": "csv", "path": "list.csv", "clip": clip}).clips == ()


def test_a_folder_in_two_splits_does_not_overlap(tmp_path: Path) -> None:
    """Frames of many videos may lie in one folder; a group in two splits is told whatever the media."""
    fake_epic.put_folder(tmp_path / "v", 10, seconds=1)
    (tmp_path / "list.csv").write_text("path,split,label,group\nv,train,x,g\nv,val,x,g\n")
    found = looked(tmp_path, {"source": "csv", "path": "list.csv", "frames_fps": 10}, "files")
    assert dict(found.overlap) == {"clip v": "train, val", "group g": "train, val"}
