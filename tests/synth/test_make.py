"""Writing synthetic data: files read by the readers of the real data, packed form, interrupted runs, folders."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from horst.cli import main
from horst.data.check import check_data
from horst.data.clips import ClipConfig
from horst.data.config import DataConfig
from horst.data.packed import Packed
from horst.data.readers.epic import read_epic
from horst.data.source import Source, open_source
from horst.errors import ConfigError, DamagedVideoError, DataError
from horst.models import create_model, save
from horst.synth.make import CONFIG, MADE, SMALLEST, VERSIONS, DatasetSpec, claim, make_kitchen, make_somethings
from horst.video.decode import VideoFile


def opened(config: Path) -> tuple[Source, ClipConfig]:
    data = DataConfig.from_file(config)
    return open_source(data), data.clip


@pytest.fixture(scope="module")
def somethings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_somethings(tmp_path_factory.mktemp("data") / "somethings", 6, size=64, processes=1)


@pytest.fixture(scope="module", autouse=True)
def short_videos() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("horst.synth.kitchen.videos.DURATION", (20.0, 24.0))
        yield


@pytest.fixture(scope="module")
def kitchen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_kitchen(tmp_path_factory.mktemp("data") / "kitchen", 2, size=(64, 114), processes=1)


def difference(a: np.ndarray, b: np.ndarray) -> float:
    assert a.shape == b.shape
    return float(np.abs(a.astype(int) - b.astype(int)).mean())


def test_somethings_files_equal_packed(somethings: Path, tmp_path: Path) -> None:
    """The same clips, labels, times and, except for compression, images."""
    source, clip = opened(somethings)
    packed, _ = opened(make_somethings(tmp_path / "packed", 6, size=64, packed=True, processes=1))
    assert source.annotations.classes == packed.annotations.classes
    assert source.annotations.mirror == packed.annotations.mirror != ()
    assert {e.id: e.labels for e in source.annotations.examples} == {
        e.id: e.labels for e in packed.annotations.examples
    }
    others = {e.id: e for e in packed.annotations.examples}
    for example in source.annotations.examples:
        a, b = source.read(example, clip), packed.read(others[example.id], clip)
        np.testing.assert_allclose(a.times, b.times, atol=1e-3)
        assert difference(a.frames, b.frames) < 6
        quarter = ClipConfig(size=(64, 64), fps=12, observe=0.25)
        assert len(source.read(example, quarter).frames) == -(-len(a.frames) // 4)


def test_kitchen_files_equal_packed(kitchen: Path, tmp_path: Path) -> None:
    source, clip = opened(kitchen)
    packed, _ = opened(make_kitchen(tmp_path / "packed", 2, size=(64, 114), packed=True, processes=1))
    folder = kitchen.parent / "annotations"
    official = read_epic(folder, kitchen.parent / "videos", version="ek100", files="official", name="kitchen")
    assert [(e.id, e.start_frame, dict(e.labels)) for e in official.examples] == [
        (e.id, e.start_frame, dict(e.labels)) for e in source.annotations.examples
    ]
    others = {e.id: e for e in packed.annotations.examples}
    assert list(others) == [e.id for e in source.annotations.examples]
    for example in source.annotations.examples[::3]:
        a, b = source.read(example, clip), packed.read(others[example.id], clip)
        assert a.frames.shape == (14, 64, 114, 3)
        observed = a.observed & b.observed
        assert difference(a.frames[observed], b.frames[observed]) < 6
    sets = source.annotations.example_sets
    assert sets["tail action"] == sets["tail verb"] | sets["tail noun"]


def test_packing_files(somethings: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A damaged file is skipped and reported; the rest equals the files."""
    source, clip = opened(somethings)
    copy = tmp_path / "copy"
    subprocess.run(["cp", "-r", str(somethings.parent), str(copy)], check=True)
    victim = source.annotations.examples[2]
    (copy / "videos" / victim.media.name).write_bytes(b"no video")
    assert main(["data", "pack", str(copy / "data.yaml"), str(tmp_path / "packed"), "--processes", "1"]) == 0
    assert f"left out: {victim.id}" in " ".join(capsys.readouterr().out.split())
    packed = Packed(tmp_path / "packed")
    assert [ident for ident, _ in packed.problems(clip)] == [victim.id]
    assert len(packed.annotations.examples) == 6
    lost = next(e for e in packed.annotations.examples if e.id == victim.id)
    with pytest.raises(DamagedVideoError, match="when it was packed"):
        packed.read(lost, clip)
    example = packed.annotations.examples[0]
    wanted = source.read(next(e for e in source.annotations.examples if e.id == example.id), clip)
    assert difference(packed.read(example, clip).frames, wanted.frames) < 5  # JPEG of small images
    (tmp_path / "packed" / "shard-00000.json").unlink()
    with pytest.raises(DataError, match="not complete: shard 0 of 1"):
        Packed(tmp_path / "packed")


def test_check(somethings: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "check", str(somethings), "--json", "--depth", "frames", "--processes", "1"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["ok"]
    assert sum(found["counts"].values()) == 6
    copy = tmp_path / "copy"
    subprocess.run(["cp", "-r", str(somethings.parent), str(copy)], check=True)
    videos = sorted((copy / "videos").iterdir())
    videos[0].unlink()
    data = videos[1].read_bytes()
    videos[1].write_bytes(data[: len(data) // 2])
    validation = copy / "annotations" / "validation.json"
    train = json.loads((copy / "annotations" / "train.json").read_text())
    validation.write_text(json.dumps([*json.loads(validation.read_text()), train[0]]))
    report = check_data(opened(copy / "data.yaml")[0], depth="frames", processes=1)
    assert report.missing == (str(videos[0]),)
    assert [path for path, _ in report.bad] == [str(videos[1])]
    assert f"clip {train[0]['id']}" in [what for what, _ in report.overlap]
    assert main(["data", "check", str(copy / "data.yaml"), "--depth", "frames", "--processes", "1"]) == 2
    assert "of 6 files, 1 missing, 1 damaged" in capsys.readouterr().err


def test_extract(kitchen: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Feature maps of a saved model's backbone."""
    model = create_model("horst_tiny", backbone={"name": "stem", "widths": [4, 6]}, hidden=(4,), stride=(1,)).eval()
    save(model, tmp_path / "model")
    folder = tmp_path / "maps"
    assert main(["extract", str(kitchen), str(folder), "--weights", str(tmp_path / "model")]) == 0
    assert "2 videos of part 0 of 1" in capsys.readouterr().out
    source, clip = opened(kitchen)
    maps = open_source(DataConfig.from_dict({"source": "features", "folder": str(folder)}))
    example = source.annotations.examples[5]
    found = maps.read(next(e for e in maps.annotations.examples if e.id == example.id), clip)
    frames = torch.from_numpy(source.read(example, clip).frames).permute(0, 3, 1, 2)
    wanted = model.backbone(frames).detach().numpy()
    np.testing.assert_allclose(found.frames, wanted, atol=2e-3, rtol=2e-3)
    assert main(["extract", str(kitchen), str(tmp_path / "other"), "--backbone", "bn_inception"]) == 2
    assert "random weights" in capsys.readouterr().err


@pytest.mark.parametrize("packed", [False, True])
def test_an_interrupted_run_is_continued(tmp_path: Path, packed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """After kills at any moment finished files are complete and stay, and a rerun adds the rest."""
    folder = tmp_path / "made"
    script = f"""
import horst.data.packed as packed_index
packed_index.CLIPS_PER_SHARD = 2
from horst.synth.make import make_somethings
make_somethings({str(folder)!r}, 12, size=48, packed={packed}, processes=1)
"""
    monkeypatch.setattr("horst.data.packed.CLIPS_PER_SHARD", 2)
    kept: dict[str, float] = {}
    for delay in (0.6, 1.0):
        process = subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.DEVNULL)
        time.sleep(delay)
        process.send_signal(signal.SIGKILL)
        process.wait()
        finished = [p for p in folder.rglob("*") if p.suffix in (".webm", ".jpgs") and not p.name.startswith(".")]
        for path in finished:
            if path.suffix == ".webm":
                with VideoFile(path) as video:
                    assert list(video.frames())
                    assert video.report.complete
        for name, changed in kept.items():
            assert os.stat(name).st_mtime == changed, "finished files are not written again"
        complete = [p for p in finished if p.suffix == ".webm" or p.with_suffix(".json").exists()]
        kept = {str(p): p.stat().st_mtime for p in complete}
    source, clip = opened(make_somethings(folder, 12, size=48, packed=packed, processes=1))
    assert len(source.annotations.examples) == 12
    for name, changed in kept.items():
        assert os.stat(name).st_mtime == changed
    for example in source.annotations.examples:
        assert len(source.read(example, clip).frames) > 10


def spec(**changes: Any) -> DatasetSpec:
    given = {"generator": "somethings", "count": 2, "seed": 0, "size": [16, 20], "packed": False}
    return DatasetSpec(**{**given, **changes})


@pytest.mark.parametrize("generator", ["somethings", "kitchen"])
def test_smallest_sizes(generator: str) -> None:
    least = SMALLEST[generator]
    made = spec(generator=generator, count=1, size=[least, least])
    assert made.size == (least, least)
    assert made.drawing == VERSIONS[generator] > 0
    assert spec(drawing=1).drawing == 1
    for size in ([least - 1, least], [least, least - 1], [least], [least] * 3, least, [least, float(least)]):
        with pytest.raises(ConfigError, match=f"integers from {least} on"):
            spec(generator=generator, size=size)


@pytest.mark.parametrize(("name", "good", "bad"), [("templates", [0, 2, 3], [-1, 1, 2.0]), ("seed", [0, 1], [-1, 0.5])])
def test_integer_options(name: str, good: list[Any], bad: list[Any]) -> None:
    for value in good:
        assert getattr(spec(**{name: value}), name) == value
    for value in bad:
        with pytest.raises(ConfigError, match=f"{name} is {value!r}"):
            spec(**{name: value})


def fill(folder: Path, videos: int) -> None:
    (folder / "videos").mkdir(exist_ok=True)
    for i in range(videos):
        (folder / "videos" / f"{i}.webm").touch()
    (folder / CONFIG).touch()


def test_a_folder_is_complete_when_it_has_all_files(tmp_path: Path) -> None:
    folder = tmp_path / "made"
    with claim(folder, spec()) as missing:
        assert missing
        assert json.loads((folder / MADE).read_text())["count"] == 2
    for videos, complete in ((1, False), (2, True)):
        fill(folder, videos)
        (folder / "videos" / ".hidden.partial").touch()
        with claim(folder, spec()) as missing:
            assert missing != complete
    (folder / "videos" / "2.webm").touch()  # too many
    with claim(folder, spec()) as missing:
        assert missing
    (folder / "videos" / "2.webm").unlink()
    (folder / CONFIG).unlink()
    with claim(folder, spec()) as missing:
        assert missing


def test_other_folders_are_not_touched(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").touch()
    for name, why in (("file", "is a file"), ("full", "is not empty")):
        with pytest.raises(DataError, match=why), claim(tmp_path / name, spec()):
            pass
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["thesis.txt"]
    with claim(tmp_path / "mine", spec()):
        pass
    with (
        pytest.raises(DataError, match=r"was made with seed 0 instead of 1: choose"),
        claim(tmp_path / "mine", spec(seed=1)),
    ):
        pass
    (tmp_path / "begun").mkdir()
    (tmp_path / "begun" / "x.partial").touch()  # left by a killed process
    with claim(tmp_path / "begun", spec()) as missing:
        assert missing
