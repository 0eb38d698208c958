"""What training on all of Something-Something v2 needs: decode cores, network and disk.

    python -m benchmarks.scale [--gpus 32] [--step-ms 87.5]

It measures this machine: the time that one core takes to read 24 frames of 224x224 from a video and from a packed set,
the size of a packed clip, and the disk. The clips are synthetic webm files of 240 pixels, the height of those of SSv2;
sizes are scaled to 3.8 s, their mean length. Then it simulates a machine of the cluster: its cores make batches with
the measured times, and its GPUs take a batch each in every step, together. `--step-ms` is the time of a training step
with 8 clips of 24 frames on one GPU, by default that of the SSv2 network on an H200 (docs/reference/performance.md).
"""

from __future__ import annotations

import argparse
import heapq
import os
import random
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from horst.data.clips import ClipConfig
from horst.data.config import DataConfig
from horst.data.packed import Packed, read_each, write_packed
from horst.data.source import Source, open_source
from horst.synth.make import make_somethings

CLIPS = 220_847  # of Something-Something v2, of which 168,913 are for training
TRAINING = 168_913
SECONDS = 3.8
FPS = 12
FRAMES = 24  # of a clip in a training step
SIZE = (224, 224)
BATCH = 8
PREFETCH = 2  # batches that a worker of torch's loader makes ahead
STEPS = 400  # of the simulation
FILE = 512 * 2**20  # bytes, for the disk


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpus", type=int, default=32)
    parser.add_argument("--gpus-per-node", type=int, default=8)
    parser.add_argument("--step-ms", type=float, default=87.5)
    parser.add_argument("--clips", type=int, default=24, help="clips that are measured")
    args = parser.parse_args()
    nodes, step = args.gpus / args.gpus_per_node, args.step_ms / 1000
    rate = args.gpus * BATCH / step  # clips per second of all GPUs
    with tempfile.TemporaryDirectory() as folder:
        videos, packed, size = measure_clips(Path(folder), args.clips)
        written, read = measure_disk(Path(folder) / "disk")
    print(f"one core of this machine, {FRAMES} frames of {SIZE[0]}x{SIZE[1]} of a clip (mean of {args.clips} clips):")
    for name, times in (("videos (webm)", videos), ("packed (JPEG)", packed)):
        print(f"  {name}: {1000 * mean(times):.1f} ms a clip, {1 / mean(times):.1f} clips/s")
    print(f"  a whole packed clip: {size / 1000:.0f} kB")
    print(f"  disk: writes {written / 1e6:.0f} MB/s, reads {read / 1e6:.0f} MB/s")
    print(f"{args.gpus} GPUs on {nodes:g} machines, {BATCH} clips each in {args.step_ms:g} ms:")
    epoch = TRAINING / rate
    print(f"  {rate:.0f} clips/s, an epoch of {TRAINING:,} clips takes {epoch:.0f} s")
    total, part = CLIPS * size, size * FRAMES / (SECONDS * FPS)
    print(f"  packed set: {total / 1e9:.0f} GB, on every machine")
    print(f"  copied to each machine during the first epoch: {8 * total / epoch / 1e9:.2f} Gbit/s a machine")
    print(
        f"  read from its disk in each epoch: {rate * part / nodes / 1e6:.0f} MB/s a machine, or less with much memory"
    )
    print("  cores of a machine, and the part of the time that its GPUs compute (simulated):")
    for name, times in (("videos (webm)", videos), ("packed (JPEG)", packed)):
        least = rate / nodes * mean(times)
        cores = [max(1, round(least * factor)) for factor in (0.5, 1.0, 1.1, 1.25, 1.5)]
        busy = [f"{n}: {simulate(times, n, args.gpus_per_node, step):.0%}" for n in cores]
        print(f"    {name}: {', '.join(busy)}")


def measure_clips(folder: Path, count: int) -> tuple[list[float], list[float], float]:
    """Seconds that one core takes for each clip, from videos and packed, and bytes of a packed clip."""
    source = open_source(DataConfig.from_file(make_somethings(folder / "made", count, size=240)))
    clip = ClipConfig(size=SIZE, fps=FPS)
    videos, _ = read_times(source, clip)
    read = partial(read_each, source.read, clip)
    write_packed(folder / "packed", source.annotations, read, fps=FPS, clip=clip, tar=True)
    packed, frames = read_times(Packed(folder / "packed"), clip)
    size = sum(file.stat().st_size for file in (folder / "packed").iterdir())
    return videos, packed, size / frames * SECONDS * FPS


def read_times(source: Source, clip: ClipConfig) -> tuple[list[float], int]:
    """Seconds for each clip, scaled to FRAMES, and the number of frames of all clips."""
    times, total = [], 0
    for example in source.annotations.examples:
        begin = time.process_time()
        frames = len(source.read(example, clip).frames)
        times.append((time.process_time() - begin) * FRAMES / frames)
        total += frames
    return times, total


def measure_disk(path: Path) -> tuple[float, float]:
    """Bytes per second that are written and read, without the memory of the system."""
    block = random.Random(0).randbytes(2**22)
    begin = time.perf_counter()
    with path.open("wb", buffering=0) as file:
        for _ in range(FILE // len(block)):
            file.write(block)
        os.fsync(file.fileno())
        written = FILE / (time.perf_counter() - begin)
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    begin = time.perf_counter()
    with path.open("rb", buffering=0) as file:
        while file.read(2**22):
            pass
    return written, FILE / (time.perf_counter() - begin)


def simulate(times: Sequence[float], cores: int, gpus: int, step: float) -> float:
    """The part of the time that the GPUs of a machine compute.

    Each core makes one batch after the other, as long as less than PREFETCH for each core are waiting. A step starts
    when the GPUs have a batch each, and all take the same time.
    """
    draw = random.Random(0)

    def duration() -> float:
        return sum(draw.choice(times) for _ in range(BATCH))

    working = [duration() for _ in range(cores)]  # when each core has its batch
    heapq.heapify(working)
    idle: list[float] = []
    now, waiting, computed = 0.0, 0, 0.0
    for _ in range(STEPS):
        while waiting < gpus:
            ready = heapq.heappop(working)
            now, waiting = max(now, ready), waiting + 1
            if waiting < PREFETCH * cores:
                heapq.heappush(working, ready + duration())
            else:
                idle.append(ready)
        waiting -= gpus
        now += step
        computed += step
        while working and working[0] <= now and waiting < PREFETCH * cores:  # what was made meanwhile
            ready = heapq.heappop(working)
            waiting += 1
            if waiting < PREFETCH * cores:
                heapq.heappush(working, ready + duration())
            else:
                idle.append(now)
        while idle and waiting < PREFETCH * cores:
            heapq.heappush(working, max(now, idle.pop()) + duration())
    return computed / now


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


if __name__ == "__main__":
    main()
