"""Packed sets and feature stores: other settings are rejected, damage is named, a full disk is safe."""

from __future__ import annotations

import copy
import json
import random
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import small_runs
import videos
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from horst.backbones import BNInception, create_backbone
from horst.data.batches import ClipDataset
from horst.data.clips import ClipConfig, read_clip
from horst.data.config import DataConfig
from horst.data.extract import extract
from horst.data.features import open_features
from horst.data.packed import Packed, read_each, write_packed
from horst.data.source import Source, open_source
from horst.errors import ConfigError, DataError, HorstError, InputError
from horst.io import decode_checked, encode_checked, read_checked
from horst.training.fit import prepare

CLIP = ClipConfig(size=(24, 32), fps=6)
BEFORE = ClipConfig(size=(24, 32), steps=6, stride=0.25, mode="strict")


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("stored")
    videos.clip(root / "a.mp4", frames=50, fps=30)
    videos.clip(root / "b.mp4", frames=30, fps=30)
    rows = "a.mp4,train,x,0.9,1.5\na.mp4,train,y,1.5,1.6\nb.mp4,val,x,0.8,0.9\n"
    (root / "clips.csv").write_text("path,split,label,start,end\n" + rows)
    return root / "clips.csv"


def config(table: Path, task: str, clip: ClipConfig) -> DataConfig:
    return DataConfig(source="csv", options={"path": str(table), "task": task}, clip=clip)


@pytest.fixture(scope="module", params=["recognition", "anticipation"])
def stored(request: pytest.FixtureRequest, table: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One shard of three clips."""
    clip = CLIP if request.param == "recognition" else BEFORE
    source = open_source(config(table, request.param, clip))
    folder = tmp_path_factory.mktemp(request.param) / "packed"
    write_packed(
        folder, source.annotations, partial(read_each, source.read, clip), fps=clip.fps, clip=clip, processes=1
    )
    return folder


def read_all(kind: Callable[[Path], Source], folder: Path, clip: ClipConfig) -> None:
    opened = kind(folder)
    for example in opened.annotations.examples:
        opened.read(example, clip)


@pytest.mark.parametrize("mode", ["strict", "rulstm"])
@pytest.mark.parametrize("options", [{}, {"steps": 3}, {"steps": 3, "stride": 0.5}, {"steps": 1, "stride": 1.5}])
def test_packed_anticipation_matches_the_videos(
    table: Path, tmp_path: Path, mode: Any, options: dict[str, Any]
) -> None:
    """Position by position, with any steps and stride that the stored ones hold; before the video by mode."""
    source = open_source(config(table, "anticipation", BEFORE))
    write_packed(
        tmp_path / "p", source.annotations, partial(read_each, source.read, BEFORE), fps=4, clip=BEFORE, processes=1
    )
    packed, clip = Packed(tmp_path / "p"), replace(BEFORE, mode=mode, **options)
    unobserved = 0
    for original, example in zip(source.annotations.examples, packed.annotations.examples, strict=True):
        try:
            wanted = read_clip(original, "anticipation", clip)
        except InputError:  # nothing comes before it
            with pytest.raises(InputError):
                packed.read(example, clip)
            continue
        found = packed.read(example, clip)
        np.testing.assert_allclose(found.times, wanted.times, atol=1e-5)
        unobserved += int(np.isnan(found.times).sum())
        for one, other, seen in zip(found.frames, wanted.frames, found.observed, strict=True):
            assert not seen or videos.number_of(one) == videos.number_of(other)
    if options.get("stride") != 1.5 and options.get("steps") != 3:
        assert (unobserved > 0) == (mode == "strict")


@pytest.mark.parametrize("options", [{"stride": 0.3}, {"steps": 7}, {"stride": 0.125}, {"steps": 12, "stride": 0.5}])
def test_packed_anticipation_rejects_other_positions(table: Path, tmp_path: Path, options: dict[str, Any]) -> None:
    source = open_source(config(table, "anticipation", BEFORE))
    write_packed(
        tmp_path / "p", source.annotations, partial(read_each, source.read, BEFORE), fps=4, clip=BEFORE, processes=1
    )
    packed, clip = Packed(tmp_path / "p"), replace(BEFORE, **options)
    late = packed.annotations.examples[1]
    if "steps" in options:  # more of the past than is stored, though the video has it
        clip = replace(clip, mode="rulstm")
        packed.clip = replace(BEFORE, steps=4)
        packed._clips = {
            key: s._replace(offsets=s.offsets[2:], times=s.times[2:], checksums=s.checksums[2:])
            for key, s in packed._clips.items()
        }
    with pytest.raises(
        ConfigError, match=r"packed with clip\.steps \d and clip\.stride 0\.25, and has no frame \d+ .*need"
    ):
        packed.read(late, clip)


def test_packed_recognition_rejects_other_rates_and_larger_frames(table: Path, tmp_path: Path) -> None:
    source = open_source(config(table, "recognition", CLIP))
    render = partial(read_each, source.read, CLIP)
    write_packed(tmp_path / "p", source.annotations, render, fps=6, clip=CLIP, processes=1)
    opened = open_source(DataConfig(source="packed", options={"folder": str(tmp_path / "p")}))
    for fine in ({}, {"fps": 3}, {"fps": 2}, {"size": (12, 32)}, {"observe": 0.5}):
        ClipDataset(opened, "train", replace(CLIP, **fine))
    for options, says in (
        ({"fps": 4}, r"packed with clip\.fps 6, which is no multiple of clip\.fps 4"),
        ({"fps": 12}, r"packed with clip\.fps 6, which is no multiple of clip\.fps 12"),
        ({"size": (24, 33)}, r"packed with clip\.size \[24, 32\] and clip\.size is \[24, 33\]"),
    ):
        with pytest.raises(ConfigError, match=says):
            ClipDataset(opened, "train", replace(CLIP, **options))
    write_packed(tmp_path / "n", source.annotations, render, fps=6, clip=CLIP, native=True, processes=1)
    own = open_source(DataConfig(source="packed", options={"folder": str(tmp_path / "n")}))
    ClipDataset(own, "train", replace(CLIP, fps=4, size=(99, 99)))  # all that there ever was


def test_a_set_of_an_older_version_is_read(stored: Path, tmp_path: Path) -> None:
    """Without checksums and without a word on how it was made."""
    index, shard = (read_checked(stored / name)[0] for name in ("index.json", "shard-00000.json"))
    wanted = Packed(stored)
    (tmp_path / "shard-00000.jpgs").write_bytes((stored / "shard-00000.jpgs").read_bytes())
    del shard["made_of"], index["clip"], index["native"]
    for clip in shard["clips"]:
        del clip["crc32"]
    (tmp_path / "index.json").write_text(json.dumps(index))
    (tmp_path / "shard-00000.json").write_text(json.dumps(shard))
    old = Packed(tmp_path)
    for one, other in zip(old.annotations.examples, wanted.annotations.examples, strict=True):
        clip = BEFORE if old.annotations.task == "anticipation" else CLIP
        np.testing.assert_array_equal(old.read(one, clip).frames, wanted.read(other, clip).frames)


def test_flipped_bits_are_named(stored: Path, tmp_path: Path) -> None:
    """Of pictures and of the index, wherever they are."""
    files = {f.name: f.read_bytes() for f in stored.iterdir() if not f.name.startswith(".")}
    draw = random.Random(1)
    clip = BEFORE if Packed(stored).annotations.task == "anticipation" else CLIP
    for name in files:
        for _ in range(20):
            flipped = bytearray(files[name])
            place = draw.randrange(12, len(flipped))  # before it stands the name of the checksum itself
            flipped[place] ^= 1 << draw.randrange(8)
            for other, content in files.items():
                (tmp_path / other).write_bytes(bytes(flipped) if other == name else content)
            with pytest.raises(HorstError, match=r"checksum|cannot be read as JSON"):
                read_all(Packed, tmp_path, clip)


JUNK = st.one_of(
    st.none(), st.booleans(), st.integers(-(10**12), 10**12), st.floats(), st.text(max_size=5), st.just([]), st.just({})
)


def spots(data: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The places of all values."""
    found = [path] if path else []
    inner = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in inner:
        found += spots(value, (*path, key))
    return found


@settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_index_is_read_or_rejected(stored: Path, data: Any) -> None:
    """Whatever stands in an index: clips come, or an error of ours; neither another one, nor endless memory."""
    folder = stored.with_name("fuzzed")
    folder.mkdir(exist_ok=True)
    (folder / "shard-00000.jpgs").write_bytes((stored / "shard-00000.jpgs").read_bytes())
    texts = {name: read_checked(stored / name)[0] for name in ("index.json", "shard-00000.json")}
    name = data.draw(st.sampled_from(list(texts)))
    changed = copy.deepcopy(texts[name])
    *way, last = data.draw(st.sampled_from(spots(changed)))
    at = changed
    for key in way:
        at = at[key]
    if data.draw(st.booleans()):
        at[last] = data.draw(JUNK)
    else:
        del at[last]
    for other, content in texts.items():
        (folder / other).write_text(json.dumps(changed if other == name else content))  # no checksum to stop it
    clip = BEFORE if texts["index.json"]["task"] == "anticipation" else CLIP
    with suppress(HorstError):
        read_all(Packed, folder, clip)


@given(st.dictionaries(st.text(max_size=4), JUNK, min_size=1))
def test_round_trip_of_checked_json(data: dict[str, Any]) -> None:
    data.pop("crc32", None)
    if data:
        text = encode_checked(data)
        again = decode_checked(text.encode())
        assert json.dumps(again) == json.dumps(data)
        assert set(json.loads(text)) == {"crc32", *data}  # any program reads it


@pytest.fixture(scope="module")
def store(table: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("maps") / "store"
    extract(config(table, "recognition", CLIP), create_backbone("stem", widths=[2, 3]), folder)
    return folder


def test_features_reject_another_size(store: Path, tmp_path: Path) -> None:
    data = DataConfig(source="features", options={"folder": str(store)})
    opened = open_source(data)
    for fine in ((6, 8), (24, 32)):  # of the maps, of the frames
        ClipDataset(opened, "train", replace(CLIP, size=fine))
    with pytest.raises(ConfigError, match=r"has maps of \[6, 8\], of frames of \[24, 32\], and clip.size is \[8, 14\]"):
        ClipDataset(opened, "train", replace(CLIP, size=(8, 14)))
    options = {**small_runs.TINY, "backbone": {"name": "maps", "channels": 3}}
    for size, says in (([24, 32], r"takes \[3, 24, 32\]"), ([8, 14], r"takes \[3, 8, 14\]")):
        told = {"source": "features", "folder": str(store), "clip": {"size": size, "fps": 6}}
        run = small_runs.config(tmp_path, model={"options": options}, data=told, augment={"operations": 0})
        with pytest.raises(ConfigError, match=rf"has maps of \[3, 6, 8\] and the model {says}: set data.clip.size to"):
            prepare(run)


def test_flipped_bits_of_maps_are_named(store: Path, tmp_path: Path) -> None:
    draw = random.Random(2)
    for file in sorted(store.glob("*.maps")):
        for _ in range(10):
            for other in store.iterdir():
                (tmp_path / other.name).write_bytes(other.read_bytes())
            flipped = bytearray(file.read_bytes())
            flipped[draw.randrange(len(flipped))] ^= 1 << draw.randrange(8)
            (tmp_path / file.name).write_bytes(bytes(flipped))
            with pytest.raises(DataError, match=rf"{file.name} is damaged"):
                read_all(open_features, tmp_path, CLIP)


class Recorded(BNInception):
    """Notes the size of frames, and is quick."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: set[tuple[int, ...]] = set()

    def forward(self, frames: Any) -> Any:
        self.sizes.add(tuple(frames.shape[2:]))
        return frames.new_zeros((len(frames), self.channels, *self.output_size(*frames.shape[2:]))).float()


@pytest.mark.parametrize(
    ("clip", "size"), [({}, (256, 454)), ({"size": [224, 224]}, (224, 224)), ({"fps": 6}, (256, 454))]
)
def test_frames_have_the_size_of_the_backbone(
    table: Path, tmp_path: Path, clip: dict[str, Any], size: tuple[int, int]
) -> None:
    """BN-Inception's own, unless another one is named."""
    backbone = Recorded()
    extract(DataConfig.from_dict({"source": "csv", "path": str(table), "clip": clip}), backbone, tmp_path)
    assert backbone.sizes == {size}
    index = json.loads((tmp_path / "index.json").read_text())
    assert index["clip"]["size"] == list(size)
    assert index["map"] == [1024, *backbone.output_size(*size)]
    assert backbone.output_size(256, 454) == (8, 14)


def test_changed_media_are_stored_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """To pack or extract once more does what has changed, and that alone."""
    for name in "ab":
        videos.clip(tmp_path / f"{name}.mp4", frames=8)
    (tmp_path / "clips.csv").write_text("path,split,label\na.mp4,train,x\nb.mp4,val,y\n")
    data = config(tmp_path / "clips.csv", "recognition", CLIP)
    source = open_source(data)
    backbone = create_backbone("stem", widths=[2, 3])

    def store() -> dict[str, bytes]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("horst.data.packed.CLIPS_PER_SHARD", 1)
            render = partial(read_each, source.read, CLIP)
            write_packed(tmp_path / "p", source.annotations, render, fps=6, clip=CLIP, processes=1)
        extract(data, backbone, tmp_path / "f")
        return {f"{f.parent.name}/{f.name}": f.read_bytes() for d in "pf" for f in (tmp_path / d).iterdir()}

    first = store()
    assert store() == first
    capsys.readouterr()
    videos.clip(tmp_path / "b.mp4", frames=10)
    second = store()
    (packing,) = (line for line in capsys.readouterr().err.splitlines() if line.startswith("packing"))
    assert " 2/2 " in packing  # one of two was there before
    changed = {name for name in second if second[name] != first[name]}
    assert changed == {"p/shard-00001.jpgs", "p/shard-00001.json", "f/000001.maps"}
    (tmp_path / "a.mp4").unlink()  # what was stored of it stays
    assert store() == second


FULL = """
import resource, shutil, sys
from functools import partial
from pathlib import Path
import torch
torch.set_num_threads(1)
from horst.backbones import create_backbone
from horst.data.clips import ClipConfig
from horst.data.config import DataConfig
from horst.data.source import open_source
from horst.data.extract import extract
from horst.data.packed import read_each, write_packed
from horst.errors import CheckpointError, DataError, HorstError
from horst.models import create_model, load, save
from horst.training.checkpoints import CheckpointCallback
from horst.training.callbacks import AveragedWeights
from horst.training.run import Run

root, table = Path(sys.argv[1]), sys.argv[2]
data = DataConfig(source="csv", options={"path": table}, clip=ClipConfig(size=(64, 64), fps=6))
source = open_source(data)
backbone = create_backbone("stem", widths=[8, 8])
def small(seed):
    torch.manual_seed(seed)
    options = dict(hidden=(4, 4, 4), num_classes=2, order=2)
    return create_model("horst_tiny", backbone={"name": "stem", "widths": [4, 4]}, **options)
save(small(0), root / "model")
before = {f.name: f.read_bytes() for f in (root / "model").iterdir()}

class Trainer:
    is_global_zero, global_rank, world_size = True, 0, 1
    class datamodule:
        class bad_clips:
            @staticmethod
            def state_dict(): return {"seen": torch.zeros(1), "bad": []}
            @staticmethod
            def merge(state): pass
            @staticmethod
            def write(path): pass
            __len__ = lambda self: 0
        bad_clips = bad_clips()
    def save_checkpoint(self, path, weights_only):
        torch.save({"state_dict": self.state}, path)
trainer = Trainer()
(root / "run").mkdir()
callback = CheckpointCallback(Run(root / "run"), AveragedWeights(None), minutes=1)
trainer.state = {"w": torch.zeros(10)}
callback._checkpoint(trainer)
kept = (root / "run" / "checkpoint.ckpt").read_bytes()
resource.setrlimit(resource.RLIMIT_FSIZE, (2500, 2500))  # as a disk with so much room

def fails(kind, work):
    try:
        work()
    except kind as error:
        assert "cannot be written" in str(error), error
        assert isinstance(error, HorstError)
    else:
        raise SystemExit(f"{work} did not fail")

fails(CheckpointError, lambda: save(small(1), root / "model", overwrite=True))
fails(CheckpointError, lambda: save(small(1), root / "new"))
read_clips = partial(read_each, source.read, data.clip)
pack = partial(write_packed, root / "packed", source.annotations, read_clips, processes=1)
fails(DataError, lambda: pack(fps=6, clip=data.clip))
fails(DataError, lambda: extract(data, backbone, root / "maps"))
trainer.state = {"w": torch.zeros(100_000)}
fails(CheckpointError, lambda: callback._checkpoint(trainer))
assert {f.name: f.read_bytes() for f in (root / "model").iterdir()} == before
assert (root / "run" / "checkpoint.ckpt").read_bytes() == kept
load(root / "model")
left = [str(f.relative_to(root)) for f in root.rglob("*") if "partial" in f.name or f.name.endswith((".new", ".old"))]
assert not left, left
assert {f.name for f in root.iterdir()} <= {"model", "packed", "maps", "run"}, list(root.iterdir())
assert not list(root.rglob("*.jpgs")) and not list(root.rglob("*.maps"))
"""


@pytest.mark.slow
def test_a_full_disk_leaves_old_files_and_no_partial_ones(table: Path, tmp_path: Path) -> None:
    """While a model is saved, clips are packed, features extracted, a checkpoint written."""
    done = subprocess.run([sys.executable, "-c", FULL, str(tmp_path), str(table)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
