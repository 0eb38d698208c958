"""How fast a whole run is: the time from the command to its first step, and frames per second with all that it does.

    python -m benchmarks.gpu_run                                            # the SSv2 network, with a run's defaults
    python -m benchmarks.gpu_run trainer.precision=32-true trainer.graphs=false
    python -m benchmarks.gpu_run --config somethings/cpu data.clips=400   # on a CPU

The run is started twice. The first one renders its clips and compiles the kernels, the second one finds them. Each is
stopped after its second epoch. Frames per second are those of that epoch without its first steps, padding not counted.
Its config has as many epochs as a real run, because a long run captures more CUDA graphs and pads its clips less.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

SKIPPED = 5  # steps of the last epoch, in which the first batches arrive
STARTED = "HORST_BENCHMARK_STARTED"
MEASURED = 1  # the epoch, from 0
DEFAULTS = ("data.folder=runs/data/somethings-1200-224", "data.clips=1200")
AUTO = ("trainer.precision=auto", "trainer.graphs=auto", "trainer.epochs=1000", "trainer.validate_every=0")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", default="somethings/ssv2_network", help="a packaged run or a file")
    parser.add_argument("changes", nargs="*", metavar="KEY=VALUE", help="changed entries of the run")
    args = parser.parse_args()
    changes = [*(DEFAULTS if args.config == parser.get_default("config") else ()), *AUTO, *args.changes]
    if STARTED in os.environ:
        print(json.dumps(timed(args.config, changes)))
    else:
        twice(sys.argv[1:])


def twice(arguments: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Two runs, each in its own process, because a start is measured from the command."""
    rows: list[dict[str, Any]] = []
    for start in ("first", "second"):
        environment = {**os.environ, STARTED: str(time.time())}
        if environment.pop("PYTHONDONTWRITEBYTECODE", None):  # most machines keep compiled modules
            environment.setdefault("PYTHONPYCACHEPREFIX", str(Path(tempfile.gettempdir()) / "horst-benchmark-bytecode"))
        command = [sys.executable, "-m", "benchmarks.gpu_run", *arguments]
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE)
        if done.returncode:
            sys.exit(done.returncode)
        found = {"start": start, **json.loads(done.stdout.splitlines()[-1])}
        if not rows:
            print("\n".join(found["choices"]))
        print(f"{start} start: first step done after {found['first_step']:.1f} s, then {found['frames']:,.0f} frames/s")
        rows.append(found)
    return rows


def timed(name: str, changes: list[str]) -> dict[str, Any]:
    """One run, in a folder that is deleted."""
    import torch

    from horst.data.module import lightning
    from horst.training.config import RunConfig
    from horst.training.fit import train
    from horst.training.speed import resolve

    class Clock(lightning.Callback):
        first_step = 0.0
        since, frames, seconds = 0.0, 0, 0.0

        def on_train_batch_end(self, trainer: Any, module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
            last = trainer.current_epoch == MEASURED
            end = batch_idx + 1 == trainer.num_training_batches
            if not self.first_step or (last and (batch_idx == SKIPPED or end)):
                if module.device.type == "cuda":
                    torch.cuda.synchronize()
                now = time.time()
                self.first_step = self.first_step or now - float(os.environ[STARTED])
                self.since, self.seconds = (now, 0.0) if batch_idx <= SKIPPED else (self.since, now - self.since)
            if last and batch_idx > SKIPPED:
                self.frames += outputs["frames"] * trainer.world_size
                trainer.should_stop = end

    config, choices = resolve(RunConfig.from_file(name, changes))
    clock = Clock()
    with tempfile.TemporaryDirectory() as folder:
        train(config, Path(folder) / "run", callbacks=[clock])
    if not clock.seconds:
        sys.exit(f"an epoch has at most {SKIPPED + 1} steps: raise data.clips")
    return {"first_step": clock.first_step, "frames": clock.frames / clock.seconds, "choices": choices}


if __name__ == "__main__":
    main()
