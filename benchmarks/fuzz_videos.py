"""Damaged and malicious video files for the reader: nothing but typed errors, and a limit on memory.

    python -m benchmarks.fuzz_videos [--files 2000] [--seed 0] [--keep FOLDER]

Files are made with FFmpeg in 12 containers. Some bytes or numbers of each are changed, or a part is lost; `bombs` are
read as they are, and mutated too. Each file is read in a process of its own, as `horst data check` does it. Exit status
1: an exception that is not of `horst.errors`, a crash, more than 500 MB, or more than a minute.
"""

import argparse
import os
import random
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import av

from benchmarks.bombs import bombs, encoded
from horst.errors import HorstError
from horst.video.decode import VideoFile
from horst.video.frame import MAX_PIXELS

MEMORY, SECONDS = 500, 60  # MB at most of a process; for one file
SMALL = 2**22  # pixels of frames that are read at full size
CODECS = {
    "mp4": "libx264",
    "mov": "mjpeg",
    "mkv": "libx264",
    "webm": "libvpx",
    "avi": "mpeg4",
    "flv": "flv",
    "ts": "libx264",
    "mpg": "mpeg2video",
    "wmv": "wmv2",
    "ogv": "libvpx",
    "mxf": "mpeg2video",
    "nut": "mpeg4",
}
NUMBERS = (0, 1, 0x7F, 0xFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 50_000_000, 0x01000000)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, help="folder that keeps the files with problems")
    args = parser.parse_args()
    av.logging.set_level(av.logging.PANIC)
    start, outcomes, peaks, problems = time.monotonic(), Counter[str](), [], 0
    with tempfile.TemporaryDirectory() as folder:
        for name, data in files(args.files, random.Random(args.seed)):
            path = Path(folder) / name
            path.write_bytes(data)
            outcome, peak = read_alone(path)
            peaks.append((peak, name))
            if peak > MEMORY:
                outcome = f"PROBLEM: {peak:.0f} MB"
            if outcome.startswith("PROBLEM"):
                problems += 1
                print(f"{name}: {outcome}", flush=True)
                if args.keep is not None:
                    args.keep.mkdir(parents=True, exist_ok=True)
                    (args.keep / name).write_bytes(data)
            outcomes[outcome if outcome in ("read", "damaged", "refused") else "problems"] += 1
            path.unlink()
    print(f"{len(peaks)} files in {time.monotonic() - start:.0f} s: {dict(outcomes.most_common())}")
    print("most memory: " + ", ".join(f"{name} {peak:.0f} MB" for peak, name in sorted(peaks)[:-4:-1]))
    sys.exit(bool(problems))


def files(count: int, rng: random.Random) -> Iterator[tuple[str, bytes]]:
    """The bombs, and mutations of videos and bombs."""
    whole = bombs()
    yield from whole.items()
    seeds = [(suffix, encoded(suffix, codec=codec)) for suffix, codec in CODECS.items()]
    small = [(name.split(".")[-1], data) for name, data in whole.items() if len(data) < 100_000]
    for number in range(count - len(whole)):
        suffix, data = seeds[number % len(seeds)] if rng.random() < 0.85 else rng.choice(small)
        yield f"{number}.{suffix}", mutated(data, rng)


def mutated(data: bytes, rng: random.Random) -> bytes:
    """Bytes and numbers changed, parts lost or repeated; rather in the header."""
    array = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 4, 16])):
        end = len(array) if rng.random() < 0.5 else min(len(array), 1500)
        at, length = rng.randrange(max(1, end)), rng.choice([1, 4, 16, 64, 256, 1024])
        kind = rng.randrange(7)
        if kind == 0:
            array[at : at + 4] = rng.choice(NUMBERS).to_bytes(4, rng.choice(["big", "little"]))
        elif kind == 1 and array:
            array[min(at, len(array) - 1)] = rng.randrange(256)
        elif kind == 2 and array:
            array[min(at, len(array) - 1)] ^= 1 << rng.randrange(8)
        elif kind == 3:
            del array[at : at + length]
        elif kind == 4:
            array[at:at] = array[at : at + length]
        elif kind == 5:
            array[at : at + length] = rng.randbytes(length)
        elif rng.random() < 0.2:
            del array[at:]
    return bytes(array)


def read_alone(path: Path) -> tuple[str, float]:
    """What became of a file, and the most memory of the process in MB."""
    reader, writer = os.pipe()
    process = os.fork()
    if not process:
        signal.alarm(SECONDS)
        os.write(writer, read(path).encode()[:4000])
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        outcome = pipe.read().decode()
    _, status, usage = os.wait4(process, 0)
    if os.WIFSIGNALED(status):
        ended = os.WTERMSIG(status)
        outcome = f"PROBLEM: {f'more than {SECONDS} s' if ended == signal.SIGALRM else signal.Signals(ended).name}"
    return outcome, usage.ru_maxrss / (1 << (20 if sys.platform == "darwin" else 10))


def read(path: Path) -> str:
    try:
        with VideoFile(path, size=(32, 32), threads=1) as video:
            pixels = video.info.width * video.info.height
        assert pixels <= MAX_PIXELS
        with VideoFile(path, size=None if pixels <= SMALL else (224, 224), threads=1) as video:
            for _ in video.frames():
                pass
            video.at([0.3])
            return "read" if video.report.complete else "damaged"
    except HorstError:
        return "refused"
    except BaseException:
        return f"PROBLEM: {traceback.format_exc()}"


if __name__ == "__main__":
    main()
