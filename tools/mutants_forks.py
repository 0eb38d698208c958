"""Run tests in forks of one process, each in a copy of the project.

For tools/mutants.py. A fork has torch and the other dependencies imported, but nothing of horst, so a module can be
changed in the copy before. Processes that tests start find the copy by PYTHONPATH.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
STORE = ROOT / ".mutants"
COPIES = STORE / "copies"
SOURCE = Path("src/horst")
PRELOADED = [
    "torch",
    "torch.export",
    "torch._dynamo",
    "numpy",
    "av",
    "PIL.Image",
    "yaml",
    "cyclopts",
    "rich.console",
    "rich.progress",
    "safetensors.torch",
    "lightning",
    "pytorch_optimizer",
    "tensorboard",
    "fastapi.testclient",
    "uvicorn",
    "websockets.sync.client",
    "httpx",
    "lmdb",
    "onnx",
    "onnxruntime",
    "onnxscript",
    "matplotlib.pyplot",
    "hypothesis",
    "coverage",
]
HELD: list[Any] = []
"""Modules that stay in memory for what they registered in torch."""
CONTEXT = "HORST_MUTANTS_CONTEXT"


@dataclass(frozen=True)
class Task:
    run: Callable[[Path], int]  # in the fork; its exit status
    done: Callable[[Path, int | None, float], None]  # in this process: exit status, None if out of time; seconds
    limit: float  # seconds
    processor: float | None = None  # seconds of processor time
    module: str = ""
    code: str = ""


def digest(*parts: object) -> str:
    return hashlib.sha256("\n".join(map(str, parts)).encode()).hexdigest()[:16]


def preload() -> None:
    os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "TRITON_INTERPRET": "1", CONTEXT: ""}
    sys.path.insert(0, str(ROOT / "src"))
    importlib.import_module("horst.extras").import_torchvision()  # Lightning imports it
    HELD.extend(sys.modules.pop(name) for name in list(sys.modules) if name.partition(".")[0] == "horst")
    for name in PRELOADED:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)


def copies(jobs: int) -> list[Path]:
    return [COPIES / f"{os.getpid()}-{i}" for i in range(jobs)]


@contextlib.contextmanager
def made_copies(jobs: int) -> Iterator[None]:
    """One for each process at a time. Those of a killed run are removed."""
    for old in COPIES.glob("*-*"):
        if not Path("/proc", old.name.partition("-")[0]).exists():
            shutil.rmtree(old) if old.is_dir() else old.unlink()
    names = subprocess.check_output(["git", "ls-files", "-coz", "--exclude-standard"], cwd=ROOT, text=True).split("\0")
    try:
        for copy in copies(jobs):
            for name in names:
                if name and (ROOT / name).is_file():
                    (copy / name).parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy2(ROOT / name, copy / name)
        shared = COPIES / "shared"  # where tests look for samples of real data
        if (ROOT.parent / "shared").is_dir() and not shared.exists():
            shared.symlink_to(ROOT.parent / "shared")
        yield
    finally:
        for copy in copies(jobs):
            shutil.rmtree(copy, ignore_errors=True)


def run_tasks(tasks: Iterable[Task], jobs: int) -> None:
    waiting, free = deque(tasks), copies(jobs)
    busy: dict[int, tuple[Task, Path, float]] = {}
    try:
        while waiting or busy:
            while waiting and free:
                task, copy = waiting.popleft(), free.pop()
                _write_module(copy, task.module, task.code)
                busy[_fork(task, copy)] = task, copy, time.monotonic()
            time.sleep(0.05)
            for pid, (task, copy, begin) in list(busy.items()):
                ended, status = os.waitpid(pid, os.WNOHANG)
                seconds = time.monotonic() - begin
                if not ended and seconds < task.limit:
                    continue
                _kill(pid)
                if not ended:
                    os.waitpid(pid, 0)
                del busy[pid]
                _write_module(copy, task.module, "")
                code = os.waitstatus_to_exitcode(status) if ended else None
                task.done(copy, None if code == -signal.SIGXCPU else code, seconds)
                free.append(copy)
    finally:
        for pid in busy:
            _kill(pid)


def run_pytest(copy: Path, args: Iterable[str], plugin: object) -> int:
    base = Path(tempfile.gettempdir()) / f"mutants-{digest(copy)}"
    flags = ["-p", "no:cacheprovider", "-p", "no:xdist", "--tb=short", f"--basetemp={base}"]
    return int(pytest.main([*flags, *args], plugins=[plugin]))


def _kill(pid: int) -> None:
    """With what it has started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


def _write_module(copy: Path, module: str, code: str) -> None:
    """The mutant, or the original again, without bytecode of the other."""
    if module:
        path = copy / SOURCE / module
        path.write_text(code or (ROOT / SOURCE / module).read_text(encoding="utf-8"), encoding="utf-8")
        for stale in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
            stale.unlink()


def _fork(task: Task, copy: Path) -> int:
    sys.stdout.flush()
    if pid := os.fork():
        return pid
    status = 99
    try:
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        if task.processor:
            resource.setrlimit(resource.RLIMIT_CPU, (int(task.processor), int(task.processor) + 10))
        log = os.open(copy.with_suffix(".log"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.chdir(copy)
        sys.path[:0] = [str(copy / "src")]
        os.environ["PYTHONPATH"] = str(copy / "src")
        settings = importlib.import_module("hypothesis").settings
        settings.register_profile("mutants", database=None, derandomize=True)
        settings.load_profile("mutants")
        status = task.run(copy)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(status)
