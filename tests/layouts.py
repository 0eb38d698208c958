"""Small data sets in the layouts of LSTR, MS-TCN and RULSTM (EGTEA Gaze+)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import lmdb
import numpy as np
from numpy.typing import NDArray

NAMES = ("Background", "jump", "turn left", "Ambiguous")  # of lstr; the last one is ignored
LABELS = ("SIL", "jump", "turn")  # of ms_tcn; SIL is the background
FPS = 4
CHANNELS = (3, 2)  # of RGB and flow
Targets = NDArray[np.float64]


def vectors(frames: int, channels: int, seed: int, dtype: Any = np.float32) -> NDArray[Any]:
    return np.random.default_rng(seed).normal(size=(frames, channels)).astype(dtype)


def columns(*of_frames: int, count: int = len(NAMES)) -> Targets:
    """One-hot labels of frames."""
    return np.eye(count)[list(of_frames)]


SESSIONS = {  # of each video: its labels
    "train_1": columns(0, 0, 1, 1, 1, 0, 2, 2, 0, 3, 3, 0),
    "train_2": columns(2, 2, 0, 0, 1, 1, 1, 0),
    "test_1": columns(0, 1, 1, 2, 2, 2, 0, 0, 1),
}


def write_lstr(
    root: Path,
    sessions: dict[str, Targets] = SESSIONS,
    dtype: Any = np.float32,
    *,
    name: str = "SMALL",
    features: tuple[str, str] = ("rgb_net", "flow_net"),
    channels: tuple[int, int] = CHANNELS,
) -> Path:
    """`root`/`name`, with data_info.json above it. Names of training videos begin with "train"."""
    folder = root / name
    for inner in (*features, "target_perframe"):
        (folder / inner).mkdir(parents=True)
    for seed, (video, targets) in enumerate(sessions.items()):
        for inner, width, more in zip(features, channels, (0, 100), strict=True):
            np.save(folder / inner / f"{video}.npy", vectors(len(targets), width, seed + more, dtype))
        np.save(folder / "target_perframe" / f"{video}.npy", targets)
    info = {
        "class_names": list(NAMES),
        "ignore_index": len(NAMES) - 1,
        "fps": FPS,
        "train_session_set": [video for video in sessions if video.startswith("train")],
        "test_session_set": [video for video in sessions if not video.startswith("train")],
    }
    (root / "data_info.json").write_text(json.dumps({"OTHER": {}, name: info}))
    return folder


def write_ms_tcn(
    root: Path,
    videos: dict[str, list[int]] | None = None,
    dtype: Any = np.float32,
    *,
    name: str = "small",
    labels: tuple[str, ...] = LABELS,
    channels: int = 5,
) -> Path:
    """`root`/`name` with one split."""
    folder = root / name
    found = videos or {"train_1": [0, 1, 1, 0, 2, 2, 0, 0], "train_2": [2, 2, 0, 1, 1], "test_1": [0, 1, 1, 2, 2, 0]}
    for inner in ("features", "groundTruth", "splits"):
        (folder / inner).mkdir(parents=True)
    (folder / "mapping.txt").write_text("".join(f"{number} {label}\n" for number, label in enumerate(labels)))
    for seed, (video, numbers) in enumerate(found.items()):
        np.save(folder / "features" / f"{video}.npy", vectors(len(numbers), channels, seed, dtype).T)
        (folder / "groundTruth" / f"{video}.txt").write_text("".join(f"{labels[number]}\n" for number in numbers))
    for split in ("train", "test"):
        bundle = "".join(f"{video}.txt\n" for video in found if video.startswith(split))
        (folder / "splits" / f"{split}.split1.bundle").write_text(bundle)
    return folder


def write_egtea(annotations: Path, vectors: Path, *, split: int = 2, channels: int = 4) -> None:
    """RULSTM's tables of one split, and an LMDB in which frame n has the numbers n."""
    for folder in (annotations, vectors.parent):
        folder.mkdir(parents=True, exist_ok=True)
    (annotations / "actions.csv").write_text("0, 0_0, Inspect/Read_recipe\n1, 1_1, Turn on_faucet\n")
    train = "7,P07-R01-PastaSalad,40,50,0,0,0\n8,P07-R01-PastaSalad,60,70,1,1,1\n"
    (annotations / f"training{split}.csv").write_text(train)
    (annotations / f"validation{split}.csv").write_text("9,OP01-R02-Pizza,45,55,1,1,1\n")
    with lmdb.open(str(vectors), map_size=2**22) as env, env.begin(write=True) as put:
        for video in ("P07-R01-PastaSalad", "OP01-R02-Pizza"):
            for n in range(1, 61):
                put.put(f"{video}_frame_{n:010d}.jpg".encode(), np.full(channels, n, "<f4").tobytes())
