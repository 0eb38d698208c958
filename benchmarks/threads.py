"""What threads that spin while they wait cost, beside busy processes and on an idle machine.

    python -m benchmarks.threads [--parts steps predict teach demo] [--turns 1] [--busy 2]

Prints a Markdown table of OpenMP's default policy and OMP_WAIT_POLICY=PASSIVE, which `horst` sets: in turns, each in
new processes, on the machine as it is and beside loops of Python. The row of a loop of two seconds shows what the
scheduler leaves to one thread. Values are kept in --results: a run that was stopped continues, and more --turns add to
it. Remove the folder to start again.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from contextlib import ExitStack
from itertools import product
from pathlib import Path

from horst.io import write_text
from horst.threads import POLICY, THREADS

COUNTS, SECONDS = (1, 2, 16), 3.0  # threads of the steps, and how long they are repeated
CLIPS, LABELS = 25, 5  # to teach; which clip has which label does not matter for the time
PARTS = ("steps", "predict", "teach", "demo")
COMMAND = "import sys; from horst.cli import create_app; create_app()(sys.argv[1:])"  # `main` would set the policy
LOOP = "import time\nwhile time.process_time() < 2: pass"
Row = dict[str, float]


def run(policy: str, *words: str) -> tuple[float, str]:
    """Seconds and output of a Python process."""
    environment = {name: value for name, value in os.environ.items() if name not in (POLICY, THREADS)}
    environment |= {POLICY: "PASSIVE"} if policy == "passive" else {}
    start = time.perf_counter()
    done = subprocess.run([sys.executable, *words], env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return time.perf_counter() - start, done.stdout


def steps(threads: int) -> Row:
    """Median milliseconds of a frame of `somethings`, and of a training step of its network, in this process."""
    import torch

    import horst
    from benchmarks.cpu import ours, timed

    torch.set_num_threads(threads)
    model = horst.open_model("somethings").train()
    clips = torch.randint(256, (2, 4, 3, *model.size)).to(torch.uint8)
    works = {f"a frame, {engine}": ours("somethings", 1, engine) for engine in ("torch", "onnxruntime")}
    works["a training step"] = lambda: model(clips)[0].logits.action.square().mean().backward()
    return {f"{name}, threads: {threads}, ms": 1e3 * value for name, value in timed(works, SECONDS).items()}


def measure(part: str, policy: str, folder: Path) -> Row:
    """Values of some rows of the table."""
    if part == "steps":
        values = {"a loop of Python, s": run(policy, "-c", LOOP)[0]}
        for threads in COUNTS:
            values |= json.loads(run(policy, "-m", "benchmarks.threads", "--child", str(threads))[1])
        return values
    shutil.rmtree(folder / "demo", ignore_errors=True)  # it would keep its videos
    arguments = {
        "predict": ["somethings", str(next((folder / "clips").glob("*/*")))],
        "teach": [str(folder / "clips"), str(folder / "model"), "--overwrite"],
        "demo": ["--folder", str(folder / "demo")],
    }
    taken, text = run(policy, "-c", COMMAND, part, *arguments[part])
    latency = re.search(r"latency ([\d.]+) ms \(median\)", text)
    return {f"`horst {part}`, s": taken} | ({"`horst predict`, a frame, ms": float(latency[1])} if latency else {})


def make_clips(folder: Path) -> None:
    run("passive", "-c", COMMAND, "data", "make", "somethings", str(folder / "made"), "--clips", str(CLIPS))
    for number, file in enumerate(sorted((folder / "made" / "videos").iterdir())):
        label = folder / "clips" / f"label {number % LABELS}"
        label.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, label)


def table(results: dict[str, Row], columns: list[str]) -> str:
    rows: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for key, values in results.items():
        for row, value in values.items():
            rows[row][key.partition(": ")[2]].append(value)
    lines = [f"| | {' | '.join(columns)} | passive, beside loops / idle |", "| --- |" + " ---: |" * 5]
    for row, found in rows.items():
        medians = [statistics.median(found[column] or [float("nan")]) for column in columns]
        lines.append(f"| {row} | {' | '.join(f'{value:.2f}' for value in medians)} | {medians[3] / medians[1]:.2f} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--turns", type=int, default=1, help="the table has medians")
    parser.add_argument("--busy", type=int, default=2, help="loops of Python")
    parser.add_argument("--results", type=Path, default=Path("runs/threads"), help="folder of values and clips")
    parser.add_argument("--child", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        print(json.dumps(steps(args.child)))
        return
    make_clips(args.results)
    file, loops = args.results / "values.json", [sys.executable, "-c", "while True: pass"]
    results: dict[str, Row] = json.loads(file.read_text()) if file.exists() else {}
    columns = {
        f"{load}, {policy}": (busy, policy)
        for load, busy in (("idle", 0), (f"beside {args.busy} loops", args.busy))
        for policy in ("default", "passive")
    }
    for turn, part, column in product(range(args.turns), args.parts, columns):
        if (key := f"{part} {turn}: {column}") in results:
            continue
        busy, policy = columns[column]
        with ExitStack() as stack:
            for _ in range(busy):
                loop = stack.enter_context(subprocess.Popen(loops))
                stack.callback(loop.kill)
            results[key] = measure(part, policy, args.results)
        write_text(file, json.dumps(results))
    print(table(results, list(columns)))


if __name__ == "__main__":
    main()
