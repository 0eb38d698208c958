"""EPIC-Kitchens in every layout: frames match the times of the clip, and no later frame is shown."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import fake_epic
import numpy as np
import pytest
from fake_epic import LAYOUTS, Layout, Version, time_in

from horst.backbones import create_backbone
from horst.cli import main
from horst.data.clips import Clip, ClipConfig
from horst.data.config import DataConfig
from horst.data.example import Example
from horst.data.extract import extract
from horst.data.features import open_features
from horst.data.packed import Packed, read_each, write_packed
from horst.data.source import Source, open_source
from horst.errors import DataError, MissingVideoError
from horst.video.sampling import SLACK

CLOSE = 1 / 60
"""Seconds by which the picture that is shown may differ from the one that a clip says it shows."""
EXACT = SLACK + 2e-4
"""What is kept to: a frame of a video counts as begun 1 ms early, and the pixels hold tenths of it."""
Made = Callable[[Version, Layout], DataConfig]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """A copy of a version in a layout, made once."""
    found: dict[tuple[Version, Layout], DataConfig] = {}

    def make(version: Version, layout: Layout) -> DataConfig:
        if (version, layout) not in found:
            root = tmp_path_factory.mktemp("epic")
            options = fake_epic.write(root, version, layout)
            found[version, layout] = DataConfig.from_dict({**options, "clip": {"size": [32, 32]}}, base=root)
        return found[version, layout]

    return make


def limits(example: Example, config: ClipConfig) -> np.ndarray[Any, Any]:
    assert example.start_frame is not None
    return (example.start_frame - 1) / 30 - np.arange(config.steps, 0, -1) * config.stride


def check_times(source: Source, config: ClipConfig) -> None:
    """For each clip: the times in the pixels are those of `Clip.times`, and mode strict shows nothing too late."""
    for example in source.annotations.examples:
        clip = source.read(example, config)
        assert isinstance(clip, Clip)
        pixels = np.array([time_in(image) for image in clip.frames])
        observed = clip.observed
        assert np.abs(pixels - clip.times)[observed].max() < EXACT < CLOSE
        allowed = limits(example, config)
        if config.mode == "strict":
            assert observed.tolist() == (allowed >= 0).tolist()
            assert (pixels[observed] <= allowed[observed] + EXACT).all()
        # a position shows the last frame before it: RULSTM counts at 30 a second, and videos have 29.97 or more
        late = allowed[allowed >= 0] - clip.times[allowed >= 0]
        assert late.min() > -1e-9
        assert late.max() < 1 / 30 + 1 / 29.97 + 1e-6


@pytest.mark.parametrize("mode", ["rulstm", "strict"])
@pytest.mark.parametrize(
    ("version", "layout"),
    [*(("ek55", layout) for layout in LAYOUTS), *(("ek100", layout) for layout in ("official tars", "videos"))],
)
def test_frames_match_the_times_of_the_clip(made: Made, version: Version, layout: Layout, mode: Any) -> None:
    data = made(version, layout)
    check_times(open_source(data), replace(data.clip, mode=mode))


@pytest.mark.parametrize("layout", ["rulstm folders", "flat"])
def test_frames_at_30_are_chosen_as_rulstm_does(made: Made, layout: Layout) -> None:
    """To the frame: the golden sampling is in tests/video/test_sampling.py."""
    data = made("ek55", layout)
    source = open_source(data)
    clip = source.read(source.annotations.examples[1], data.clip)
    wanted = [np.floor((fake_epic.STARTS[1] / 30 - tau) * 30) for tau in np.arange(14, 0, -1) * 0.25]
    assert [round(t * 30) + 1 for t in clip.times] == wanted


@pytest.mark.parametrize("layout", ["official tars", "videos"])
def test_features_and_packed_clips_keep_the_times(made: Made, tmp_path: Path, layout: Layout) -> None:
    """Also where the frame that was shown is not one of the 30 a second by which maps are found."""
    data = made("ek100", layout)
    source, config = open_source(data), replace(data.clip, mode="strict")
    extract(data, create_backbone("stem", widths=[2, 2]), tmp_path / "maps")
    render = _render(source, config)
    write_packed(tmp_path / "packed", source.annotations, render, fps=config.fps, clip=config, processes=1)
    packed = DataConfig.from_dict({"source": "packed", "folder": str(tmp_path / "packed"), "clip": {"size": [32, 32]}})
    extract(packed, create_backbone("stem", widths=[2, 2]), tmp_path / "of packed")
    stores = [open_features(tmp_path / "maps"), Packed(tmp_path / "packed"), open_features(tmp_path / "of packed")]
    assert stores[0].problems(config) == stores[2].problems(config) == []
    for example in source.annotations.examples:
        times = source.read(example, config).times
        for store in stores:
            found = next(e for e in store.annotations.examples if e.id == example.id)
            np.testing.assert_allclose(store.read(found, config).times, times, atol=1e-6)


def _render(source: Source, config: ClipConfig) -> Any:
    return lambda examples: read_each(source.read, config, examples)


def test_lmdb(tmp_path: Path) -> None:
    data = DataConfig.from_dict({**fake_epic.features(tmp_path, "ek55"), "clip": {"mode": "strict"}}, base=tmp_path)
    source = open_source(data)
    assert {example.media for example in source.annotations.examples} == {(tmp_path / "rgb" / "data.mdb").resolve()}
    for example in source.annotations.examples:
        clip = source.read(example, data.clip)
        np.testing.assert_allclose(clip.frames[clip.observed, 0, 0, 0], clip.times[clip.observed], atol=1e-6)
        assert (clip.times[clip.observed] <= limits(example, data.clip)[clip.observed] + 1e-9).all()


# What tells the rates apart


def config(root: Path, **options: Any) -> DataConfig:
    base = {"source": "epic", "version": "ek55", "annotations": "annotations", "media": "media"}
    return DataConfig.from_dict({**base, **options, "clip": {"size": [32, 32]}}, base=root)


@pytest.fixture
def only_first(tmp_path: Path) -> Path:
    """Annotations of P01_01 alone, whose frames the test puts below media."""
    fake_epic.annotations(tmp_path / "annotations", "ek55")
    (tmp_path / "annotations" / "validation.csv").unlink()
    path = tmp_path / "annotations" / "training.csv"
    path.write_text("".join(line for line in path.read_text().splitlines(keepends=True) if "P01_01" in line))
    return tmp_path


@pytest.mark.parametrize("layout", ["folder", "tar"])
def test_frames_of_a_video_need_the_option(only_first: Path, layout: str) -> None:
    """Nothing tells EPIC's own frames from those that someone extracted at 30 a second."""
    if layout == "tar":
        fake_epic.put_tar(only_first / "media" / "P01_01.tar", 60)
    else:
        fake_epic.put_folder(only_first / "media" / "P01_01", 60)
    with pytest.raises(DataError, match=r"P01_01.* Set the option frames: official .*native .*rulstm"):
        open_source(config(only_first))


def test_native_rates_need_the_video_info(only_first: Path) -> None:
    fake_epic.put_folder(only_first / "media" / "P01_01", 59.94)
    (only_first / "annotations" / "EPIC_video_info.csv").unlink()
    with pytest.raises(
        DataError, match=r"EPIC_video_info\.csv has no frame rate of P01_01.*https://github.com/epic-kitchens"
    ):
        open_source(config(only_first, frames="native"))
    open_source(config(only_first, frames="official"))  # has no need of it


def test_flat_frames_have_rulstms_rate(only_first: Path) -> None:
    fake_epic.put_folder(only_first / "media", 30, "P01_01_")
    with pytest.raises(DataError, match="are RULSTM's, at 30 fps"):
        open_source(config(only_first, frames="official"))


@pytest.mark.parametrize(
    ("said", "true", "seconds", "says"),
    [
        ("official", 30.0, 6, "fits 30 fps: set frames: rulstm"),
        ("rulstm", 60.0, 6, "fits 60 fps: set frames: official"),
        ("native", 30.0, 6, "fits 30 fps: set frames: rulstm"),
        ("rulstm", 45.0, 6, "the video has only 6.00 s: these are 45.00 fps"),
        ("official", 60_000 / 1001, 60, "fits 59.94.* fps: set frames: native"),
        ("native", 60.0, 60, "fits 60 fps: set frames: official"),
    ],
)
def test_a_count_that_contradicts_the_rate(
    only_first: Path, said: str, true: float, seconds: float, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The info file has the length of the video: 60 and 59.94 a second are told apart where it makes a difference."""
    info = only_first / "annotations" / "EPIC_video_info.csv"
    info.write_text(f"video,duration,fps\nP01_01,{seconds},59.94005994\n")
    folder = only_first / "media" / "P01_01"
    folder.mkdir(parents=True)
    (folder / "frame_0000000001.jpg").touch()
    (folder / f"frame_{round(true * seconds):010d}.jpg").touch()
    data = config(only_first, frames=said)
    source = open_source(data)
    with pytest.raises(DataError, match=says):
        source.read(source.annotations.examples[0], data.clip)
    written = {"source": data.source, **data.options}
    (only_first / "data.yaml").write_text(json.dumps(written))
    assert main(["data", "check", str(only_first / "data.yaml"), "--processes", "1", "--json"]) == 2
    ((_, why),) = json.loads(capsys.readouterr().out)["bad"]
    assert "fps" in why


def test_numbers_from_0_are_rejected(only_first: Path) -> None:
    fake_epic.put_folder(only_first / "media" / "P01_01", 60)
    shutil.copy(only_first / "media/P01_01/frame_0000000001.jpg", only_first / "media/P01_01/frame_0000000000.jpg")
    data = config(only_first, frames="official")
    source = open_source(data)
    with pytest.raises(DataError, match="has an image 0; such images are numbered from 1 on"):
        source.read(source.annotations.examples[0], data.clip)


def test_a_missing_frame_is_not_replaced(only_first: Path) -> None:
    fake_epic.put_folder(only_first / "media" / "P01_01", 60)
    data = config(only_first, frames="official")
    source = open_source(data)
    example = source.annotations.examples[0]
    shown = round(float(source.read(example, data.clip).times[-1]) * 60) + 1
    gone = only_first / "media" / "P01_01" / f"frame_{shown:010d}.jpg"
    gone.unlink()
    with pytest.raises(MissingVideoError, match=f"no frame {shown};"):
        source.read(source.annotations.examples[0], data.clip)


@pytest.mark.parametrize(
    ("version", "layout"), [("ek55", "flat"), ("ek55", "native tars"), ("ek100", "rulstm folders")]
)
def test_from_check_to_evaluation(tmp_path: Path, version: Version, layout: Layout) -> None:
    """As people go: data check, a training step, an evaluation."""
    options = fake_epic.write(tmp_path, version, layout)
    clip = {"size": [32, 32], "mode": "strict"}
    data = DataConfig.from_dict({**options, "clip": clip}, base=tmp_path).to_dict()
    (tmp_path / "data.yaml").write_text(json.dumps(data))
    model = {"name": "horst_tiny_anticipation", "options": {"hidden": [8], "stride": [1]}}
    run = {
        "name": "small",
        "model": model,
        "data": "data.yaml",
        "loss": {"steps": "anticipation"},
        "augment": {"operations": 0, "mirror": False},
        "batches": {"size": 4},
        "trainer": {"epochs": 1, "accelerator": "cpu", "devices": 1},
    }
    (tmp_path / "run.yaml").write_text(json.dumps(run))
    folder = str(tmp_path / "run")
    assert main(["data", "check", str(tmp_path / "data.yaml"), "--depth", "frames", "--processes", "1"]) == 0
    assert main(["train", str(tmp_path / "run.yaml"), "--folder", folder]) == 0
    assert main(["evaluate", folder, "--device", "cpu"]) == 0
    found = json.loads((tmp_path / "run/evaluation/val.json").read_text())
    assert found["counts"]["read"] == found["counts"]["examples"] > 0
    assert found["protocol"]["leaks"] == {}
