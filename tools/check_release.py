"""Install the wheel by file in a new environment for each extra, and use what the extra gives.

Torch is installed once; the environments see it through a .pth file. Everything else is installed in each of them.

    make wheel && python tools/check_release.py            # all extras, the source distribution and the Containerfile
    python tools/check_release.py export serve             # only these
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
PIP = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-c", str(ROOT / "constraints.txt"))

HUB = """
# A repository in the cache of huggingface_hub, as a download leaves it
import shutil, pathlib, horst, huggingface_hub.constants
model = pathlib.Path(huggingface_hub.constants.HF_HUB_CACHE) / "models--me--small"
(model / "refs").mkdir(parents=True)
(model / "refs/main").write_text("0" * 40)
shutil.copytree(pathlib.Path(horst.__file__).parent / "assets/models/somethings", model / "snapshots" / ("0" * 40))
"""
LMDB = """
import json, pathlib, fake_epic
data = fake_epic.features(pathlib.Path("ek"), "ek55")
pathlib.Path("ek/data.yaml").write_text(json.dumps(data))
"""
SERVE = """
import re, subprocess, horst, numpy as np
from horst.serving import Client
server = subprocess.Popen(["horst", "serve", "--port", "0"], stdout=subprocess.PIPE, text=True)
try:
    address = re.search(r"http://[\\d.:]+", server.stdout.readline())[0]
    with Client(address, reconnect=30) as client:
        print(client.push(np.zeros((120, 160, 3), np.uint8), 0.0))
finally:
    server.terminate()
    server.wait(30)
"""
TRITON = """
import torch, triton, horst
torch.manual_seed(0)
core, clip = horst.HORST(in_channels=4, hidden=(4,), stride=(1,), order=2).eval(), torch.randn(1, 3, 4, 5, 5)
found = {}
for name in ("reference", "triton"):
    core.use_backend(name)
    with torch.inference_mode():
        found[name] = core(clip)[0].y
torch.testing.assert_close(found["triton"], found["reference"], rtol=1e-4, atol=1e-4)
"""
RAY = """
import os, subprocess
os.environ |= {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_USAGE_STATS_ENABLED": "0"}
import ray
# "local": not a cluster that runs here already
started = ray.init("local", num_cpus=1, include_dashboard=False, _node_ip_address="127.0.0.1")
address = started.address_info["gcs_address"]
command = "horst extract made/data.yaml maps --backbone efficientnet_lite0 --device cpu --ray"
subprocess.run([*command.split(), address], check=True)
"""
ENCODER = """
import transformers
small = dict(hidden_size=24, num_hidden_layers=1, num_attention_heads=2, intermediate_size=24)
transformers.VideoMAEModel(transformers.VideoMAEConfig(image_size=64, num_frames=4, **small)).save_pretrained("encoder")
"""
EXTRACT = "horst extract made/data.yaml maps --backbone videomae --options '{pretrained: encoder}' --device cpu"
CLIPS = "horst data make somethings made --clips 4 --size 64 --templates 2"
CHECKS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "": ((), ("horst --version", "horst demo")),
    "cluster": (("ray", "fsspec"), (CLIPS, f"python -c '{RAY}'")),
    "export": (("onnx", "onnxruntime", "onnxscript"), ("horst export somethings",)),
    "hub": (
        ("huggingface_hub",),
        (f"python -c '{HUB}'", CLIPS, "horst predict hf://me/small made/videos/1.webm"),
    ),
    "lmdb": (("lmdb",), (f"PYTHONPATH='{ROOT / 'tests'}' python -c '{LMDB}'", "horst data check ek/data.yaml")),
    "mlflow": (("mlflow", "sqlalchemy"), ("python -c 'import mlflow; mlflow.log_metric(\"x\", 1.0)'",)),
    "serve": (("fastapi", "uvicorn", "websockets"), (f"python -c '{SERVE}'",)),
    "timm": (
        (),  # beside a CPU build of torch, timm itself is imported by horst.extras.import_torchvision only
        (CLIPS, "horst extract made/data.yaml maps --backbone timm --options '{model: resnet10t}' --device cpu"),
    ),
    "train": (
        ("horst.training", "tensorboard"),
        (
            "horst train somethings/cpu --data.clips 48 --trainer.epochs 1 --folder run",
            "horst evaluate run --device cpu",
        ),
    ),
    "transformers": ((), (CLIPS, f"python -c '{ENCODER}'", EXTRACT)),
    "triton": (("triton",), (f"TRITON_INTERPRET=1 python -c '{TRITON}'",)),
    "wandb": (("wandb",), ("WANDB_MODE=offline python -c 'import wandb; wandb.init().log({\"x\": 1.0})'",)),
}
"""Of each extra: what it makes importable, and commands that use it. `dev`, `docs` and `mutants` are for a checkout."""
FURTHER = ("notebook", "sdist", "container")


class Machine:
    """Environments that share one torch, in a folder that is removed at the end."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.torch = self._create("torch")
        pinned = re.findall(r"^torch==.*$", (ROOT / "constraints.txt").read_text(), re.M)
        self.run(self.torch, [*PIP, *pinned])

    def _create(self, name: str) -> Path:
        venv = self.folder / name
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
        return venv

    def packages(self, venv: Path) -> Path:
        (found,) = (venv / "lib").glob("python*/site-packages")
        return found

    def environment(self, name: str) -> Path:
        venv = self._create(name)
        (self.packages(venv) / "torch.pth").write_text(f"{self.packages(self.torch)}\n")
        return venv

    def run(self, venv: Path, words: list[str]) -> None:
        self.shell(venv, '"$@"', "python", *words)

    def shell(self, venv: Path, command: str, *words: str) -> None:
        """A command in an empty folder, with the environment first in PATH and nothing of the user's settings."""
        place = venv / "work"
        place.mkdir(exist_ok=True)
        hidden = ("PYTHONPATH", "PYTHONHOME", "HF_HOME", "HF_HUB_CACHE", "HORST_ENGINE")
        kept = {key: value for key, value in os.environ.items() if key not in hidden}
        mine = {"PATH": f"{venv / 'bin'}:{os.environ['PATH']}", "HORST_CACHE": str(venv / "cache")}
        mine |= {"HF_HUB_CACHE": str(venv / "hub"), "HF_HUB_OFFLINE": "1", "VIRTUAL_ENV": str(venv)}
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", command, "bash", *words],
            cwd=place, env=kept | mine, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        if done.returncode:
            raise SystemExit(f"{done.stdout}\nfailed with status {done.returncode}: {command} {' '.join(words)}")


def check_extra(machine: Machine, extra: str, wheel: Path) -> None:
    venv = machine.environment(extra or "bare")
    machine.run(venv, [*PIP, f"{wheel}[{extra}]" if extra else str(wheel)])
    modules, commands = CHECKS[extra]
    machine.run(venv, ["-c", f"import horst, {', '.join(('horst.errors', *modules))}"])
    for command in commands:
        machine.shell(venv, command)


def check_notebook(machine: Machine, wheel: Path) -> None:
    """The first notebook, with a wheel and what runs notebooks."""
    venv = machine.environment("notebook")
    machine.run(venv, [*PIP, str(wheel), "nbclient", "ipykernel"])
    notebook = ROOT / "examples" / "notebooks" / "1_see_it_work.ipynb"
    shutil.copy(notebook, venv)
    machine.run(venv, ["-m", "nbclient.cli", "--timeout=300", str(venv / notebook.name)])


def check_sdist(machine: Machine, archive: Path, wheel: Path) -> None:
    """The source distribution installs, and gives the files that the wheel gives."""
    files = []
    for file in (archive, wheel):
        venv = machine.environment(f"of-{file.suffix.strip('.')}")
        machine.run(venv, [*PIP, "--no-deps", str(file)])
        package = machine.packages(venv) / "horst"
        files.append({path.relative_to(package) for path in package.rglob("*") if "__pycache__" not in path.parts})
    if files[0] != files[1]:
        raise SystemExit(f"only in one of {archive.name} and {wheel.name}: {sorted(files[0] ^ files[1])}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="extras, 'bare', 'notebook', 'sdist' or 'container'; all by default")
    names = parser.parse_args().names or ["bare", *filter(None, CHECKS), *FURTHER]
    unknown = set(names) - {"bare", *CHECKS, *FURTHER}
    if unknown:
        parser.error(f"there are no such checks: {', '.join(sorted(unknown))}")
    wheels, archives = sorted((ROOT / "dist").glob("*.whl")), sorted((ROOT / "dist").glob("*.tar.gz"))
    if len(wheels) != 1 or len(archives) != 1:
        raise SystemExit(f"dist/ must have one wheel and one .tar.gz: {[*wheels, *archives]}; run `make wheel`")
    with tempfile.TemporaryDirectory(prefix="horst-release-") as folder:
        started = time.monotonic()
        machine = Machine(Path(folder))
        print(f"{'torch':10} {time.monotonic() - started:5.0f} s", flush=True)
        for name in names:
            started = time.monotonic()
            if name == "container":
                given = f"TORCH_INDEX={os.environ.get('PIP_INDEX_URL', 'https://pypi.org/simple')}"
                machine.run(machine.torch, [str(ROOT / "tools" / "run_containerfile.py"), "--arg", given])
            elif name == "notebook":
                check_notebook(machine, wheels[0])
            elif name == "sdist":
                check_sdist(machine, archives[0], wheels[0])
            else:
                check_extra(machine, "" if name == "bare" else name, wheels[0])
            print(f"{name:10} {time.monotonic() - started:5.0f} s", flush=True)


if __name__ == "__main__":
    main()
