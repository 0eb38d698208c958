"""Feature stores match the backbone on the frames, also after kills and in parts."""

from __future__ import annotations

import json
import pickle
import shutil
import subprocess
import sys
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
import videos
from PIL import Image

from horst.backbones import Backbone, create_backbone
from horst.data.clips import Clip, ClipConfig, read_clip
from horst.data.config import DataConfig
from horst.data.example import Annotations, Example
from horst.data.extract import extract
from horst.data.features import FeatureStore, open_features
from horst.data.packed import read_each, write_packed
from horst.data.readers.rulstm import RulstmFeatures, read_rulstm
from horst.data.source import open_source
from horst.errors import ConfigError, DamagedVideoError, DataError, InputError, MissingExtraError, MissingVideoError
from horst.video.encode import write_video

SIZE = (24, 32)


def backbone(seed: int = 0, widths: tuple[int, ...] = (4, 6)) -> Backbone:
    torch.manual_seed(seed)
    return create_backbone("stem", widths=list(widths))


def picture(video: int, number: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Another picture for every frame of every video."""
    coarse = np.random.default_rng([video, number]).integers(0, 256, (4, 4, 3), np.uint8)
    return coarse.repeat(12, 0).repeat(16, 1)


@pytest.fixture(scope="module")
def epic(tmp_path_factory: pytest.TempPathFactory) -> DataConfig:
    """Five kitchens: three videos, one long gap in the second; a folder of frames; and one that is no video."""
    root = tmp_path_factory.mktemp("epic")
    rows = {
        "training": [("P01_01", 40), ("P01_01", 115), ("P01_01", 150), ("P01_02", 130), ("P01_02", 560), ("P02_01", 3)],
        "validation": [("P02_01", 120), ("P02_02", 121), ("P02_02", 140), ("P03_01", 200), ("P03_01", 240)],
    }
    uid = 0
    for name, segments in rows.items():
        text = ""
        for video, start in segments:
            text += f"{uid}, {video}, {start}, {start + 30}, {uid % 2}, 0, {uid % 2}\n"
            uid += 1
        (root / f"{name}.csv").write_text(text)
    (root / "actions.csv").write_text("id,action,verb,noun\n0,take_tap,0,0\n1,put_tap,1,0\n")
    (root / "EPIC_verb_classes.csv").write_text("verb_id,class_key\n0,take\n1,put\n")
    (root / "EPIC_noun_classes.csv").write_text("noun_id,class_key\n0,tap\n")
    media = root / "media"
    for i, (name, frames) in enumerate((("P01_01", 160), ("P01_02", 570), ("P02_01", 130))):
        (media / name[:3]).mkdir(parents=True, exist_ok=True)
        write_video(media / name[:3] / f"{name}.mp4", (picture(i, n) for n in range(frames)), 30)
    (media / "P02" / "P02_02").mkdir()
    for n in range(1, 141):
        Image.fromarray(picture(9, n)).save(media / "P02" / "P02_02" / f"frame_{n:010d}.jpg")
    damaged = media / "P02" / "P02_02" / "frame_0000000132.jpg"
    damaged.write_bytes(damaged.read_bytes()[:-100])
    (media / "P03_01.mp4").write_bytes(b"not a video" * 100)
    options = {"annotations": str(root), "media": str(media), "frames": "rulstm"}
    return DataConfig(source="epic", options=options, clip=ClipConfig(size=SIZE))


@pytest.fixture(scope="module")
def store(epic: DataConfig, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("store")
    report = extract(epic, backbone(), folder, batch=8)
    assert report.videos == 5
    assert [ident for ident, _ in report.bad] == ["8", "9", "10"]
    return folder


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def assert_same(found: Clip, clip: Clip) -> None:
    """The features of a clip are what the backbone makes of its frames, in half precision."""
    np.testing.assert_allclose(found.times, clip.times, atol=1e-6)
    np.testing.assert_array_equal(found.observed, clip.observed)
    assert found.frames.dtype == np.float16
    with torch.inference_mode():
        wanted = backbone().eval()(torch.from_numpy(clip.frames).permute(0, 3, 1, 2)).numpy()
    wanted[~clip.observed] = 0
    np.testing.assert_allclose(found.frames, wanted, rtol=2**-10, atol=1e-5)


@pytest.mark.parametrize("mode", ["rulstm", "strict"])
@pytest.mark.parametrize("options", [{}, {"steps": 7, "stride": 0.5}])
def test_anticipation(epic: DataConfig, store: Path, mode: Any, options: dict[str, Any]) -> None:
    """The backbone on the frames of `read_clip`, example by example; unobserved positions are zeros and marked."""
    features, source = open_features(store), open_source(epic)
    config = ClipConfig(size=SIZE, mode=mode, **options)
    unobserved = 0
    for original, stored in zip(source.annotations.examples, features.annotations.examples, strict=True):
        assert replace(stored, media=original.media) == original
        if original.id in ("5", "8", "9", "10"):
            continue
        found = features.read(stored, config)
        assert found.frames.shape == (config.steps, 6, 6, 8)
        assert_same(found, read_clip(original, "anticipation", config))
        unobserved += int((~found.observed).sum())
    assert (unobserved > 0) == (mode == "strict")


def test_examples_that_cannot_be_read_are_listed(epic: DataConfig, store: Path) -> None:
    features = open_features(store)
    examples = {e.id: e for e in features.annotations.examples}
    assert len(examples) == 11  # the bad ones too: nobody's denominator shrinks
    assert dict(features.problems(ClipConfig())).keys() == {"8", "9", "10"}
    for ident, says in (("8", "frame 132: the image does not decode"), ("9", "finds no video"), ("10", "no video")):
        with pytest.raises(DamagedVideoError, match=rf"example {ident}: when features were extracted: .*{says}"):
            features.read(examples[ident], epic.clip)
    with pytest.raises(InputError, match="too early for a frame"):  # as `read_clip` says
        features.read(examples["5"], epic.clip)
    with pytest.raises(DataError, match=r"frame \d+ of P01_01 is not stored; .*'steps': 14"):
        features.read(examples["1"], ClipConfig(stride=0.3))
    with pytest.raises(DataError, match="no video 'P99'"):
        features.read(replace(examples["1"], video="P99"), epic.clip)
    assert "finds no video" in (store / "000004.bad").read_text()


@pytest.mark.parametrize("layout", ["flat", "tar"])
def test_other_layouts_of_frames(epic: DataConfig, tmp_path: Path, layout: str) -> None:
    frames = sorted((Path(epic.options["media"]) / "P02" / "P02_02").iterdir())
    (tmp_path / "media").mkdir()
    if layout == "tar":
        with tarfile.open(tmp_path / "media" / "P02_02.tar", "w") as tar:
            for path in frames:
                tar.add(path, f"./{path.name}")
    else:
        for path in frames:
            shutil.copy(path, tmp_path / "media" / f"P02_02_{path.name}")
            shutil.copy(frames[0], tmp_path / "media" / f"P09_09_{path.name}")
    shutil.copytree(epic.options["annotations"], tmp_path / "csv", ignore=shutil.ignore_patterns("media"))
    (tmp_path / "csv" / "training.csv").unlink()
    (tmp_path / "csv" / "validation.csv").write_text("7, P02_02, 121, 150, 1, 0, 1\n8, P02_02, 140, 150, 0, 0, 0\n")
    options = {"annotations": str(tmp_path / "csv"), "media": str(tmp_path / "media"), "frames": "rulstm"}
    config = replace(epic, options=options)
    report = extract(config, backbone(), tmp_path / "store")
    assert [ident for ident, _ in report.bad] == ["8"]
    features, original = open_features(tmp_path / "store"), open_source(config).annotations.examples[0]
    clip = read_clip(original, "anticipation", epic.clip)
    assert_same(features.read(features.annotations.examples[0], epic.clip), clip)


def test_a_bad_video_is_tried_again(tmp_path: Path) -> None:
    clip = tmp_path / "clips" / "train" / "a" / "a.mp4"
    clip.parent.mkdir(parents=True)
    clip.touch()
    videos.clip(clip.with_name("b.mp4"))
    config = DataConfig(source="folder", options={"root": str(tmp_path / "clips")}, clip=ClipConfig(size=SIZE))
    report = extract(config, backbone(), tmp_path / "store")
    assert report.bad == (("train/a/a.mp4", f"{clip}: the file is empty"),)
    before = (tmp_path / "store" / "000001.maps").stat()
    videos.clip(clip)
    assert extract(config, backbone(), tmp_path / "store").bad == ()
    assert open_features(tmp_path / "store").problems(ClipConfig()) == []
    assert (tmp_path / "store" / "000001.maps").stat().st_mtime_ns == before.st_mtime_ns
    assert len(files(tmp_path / "store")) == 3


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> DataConfig:
    """Recognition: whole clips, actions that overlap in one video, frames that repeat at the store's rate."""
    root = tmp_path_factory.mktemp("own")
    videos.clip(root / "a.webm", frames=29, fps=12)
    videos.with_times(root / "b.mp4", [0, 0.1, 0.4, 0.45, 0.9, 1.4, 1.5, 1.6, 2.0])
    rows = "a.webm,train,x,,\na.webm,val,x,0.5,1.75\na.webm,train,y,1,2.2\nb.mp4,train,y,0.2,1.9\n"
    (root / "clips.csv").write_text("path,split,label,start,end\n" + rows)
    return DataConfig(source="csv", options={"path": str(root / "clips.csv")}, clip=ClipConfig(size=SIZE, fps=24))


@pytest.mark.parametrize("fps", [24, 12, 8.0])
@pytest.mark.parametrize("observe", [1.0, 0.25, 0.5])
def test_recognition(own: DataConfig, tmp_path: Path, fps: float, observe: float) -> None:
    assert extract(replace(own, clip=replace(own.clip, observe=0.1)), backbone(), tmp_path / "store").bad == ()
    features, config = open_features(tmp_path / "store"), replace(own.clip, fps=fps, observe=observe)
    originals = open_source(own).annotations.examples
    for original, stored in zip(originals, features.annotations.examples, strict=True):
        assert_same(features.read(stored, config), read_clip(original, "recognition", config))
    numbers = FeatureStore(tmp_path / "store").video("a.webm").numbers
    assert len(numbers) == len(set(numbers.tolist())) == 29  # each frame once, however many clips show it
    for other in (7, 48):
        with pytest.raises(DataError, match=f"24 fps, which is no multiple of {other}"):
            features.read(features.annotations.examples[0], replace(config, fps=other))


def test_cells_and_differences(own: DataConfig, tmp_path: Path) -> None:
    """Maps averaged over a grid, and differences to those 0.25 s before, which are computed at the stored rate."""
    extract(own, backbone(), tmp_path / "maps")
    plain = FeatureStore(tmp_path / "maps")
    changed = open_features(tmp_path / "maps", grid=(3, 2), difference=0.25)
    several = open_features(tmp_path / "maps", grid=(3, 2), difference=[0.5, 0.25])
    channels, height, width = plain.map
    assert changed.map == (2 * channels, 3, 2)
    assert several.map == (3 * channels, 3, 2)
    lag = round(0.25 * plain.fps)
    config = ClipConfig(size=SIZE, fps=plain.fps / 2)
    for example in plain.annotations.examples:
        all_maps = plain.read(example, replace(config, fps=plain.fps)).frames.astype(np.float64)
        cells = all_maps.reshape(len(all_maps), channels, 3, height // 3, 2, width // 2).mean((3, 5))
        before = cells[np.maximum(np.arange(len(cells)) - lag, 0)]
        wanted = np.concatenate([cells, cells - before], 1)[::2]
        found = changed.read(example, config)
        np.testing.assert_allclose(found.frames, wanted, atol=5e-3, rtol=5e-3)
        earlier = cells[np.maximum(np.arange(len(cells)) - round(0.5 * plain.fps), 0)]
        both = np.concatenate([cells, cells - earlier, cells - before], 1)[::2]
        np.testing.assert_allclose(several.read(example, config).frames, both, atol=5e-3, rtol=5e-3)
        assert found.times.tolist() == plain.read(example, config).times.tolist()
    with pytest.raises(ConfigError, match="the time between its frames"):
        open_features(tmp_path / "maps", difference=[0.5, 0.1 / plain.fps])
    with pytest.raises(ConfigError, match="cannot be averaged"):
        open_features(tmp_path / "maps", grid=(height + 1, 2))


def test_cells_are_for_clips(store: Path) -> None:
    with pytest.raises(ConfigError, match="recognition and whole videos"):
        FeatureStore(store, difference=0.5)


def test_features_of_packed_data(epic: DataConfig, tmp_path: Path) -> None:
    """A machine without FFmpeg extracts from packed clips."""
    source = open_source(epic)
    good = tuple(e for e in source.annotations.examples if e.id not in ("5", "8", "9", "10"))
    render = partial(read_each, source.read, epic.clip)
    write_packed(tmp_path / "packed", replace(source.annotations, examples=good), render, fps=30, processes=1)
    packed = replace(epic, source="packed", options={"folder": str(tmp_path / "packed")})
    extract(packed, backbone(), tmp_path / "store")
    features, source = open_features(tmp_path / "store"), open_source(packed)
    for original, stored in zip(source.annotations.examples, features.annotations.examples, strict=True):
        assert_same(features.read(stored, epic.clip), source.read(original, epic.clip))


def test_parts_make_the_complete_store(epic: DataConfig, store: Path, tmp_path: Path) -> None:
    reports = [extract(epic, backbone(), tmp_path, part=0, parts=2, batch=8)]
    with pytest.raises(DataError, match=r"not complete: 2 of 5 videos are missing, such as P01_02; run horst extract"):
        open_features(tmp_path)
    reports.append(extract(epic, backbone(), tmp_path, part=1, parts=2, batch=8))
    assert [r.videos for r in reports] == [3, 2]
    assert sorted(ident for r in reports for ident, _ in r.bad) == ["10", "8", "9"]
    assert files(tmp_path) == files(store)


def test_a_folder_of_other_features_is_rejected(epic: DataConfig, store: Path, tmp_path: Path) -> None:
    before = files(store)
    cases: list[tuple[Callable[[], Any], str]] = [
        (lambda: extract(epic, backbone(widths=(4, 8)), store), "backbone differs ..*'widths': \\[4, 6\\]"),
        (lambda: extract(epic, backbone(seed=1), store), "backbone differs ..*'weights'"),
        (lambda: extract(replace(epic, clip=ClipConfig()), backbone(), store), "map differs"),
        (lambda: extract(replace(epic, clip=ClipConfig(size=SIZE, stride=0.5)), backbone(), store), "clip differs"),
    ]
    for attempt, says in cases:
        with pytest.raises(DataError, match=f"is another feature store: {says}"):
            attempt()
    assert files(store) == before
    (tmp_path / "notes.txt").touch()
    with pytest.raises(DataError, match="is not empty and is no feature store"):
        extract(epic, backbone(), tmp_path)
    with pytest.raises(ConfigError, match="part is 2 of 2"):
        extract(epic, backbone(), tmp_path, part=2, parts=2)
    (tmp_path / "index.json").write_text('{"format": 1}')
    with pytest.raises(DataError, match="no feature store of this version"):
        open_features(tmp_path)


def test_damaged_stores(epic: DataConfig, store: Path, tmp_path: Path) -> None:
    tmp_path = shutil.copytree(store, tmp_path / "store")
    maps = tmp_path / "000000.maps"
    data = maps.read_bytes()
    for broken in (b"", data[:-1], data[100:], data[:1000]):
        maps.write_bytes(broken)
        features = open_features(tmp_path)
        with pytest.raises(DataError, match=r"000000\.maps is damaged .*: delete it and extract again"):
            features.read(features.annotations.examples[0], epic.clip)
    maps.unlink()
    extract(epic, backbone(), tmp_path, batch=8)
    assert maps.read_bytes() == data


def test_values_beyond_half_precision(own: DataConfig, tmp_path: Path) -> None:
    network = backbone()
    torch.nn.init.constant_(network.stages[-1][1].weight, 1e6)  # type: ignore[index, arg-type]
    with pytest.raises(DataError, match="not finite in half precision"):
        extract(own, network, tmp_path)


KILLED = """
import os, pickle, random, signal, sys, time
import torch
from horst.backbones import create_backbone
from horst.data.extract import extract
import horst.video.decode

config, folder = pickle.loads(bytes.fromhex(sys.argv[1])), sys.argv[2]
torch.set_num_threads(1)
torch.manual_seed(0)
network = create_backbone("stem", widths=[4, 6])
network.register_forward_hook(lambda *_: time.sleep(0.01))
draw, kills = random.Random(3), 0
for attempt in range(100):
    child = os.fork()
    if not child:
        extract(config, network, folder, batch=8)
        os._exit(0)
    time.sleep(draw.uniform(0.0, 0.1 + 0.1 * attempt))
    if os.waitpid(child, os.WNOHANG)[0]:
        break
    os.kill(child, signal.SIGKILL)
    kills += os.WIFSIGNALED(os.waitpid(child, 0)[1])
print(kills)
"""


@pytest.mark.slow
def test_kills_lose_nothing(epic: DataConfig, store: Path, tmp_path: Path) -> None:
    """kill -9 at random moments, again and again, until one run gets through: the store is as without."""
    command = [sys.executable, "-c", KILLED, pickle.dumps(epic).hex(), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert int(done.stdout.split()[-1]) >= 3
    assert files(tmp_path) == files(store)  # and nothing is left lying about


def segments(*starts: int) -> Annotations:
    examples = tuple(
        Example(id=str(s), split="train", media=Path("P01_01"), labels={}, start_frame=s, video="P01_01")
        for s in starts
    )
    return Annotations(name="epic", task="anticipation", examples=examples, classes={})


def vector(number: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    return np.random.default_rng(number).normal(size=1024).astype(np.float32)


@pytest.fixture(params=["folder", "file"])
def public(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    path = tmp_path / ("rgb" if request.param == "folder" else "rgb.mdb")
    with lmdb.open(str(path), map_size=2**24, subdir=request.param == "folder") as env, env.begin(write=True) as put:
        for number in range(1, 151):
            put.put(f"P01_01_frame_{number:010d}.jpg".encode(), vector(number).tobytes())
        put.put(b"P01_01_frame_0000000151.jpg", b"1234")
    return path


def first_of(features: RulstmFeatures) -> Any:
    return features.read(features.annotations.examples[0], ClipConfig()).frames[-1, :, 0, 0]


def test_public_lmdb(public: Path) -> None:
    features = RulstmFeatures(segments(120, 60, 159, 170), public)
    first, early, odd, late = features.annotations.examples
    clip = features.read(first, ClipConfig())
    assert clip.frames.shape == (14, 1024, 1, 1)
    assert clip.frames.dtype == np.float32
    numbers = np.rint(clip.times * 30).astype(int) + 1
    np.testing.assert_array_equal(clip.frames[..., 0, 0], np.stack([vector(n) for n in numbers]))
    assert 112 <= numbers[-1] <= 113
    strict = features.read(early, ClipConfig(mode="strict"))
    assert list(strict.observed) == [False] * 7 + [True] * 7
    assert not strict.frames[:7].any()
    assert strict.frames[7:].any(axis=(1, 2, 3)).all()
    assert features.read(early, ClipConfig()).observed.all()
    with pytest.raises(DataError, match=r"frame_0000000151\.jpg has 4 bytes, not 1024 numbers"):
        features.read(odd, ClipConfig())
    with pytest.raises(MissingVideoError, match=r"there is no key P01_01_frame_0000000155\.jpg"):
        features.read(late, ClipConfig())
    with pytest.raises(DataError, match="does not name its video"):
        features.read(replace(first, video=""), ClipConfig())
    again = RulstmFeatures(segments(120), public)  # two readers of one file in one process
    np.testing.assert_array_equal(first_of(again), first_of(features))
    loader = torch.utils.data.DataLoader(
        [0, 1], num_workers=2, collate_fn=Collate(features), multiprocessing_context="fork"
    )
    for value in loader:
        np.testing.assert_array_equal(value, first_of(features))
    np.testing.assert_array_equal(first_of(pickle.loads(pickle.dumps(features))), first_of(features))


class Collate:
    def __init__(self, features: RulstmFeatures) -> None:
        self.features = features

    def __call__(self, _: Any) -> Any:
        return first_of(self.features)


def test_a_missing_lmdb(epic: DataConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DataError, match="there is no such LMDB"):
        read_rulstm(epic.options["annotations"], tmp_path / "nowhere")
    (tmp_path / "text").write_text("text")
    with pytest.raises(DataError, match="cannot be read as LMDB"):
        first_of(read_rulstm(epic.options["annotations"], tmp_path / "text"))
    with pytest.raises(DataError, match="is for recognition"):
        RulstmFeatures(replace(segments(100), task="recognition"), tmp_path)
    monkeypatch.setitem(sys.modules, "lmdb", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'horst-video\[lmdb\]'"):
        RulstmFeatures(segments(100), tmp_path)


def test_the_index_names_the_backbone(store: Path) -> None:
    index = json.loads((store / "index.json").read_text())
    assert index["backbone"]["name"] == "stem"
    assert (index["map"], index["dtype"]) == ([6, 6, 8], "float16")
    assert index["clip"] == {"size": [24, 32], "steps": 14, "stride": 0.25}
    assert index["videos"] == ["P01_01", "P01_02", "P02_01", "P02_02", "P03_01"]
