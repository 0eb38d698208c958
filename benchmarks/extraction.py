"""How long `horst extract` takes for EPIC-Kitchens: BN-Inception's maps of tar files of pictures, as EPIC has them.

    python -m benchmarks.extraction [--frames 3000] [--parts 1] [--device cuda]

Pictures are noise of 456 x 256 in JPEG, the weights are random: neither changes the work. `--parts` processes share it.
"""

from __future__ import annotations

import argparse
import io
import tarfile
import tempfile
import time
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import torch
from PIL import Image as Pictures
from PIL import ImageFilter

from horst.backbones import create_backbone
from horst.data.config import DataConfig
from horst.data.extract import extract
from horst.video.sampling import anticipation_frames

FRAMES = {"EPIC-Kitchens 55": 377_535, "EPIC-Kitchens 100": 1_004_400}
"""Of training and validation; counted in tests/data/test_real_samples.py."""
EVERY = 15
"""Pictures from one action to the next, at 30 a second. Positions are 0.25 s apart: each action adds two pictures."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--frames", type=int, default=3000, help="maps to extract, about")
    parser.add_argument("--parts", type=int, default=1, help="processes")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        config = make(Path(folder), args.frames // args.parts, args.parts)
        processes = get_context("spawn")
        ready, go = processes.Barrier(args.parts + 1), processes.Event()
        work = [
            processes.Process(target=part, args=(config, Path(folder) / "maps", n, args.parts, args.device, ready, go))
            for n in range(args.parts)
        ]
        for process in work:
            process.start()
        ready.wait()  # imports and the first launch of the network are over
        start = time.perf_counter()
        go.set()
        for process in work:
            process.join()
        seconds = time.perf_counter() - start
        if any(process.exitcode for process in work):
            raise SystemExit("a process failed")
        size = sum(file.stat().st_size for file in (Path(folder) / "maps").glob("*.maps"))
    maps = size // (2 * 1024 * 8 * 14)
    rate = maps / seconds
    where = torch.cuda.get_device_name() if args.device.startswith("cuda") else "CPU"
    print(f"{where}, {args.parts} processes: {maps} maps in {seconds:.1f} s, {rate:.0f} a second")
    for name, frames in FRAMES.items():
        print(f"{name}, training and validation: {frames:,} maps, {frames / rate / 3600:.1f} h")


def make(folder: Path, frames: int, videos: int) -> Path:
    """A data set in EPIC's layout: a tar file for each video, with the pictures that are seen."""
    noise = Pictures.fromarray(np.random.default_rng(0).integers(0, 256, (256, 456, 3), np.uint8))
    data = io.BytesIO()
    noise.filter(ImageFilter.GaussianBlur(2)).save(data, "jpeg", quality=90)  # about as large as a real frame
    rows = []
    for video in range(videos):
        name, starts = f"P{video + 1:02d}_01", range(121, 121 + EVERY * (frames // 2), EVERY)
        with tarfile.open(folder / f"{name}.tar", "w") as tar:
            for number in sorted({int(n) for start in starts for n in anticipation_frames(start)}):
                info = tarfile.TarInfo(f"frame_{number:010d}.jpg")
                info.size = len(data.getvalue())
                tar.addfile(info, io.BytesIO(data.getvalue()))
        rows += [f"{video}_{start},{name},{start},{start + 20},0,0,0" for start in starts]
    (folder / "training.csv").write_text("\n".join(rows) + "\n")
    (folder / "actions.csv").write_text("id,verb,noun,action\n0,0,0,take plate\n")
    (folder / "EPIC_verb_classes.csv").write_text("verb_id,class_key\n0,take\n")
    (folder / "EPIC_noun_classes.csv").write_text("noun_id,class_key\n0,plate\n")
    (folder / "data.yaml").write_text(
        f"source: epic\nannotations: {folder}\nmedia: {folder}\nframes: rulstm\nclip: {{size: [256, 454]}}\n"
    )
    return folder / "data.yaml"


def part(config: Path, maps: Path, number: int, parts: int, device: str, ready: object, go: object) -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    network = create_backbone("bn_inception").to(device).eval()
    with torch.inference_mode():
        network(torch.zeros(16, 3, 256, 454, dtype=torch.uint8, device=device))
    ready.wait()  # type: ignore[attr-defined]
    go.wait()  # type: ignore[attr-defined]
    extract(DataConfig.from_file(config), network, maps, part=number, parts=parts, device=device)


if __name__ == "__main__":
    main()
