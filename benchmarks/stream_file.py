"""How fast a video file is streamed on a CPU: decode, step, predict, one frame after the other.

    python -m benchmarks.stream_file [--threads 2]

The package's `somethings` (horst_tiny, 112 x 112 pixels) streams an mp4 of 320 x 240 pixels at full speed, and predicts
at every frame, as if the file had the model's frame rate. Every row is the best of several rounds in turns.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from horst.models import open_model
from horst.video.decode import VideoFile
from horst.video.encode import write_video
from horst.video.frame import Image


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--frames", type=int, default=250)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "video.mp4"
        write_video(path, (picture(i) for i in range(args.frames)), 25)
        rows: dict[str, dict[str, Any]] = {
            "torch": {"engine": "torch"},
            "onnxruntime": {"engine": "onnxruntime"},
            "with attention": {"attention": True},
        }
        found: dict[str, list[list[float]]] = {name: [] for name in rows}
        for _ in range(args.rounds):
            for name, options in rows.items():
                found[name].append(watch(path, **options))
        for name, rounds in found.items():
            taken = min(rounds, key=sum)
            p50, p95 = np.percentile(taken, [50, 95])
            rate = f"{len(taken) / sum(taken):6.1f} frames/s"
            print(f"{name:<16}{rate}{1e3 * p50:8.1f} ms p50{1e3 * p95:8.1f} ms p95", flush=True)


def watch(path: Path, **options: Any) -> list[float]:
    """Seconds from one prediction to the next, without the first few, which allocate memory."""
    model = open_model("somethings").eval()
    stream, taken = model.stream(**options), []
    with VideoFile(path, size=model.size, threads=1) as video:
        begin = time.perf_counter()
        for number, frame in enumerate(video.frames()):
            prediction = stream.push(frame.image, number / model.fps)  # a prediction at every frame
            assert prediction is not None
            prediction.answer()
            now = time.perf_counter()
            taken.append(now - begin)
            begin = now
    return taken[5:]


def picture(number: int) -> Image:
    """Moving waves."""
    y, x = np.mgrid[:240, :320]
    waves = [127 + 100 * np.sin(x / (19 + 7 * c) + y / 31 + number / (5 + c)) for c in range(3)]
    return np.stack(waves, -1).astype(np.uint8)


if __name__ == "__main__":
    main()
