"""Small data sets in the layouts of LSTR and MS-TCN."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

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


def write_lstr(root: Path, sessions: dict[str, Targets] = SESSIONS, dtype: Any = np.float32) -> Path:
    """`root`/SMALL, with data_info.json above it. Names of training videos begin with "train"."""
    folder = root / "SMALL"
    for name in ("rgb_net", "flow_net", "target_perframe"):
        (folder / name).mkdir(parents=True)
    for seed, (video, targets) in enumerate(sessions.items()):
        np.save(folder / "rgb_net" / f"{video}.npy", vectors(len(targets), CHANNELS[0], seed, dtype))
        np.save(folder / "flow_net" / f"{video}.npy", vectors(len(targets), CHANNELS[1], seed + 100, dtype))
        np.save(folder / "target_perframe" / f"{video}.npy", targets)
    info = {
        "class_names": list(NAMES),
        "ignore_index": len(NAMES) - 1,
        "fps": FPS,
        "train_session_set": [video for video in sessions if video.startswith("train")],
        "test_session_set": [video for video in sessions if not video.startswith("train")],
    }
    (root / "data_info.json").write_text(json.dumps({"OTHER": {}, "SMALL": info}))
    return folder


def write_ms_tcn(root: Path, videos: dict[str, list[int]] | None = None, dtype: Any = np.float32) -> Path:
    """`root`/small with one split."""
    folder = root / "small"
    found = videos or {"train_1": [0, 1, 1, 0, 2, 2, 0, 0], "train_2": [2, 2, 0, 1, 1], "test_1": [0, 1, 1, 2, 2, 0]}
    for name in ("features", "groundTruth", "splits"):
        (folder / name).mkdir(parents=True)
    (folder / "mapping.txt").write_text("".join(f"{number} {name}\n" for number, name in enumerate(LABELS)))
    for seed, (video, labels) in enumerate(found.items()):
        np.save(folder / "features" / f"{video}.npy", vectors(len(labels), 5, seed, dtype).T)
        (folder / "groundTruth" / f"{video}.txt").write_text("".join(f"{LABELS[label]}\n" for label in labels))
    for split in ("train", "test"):
        bundle = "".join(f"{video}.txt\n" for video in found if video.startswith(split))
        (folder / "splits" / f"{split}.split1.bundle").write_text(bundle)
    return folder
