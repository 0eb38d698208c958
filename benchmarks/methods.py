"""Every method trained for some minutes on a CPU, on videos that are drawn for it: does it learn, and how fast?

    python -m benchmarks.methods                     all but HORST's ablations, two at a time; hours on two cores
    python -m benchmarks.methods rulstm avt          some
    python -m benchmarks.methods --write docs/reference/methods.json

Each run is the method's own config with what is said in CHANGES, so models, losses and frames are those of the config,
and clips fewer and smaller. What was finished is kept in --folder, and not trained again.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path

from horst.io import write_text
from horst.models.registry import METHODS, PRETRAINED, Method
from horst.training.config import RunConfig

ROOT = Path(__file__).parents[1]
CHANGES = {
    "recognition": {
        "data.clips": 1200,
        "data.templates": 4,
        "data.size": 56,
        "data.clip.size": [56, 56],
        "batches.size": 8,
        "optimiser.lr": 0.0005,
        "trainer.epochs": 8,
        "trainer.ema": None,
    },
    "anticipation": {"data.videos": 24, "data.size": [48, 84], "data.clip.size": [48, 84], "trainer.epochs": 12},
}
"""Of a config: 1,200 clips of four actions, or 24 videos, on small frames. The config's rate of learning is for batches
twelve times as large: with these, Conv-TT-LSTM stayed at guessing."""
COMMON = {
    "batches.workers": 0,
    "batches.size": 16,
    "augment.operations": 0,
    "trainer.validate_every": 3,
    "trainer.accelerator": "cpu",
    "trainer.precision": "32-true",
    "trainer.backend": "auto",
    "trainer.graphs": False,
}
METRIC = {"recognition": "val/action/top1@100%", "anticipation": "val/action/top5@1s"}

SHORT = [name for name, method in METHODS.items() if not method.options]


@dataclass(frozen=True, slots=True)
class Result:
    """Of one method, in per cent."""

    name: str
    best: float
    """Over the looks at the validation clips, every third epoch."""
    guessing: float
    """Recognition: by chance. Anticipation: always the five most frequent actions of the training videos."""
    seconds: float
    """Of training."""
    when: str = ""


def config_of(method: Method) -> str:
    """Its run on what the package draws."""
    folder = "somethings" if method.task == "recognition" else "kitchen"
    return f"{folder}/{'gpu' if method.model_name('tiny') in PRETRAINED else method.name}"


def short_run(method: Method, folder: Path) -> RunConfig:
    """The config of a method, changed."""
    data = folder / ("somethings" if method.task == "recognition" else "kitchen")
    changes = {**COMMON, **CHANGES[method.task], "data.folder": str(data), "batches.cache": str(folder / "cache")}
    changes |= {f"model.options.{name}": value for name, value in method.options_for("tiny").items()}
    return RunConfig.from_file(config_of(method), [f"{key}={json.dumps(value)}" for key, value in changes.items()])


def draw(task: str, folder: Path) -> None:
    """The videos of a task, where they are not there yet."""
    from horst.data.source import open_source

    open_source(short_run(next(m for m in METHODS.values() if m.task == task), folder).data)


def train(method: Method, folder: Path) -> Result:
    """A short run in `folder`, with what was drawn for it kept beside; where it was finished, what it gave."""
    from horst.data.source import open_source
    from horst.evaluation.measure import prior
    from horst.training.fit import train as fit

    kept = folder / f"{method.name}.json"
    if kept.is_file():
        return Result(**json.loads(kept.read_text(encoding="utf-8")))
    config = short_run(method, folder)
    run = fit(config, folder / method.name)
    rows = run.epochs()
    best = max(float(row[METRIC[method.task]]) for row in rows if row[METRIC[method.task]])
    annotations = open_source(config.data).annotations
    guessing = 1 / len(annotations.classes["action"])
    if method.task == "anticipation":
        guessing = prior(annotations, "val")["action/top5"]
    seconds = sum(float(row["seconds"]) for row in rows)
    result = Result(method.name, round(100 * best, 2), round(100 * guessing, 2), round(seconds), str(date.today()))
    write_text(kept, json.dumps(asdict(result)))
    return result


def table(results: Sequence[Result]) -> str:
    """Markdown, the best first."""
    lines = []
    for task, metric in (("recognition", "top-1 of whole clips"), ("anticipation", "action top-5 at 1 s")):
        chosen = [r for r in results if METHODS[r.name].task == task]
        if chosen:
            lines += ["", f"| {task} | {metric}, % | guessing, % |", "| --- | --- | --- |"]
        for r in sorted(chosen, key=lambda r: -r.best):
            lines.append(f"| {METHODS[r.name].title} | {r.best:.1f} | {r.guessing:.1f} |")
    return "\n".join(lines[1:]) + "\n"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("methods", nargs="*", default=SHORT, help="by name; all but ablations by default")
    parser.add_argument("--folder", type=Path, default=ROOT / "runs" / "methods", help="where runs and videos are kept")
    parser.add_argument("--processes", type=int, default=2, help="runs at once, of one thread each")
    parser.add_argument("--write", type=Path, help="a JSON file for what was found")
    chosen = parser.parse_args(arguments)
    unknown = [name for name in chosen.methods if name not in METHODS]
    if unknown:
        parser.error(f"there is no method {unknown[0]}; there are {', '.join(METHODS)}")

    def in_a_process(name: str) -> Result:
        command = [sys.executable, "-c", "import sys; from benchmarks.methods import one; one(*sys.argv[1:])"]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        with (chosen.folder / f"{name}.log").open("w", encoding="utf-8") as log:
            done = subprocess.run(
                [*command, name, str(chosen.folder)], cwd=ROOT, env=environment, stdout=log, stderr=log, check=False
            )
        if done.returncode:
            raise SystemExit(f"{name} failed: {chosen.folder / name}.log")
        result = Result(**json.loads((chosen.folder / f"{name}.json").read_text(encoding="utf-8")))
        print(f"{name}: {result.best:.1f}%, guessing {result.guessing:.1f}%, {result.seconds / 60:.1f} min", flush=True)
        return result

    chosen.folder.mkdir(parents=True, exist_ok=True)
    for task in {METHODS[name].task for name in chosen.methods}:  # drawn once, before runs that need it start at once
        draw(task, chosen.folder)
    with ThreadPoolExecutor(chosen.processes) as pool:
        results = list(pool.map(in_a_process, chosen.methods))
    print()
    print(table(results))
    if chosen.write:
        write_text(chosen.write, json.dumps([asdict(result) for result in results], indent=1) + "\n")


def one(name: str, folder: str) -> None:
    train(METHODS[name], Path(folder))


if __name__ == "__main__":
    main()
