"""Whether the reader keeps up: decoding and resizing through the data set against bare PyAV, on the same files.

    python -m benchmarks.reader DATA.yaml [--clips 200]

Both decode whole clips with one thread and stretch them to 224x224 RGB, in turns, in one process.
"""

from __future__ import annotations

import argparse
import statistics
import time
from dataclasses import replace
from pathlib import Path

import av
import numpy as np

from horst.data.batches import ClipDataset
from horst.data.config import DataConfig
from horst.data.source import open_source
from horst.video.decode import VideoFile

SIZE = (224, 224)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", help="YAML file of a data set of whole clips")
    parser.add_argument("--clips", type=int, default=200)
    args = parser.parse_args()
    config = DataConfig.from_file(args.data)
    source = open_source(config)
    with VideoFile(source.annotations.split("train").examples[0].media) as video:
        fps = video.info.fps or config.clip.fps  # at their own rate, so that both show the same frames
    dataset = ClipDataset(source, "train", replace(config.clip, size=SIZE, fps=fps, observe=1.0))
    times = []
    for i in range(min(args.clips, len(dataset))):
        start = time.perf_counter()
        bare(dataset.examples[i].media)
        middle = time.perf_counter()
        item = dataset[i]
        times.append((middle - start, time.perf_counter() - middle, len(getattr(item, "frames", ()))))
    ours, theirs = sum(t[1] for t in times), sum(t[0] for t in times)
    ratios = sorted(t[1] / t[0] for t in times)
    frames = sum(t[2] for t in times)
    rates = f"bare PyAV {frames / theirs:.0f} frames/s, data set {frames / ours:.0f} frames/s"
    print(f"{len(times)} clips, {frames} frames: {rates}")
    print(f"the data set takes {ours / theirs:.3f} times as long (median over clips {statistics.median(ratios):.3f})")


def bare(path: Path) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    """What anybody would write: decode, reformat, stack."""
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        stream.codec_context.thread_count = 1
        return np.stack([frame.reformat(SIZE[1], SIZE[0], "rgb24").to_ndarray() for frame in container.decode(stream)])


if __name__ == "__main__":
    main()
