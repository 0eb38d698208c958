"""Run the tests of numbers as other processors would compute them: `make portable`.

Each setting limits the instructions that PyTorch, oneDNN or MKL may use, sets the number of threads, or rounds sums
another way (tests/other_rounding.py). A setting that this processor does not have is named as not run.
"""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

SETTINGS = (
    {"ATEN_CPU_CAPABILITY": "default", "ONEDNN_MAX_CPU_ISA": "SSE41", "OMP_NUM_THREADS": "1"},
    {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2", "OMP_NUM_THREADS": "2"},
    {"ATEN_CPU_CAPABILITY": "avx512", "ONEDNN_MAX_CPU_ISA": "AVX512_CORE", "OMP_NUM_THREADS": "4"},
    {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_AMX", "OMP_NUM_THREADS": "1"},
    {"MKL_CBWR": "COMPATIBLE"},
    {"HORST_TEST_ROUNDING": "1"},
    {"HORST_TEST_ROUNDING": "2"},
)
NEEDS = {"avx2": "avx2", "avx512": "avx512f", "AVX2": "avx2", "AVX512_CORE": "avx512f", "AVX512_CORE_AMX": "amx_tile"}
FOLDERS = (
    *("backbones", "compat", "evaluation", "export", "finetune", "heads", "layers", "models", "ops", "streaming"),
    *("training", "video/test_augment_ops.py"),
)
ROOT = Path(__file__).parents[1]


def missing(setting: dict[str, str], flags: Sequence[str]) -> list[str]:
    """Instructions of a setting that the processor does not have."""
    return [NEEDS[value] for value in setting.values() if value in NEEDS and NEEDS[value] not in flags]


def processor_flags() -> list[str]:
    """Of an x86 processor under Linux; elsewhere none is known."""
    file = Path("/proc/cpuinfo")
    return file.read_text().split() if file.is_file() else []


def run(setting: dict[str, str], arguments: Sequence[str]) -> int:
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-m", "not integration", *arguments], cwd=ROOT, env={**os.environ, **setting}
    ).returncode


def main() -> int:
    failed = 0
    arguments = sys.argv[1:] or [str(Path("tests", folder)) for folder in FOLDERS]
    for setting in SETTINGS:
        shown = " ".join(f"{name}={value}" for name, value in setting.items())
        if lacking := missing(setting, processor_flags()):
            print(f"{shown}: not run, this processor has no {', '.join(lacking)}", flush=True)
            continue
        print(shown, flush=True)
        failed += run(setting, ["-n", "auto", "--maxprocesses=4", "--dist", "loadfile", *arguments]) != 0
    return failed


if __name__ == "__main__":
    sys.exit(main())
