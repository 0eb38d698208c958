"""Shared by all tests: one thread for each process, the order of the files, and the data."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest

# Maps this small cost more to share between cores than to compute. Processes that tests start inherit it.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["OPENBLAS_NUM_THREADS"] = "1"
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # some tests take two threads

# Tests of onnxruntime ask for it. Others would write graphs of many small models, in seconds each.
os.environ.setdefault("HORST_ENGINE", "torch")


import quick_interpreter
import torch
from other_rounding import OtherRounding
from torch.utils._python_dispatch import _disable_current_modes

torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
os.register_at_fork(after_in_child=lambda: torch.set_num_threads(1))  # threads of OpenMP do not exist after a fork
torch.backends.cudnn.allow_tf32 = False  # float32 is compared with float32, on a GPU too
if not torch.cuda.is_available():
    # Without a GPU kernels run in Triton's interpreter. It is chosen when Triton is first imported, by whomever.
    quick_interpreter.install()


@pytest.fixture(scope="session")
def data() -> Path:
    return Path(__file__).parent / "goldens"


@pytest.fixture(scope="session")
def root() -> Path:
    return Path(__file__).parents[1]


@pytest.fixture
def eager_finetuning(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker does not give way to other processes: beside other tests, which never pause, it would starve."""
    folder = tmp_path_factory.mktemp("eager")
    (folder / "sitecustomize.py").write_text("import os; os.nice = lambda _: 0")
    monkeypatch.setenv("PYTHONPATH", str(folder), prepend=os.pathsep)


@pytest.fixture(scope="session")
def samples(root: Path) -> Path:
    """Real samples of EPIC-Kitchens, SSv2, CAD-120 and gestures: HORST_SAMPLES, or the project's ../shared/data."""
    folder = Path(os.environ.get("HORST_SAMPLES") or root.parent / "shared" / "data")
    if not folder.is_dir():
        pytest.skip(f"there are no real samples in {folder}: name their folder in HORST_SAMPLES")
    return folder


def pytest_xdist_auto_num_workers() -> int:
    """Two more than cores: tests of servers, pages, cameras and processes often wait."""
    from horst.threads import available_cores

    return available_cores() + 2


def pytest_collection_finish() -> None:
    """What is imported stays: garbage collections need not look through it again."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with slow tests come first, so that no process ends with one while the others wait."""
    slow = {item.path for item in items if item.get_closest_marker("slow") or item.get_closest_marker("browser")}
    items.sort(key=lambda item: item.path not in slow)


@pytest.fixture(autouse=True, scope="session")
def _rounding() -> Iterator[None]:
    """HORST_TEST_ROUNDING=SEED: sums and functions of PyTorch round as another processor might."""
    seed = os.environ.get("HORST_TEST_ROUNDING")
    with OtherRounding(int(seed)) if seed else nullcontext():
        yield


@pytest.fixture(autouse=True)
def _real_rounding(request: pytest.FixtureRequest, _rounding: None) -> Iterator[None]:
    """Tests with the marker `real_rounding` round as this processor does."""
    with _disable_current_modes() if request.node.get_closest_marker("real_rounding") else nullcontext():
        yield
