"""`horst extract` with an encoder of windows: its maps are those of the clips, or of the stream before an action."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import small_encoders
import torch
import videos
import yaml
from PIL import Image

from horst.backbones import WindowBackbone, create_backbone
from horst.cli import main
from horst.data.clips import Clip, ClipConfig, read_clip, read_frames, seen_frames
from horst.data.config import DataConfig
from horst.data.example import Example, SequenceTiming
from horst.data.extract import extract
from horst.data.features import ExtractedVideo, FeatureStore, open_features
from horst.data.packed import read_each, write_packed
from horst.data.source import open_source
from horst.data.windows import anticipation_windows, window_frames
from horst.errors import ConfigError
from horst.models import Predictor, create_model

SIDE, WINDOW = small_encoders.SIDE, small_encoders.WINDOW


def encoder(**options: Any) -> WindowBackbone:
    torch.manual_seed(0)
    backbone = create_backbone("vjepa2", **small_encoders.options("vjepa2"), **options)
    assert isinstance(backbone, WindowBackbone)
    return backbone


def maps_of(backbone: WindowBackbone, clip: Clip) -> np.ndarray[Any, Any]:
    """By the backbone, of the observed frames of a clip."""
    frames = torch.from_numpy(clip.frames[clip.observed]).permute(0, 3, 1, 2)
    with torch.inference_mode():
        return backbone.clip(frames.unsqueeze(0))[0][0].numpy()


@pytest.fixture
def data(tmp_path: Path) -> DataConfig:
    """Two videos with overlapping actions; the first of each starts early."""
    videos.clip(tmp_path / "a.mp4", frames=110, fps=10)
    videos.clip(tmp_path / "b.mp4", frames=40, fps=10)
    rows = ["a.mp4,train,take,0.5,2", "a.mp4,train,put,1.5,2.5", "a.mp4,val,take,6,7", "a.mp4,val,put,6.25,7.5"]
    rows += ["b.mp4,train,put,2,3.5", "b.mp4,val,take,2,3.5"]
    (tmp_path / "actions.csv").write_text("\n".join(["path,split,label,start,end", *rows]) + "\n")
    clip = ClipConfig(size=(SIDE, SIDE), fps=10, steps=3)
    return DataConfig(source="csv", options={"path": str(tmp_path / "actions.csv")}, clip=clip)


@pytest.mark.parametrize("stride", [1, 3])
def test_a_clip_begins_a_window(data: DataConfig, tmp_path: Path, stride: int) -> None:
    """Of overlapping clips too: the same frame has another map in each. Any batch gives the same."""
    for batch in (2, 16):
        assert extract(data, encoder(stride=stride), tmp_path / f"store{batch}", batch=batch).bad == ()
    features, originals = open_features(tmp_path / "store2"), open_source(data).annotations.examples
    for original, stored in zip(originals, features.annotations.examples, strict=True):
        found, clip = features.read(stored, data.clip), read_clip(original, "recognition", data.clip)
        np.testing.assert_allclose(found.times, clip.times, atol=2e-6)
        np.testing.assert_allclose(found.frames, maps_of(encoder(stride=stride), clip), rtol=2**-10, atol=1e-3)
        again = open_features(tmp_path / "store16").read(stored, data.clip)
        np.testing.assert_allclose(found.frames, again.frames, rtol=2**-9, atol=1e-3)


def test_whole_videos_and_the_trained_model_live(data: DataConfig, tmp_path: Path) -> None:
    """A model on extracted maps is the model with the encoder before it, as the guide joins them."""
    rows = "path,split,label,start,end\na.mp4,train,take,0.5,2\na.mp4,train,put,1.5,2.5\n"
    (tmp_path / "long.csv").write_text(rows)
    online = replace(data, options={"path": str(tmp_path / "long.csv"), "task": "detection"})
    extract(online, encoder(), tmp_path / "store", batch=7)
    features = open_features(tmp_path / "store")
    example = features.annotations.examples[0]
    maps = torch.from_numpy(features.read(example, online.clip).frames).float()
    torch.manual_seed(1)
    sizes = {"hidden": [6], "stride": [1], "order": 2, "num_classes": 3}
    trained = create_model("horst_tiny", backbone={"name": "maps", "channels": 24}, size=(2, 2), **sizes).eval()
    live = Predictor(encoder(), trained.core, trained.head, size=(SIDE, SIDE), fps=trained.fps).eval()
    frames = torch.from_numpy(read_clip(open_source(online).annotations.examples[0], "recognition", online.clip).frames)
    with torch.inference_mode():
        wanted = trained(maps.unsqueeze(0))[0].logits.action
        found = live(frames.permute(0, 3, 1, 2).unsqueeze(0))[0].logits.action
    assert len(frames) == 110
    torch.testing.assert_close(found, wanted, rtol=1e-2, atol=1e-2)


def action(start_frame: int, media: Path) -> Example:
    return Example(
        id=str(start_frame),
        media=media,
        video="v",
        split="val",
        start=(start_frame - 1) / 30,
        start_frame=start_frame,
        labels={"action": 0},
        timing=SequenceTiming(fps=30, first=1),
    )


def test_before_an_action_windows_reach_back(data: DataConfig, tmp_path: Path) -> None:
    """The encoder's own pass over frames 0.25 s apart, up to the start of the video."""
    anticipation = replace(data, options={**data.options, "task": "anticipation"})
    assert extract(anticipation, encoder(), tmp_path / "store", batch=2).bad == ()
    features, originals = open_features(tmp_path / "store"), open_source(anticipation).annotations.examples
    repeated = set()
    for original, stored in zip(originals, features.annotations.examples, strict=True):
        found = features.read(stored, data.clip)
        for number, maps in zip(seen_frames(original, data.clip).tolist(), found.frames, strict=True):
            numbers = [n for n in (int((number - 7.5 * j) // 1) for j in range(WINDOW - 1, -1, -1)) if n >= 1]
            images = [image for *_, image in read_frames(original, numbers, data.clip.size)]
            repeated.add(WINDOW - len(images))
            clip = torch.from_numpy(np.stack(images)).permute(0, 3, 1, 2)
            with torch.inference_mode():
                wanted = encoder().clip(clip.unsqueeze(0))[0][0, -1].numpy()
            np.testing.assert_allclose(maps, wanted, rtol=2**-10, atol=1e-3)
    assert {0, WINDOW - 1} <= repeated  # complete windows, and those of first frames
    numbers = FeatureStore(tmp_path / "store").video("a.mp4").numbers.tolist()
    assert len(numbers) == len(set(numbers))


def test_a_window_has_its_frames_at_the_distance_of_positions() -> None:
    assert window_frames(60, 4, 0.25) == [37, 45, 52, 60]
    assert window_frames(9, 4, 0.25) == [1, 1, 1, 9]
    assert window_frames(5, 4, 0.25) == [5, 5, 5, 5]


def test_a_damaged_frame_of_a_window_is_named(tmp_path: Path) -> None:
    """The second action has it in windows only; the third has it in none."""
    folder = tmp_path / "v"
    folder.mkdir()
    for n in range(1, 121):
        Image.fromarray(videos.picture(n % 50, 12, 16)).save(folder / f"frame_{n:010d}.jpg")
    config, actions = ClipConfig(size=(12, 16), steps=2), [action(start, folder) for start in (30, 70, 110)]
    positions = [seen_frames(one, config).tolist() for one in actions]
    damaged = window_frames(positions[1][0], WINDOW, config.stride)[0]
    assert damaged not in positions[1]
    (folder / f"frame_{damaged:010d}.jpg").write_bytes(b"no picture")
    video = ExtractedVideo()
    found = list(anticipation_windows(config, WINDOW, actions, video))
    assert [(ident, str(damaged) in why) for _, ident, why in video.bad] == [("70", True)]
    assert [number for number, _ in found if number not in positions[1]] == positions[0] + positions[2]
    assert {len(images) for _, images in found} == {WINDOW}


def test_stride_is_not_for_anticipation(data: DataConfig, tmp_path: Path) -> None:
    anticipation = replace(data, options={**data.options, "task": "anticipation"})
    with pytest.raises(ConfigError, match=r"stride of VJEPA2 is 2; .*leave stride out"):
        extract(anticipation, encoder(stride=2), tmp_path / "store")


def test_packed_clips_have_nothing_before_them(data: DataConfig, tmp_path: Path) -> None:
    anticipation = replace(data, options={**data.options, "task": "anticipation"})
    source = open_source(anticipation)
    write_packed(
        tmp_path / "packed", source.annotations, lambda es: read_each(source.read, data.clip, es), fps=30, processes=1
    )
    packed = replace(anticipation, source="packed", options={"folder": str(tmp_path / "packed")})
    with pytest.raises(ConfigError, match="extract from the videos"):
        extract(packed, encoder(), tmp_path / "store")


def test_the_command(data: DataConfig, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small_encoders.save("videomae", tmp_path / "encoder")
    clip = {"fps": 5}  # without a size: the encoder's own
    (tmp_path / "data.yaml").write_text(yaml.safe_dump({"source": "csv", **data.options, "clip": clip}))
    command = ["extract", str(tmp_path / "data.yaml"), str(tmp_path / "store"), "--backbone", "videomae", "--options"]
    assert main([*command, f"{{pretrained: {tmp_path / 'encoder'}, stride: 2, grid: [1, 1]}}"]) == 0
    assert open_features(tmp_path / "store").map == (24, 1, 1)
    assert FeatureStore(tmp_path / "store").index["clip"]["size"] == [SIDE, SIDE]
    assert main([*command, "{config: {}}"]) != 0
    assert "random weights" in capsys.readouterr().err
