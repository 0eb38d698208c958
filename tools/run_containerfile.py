"""Run the steps of a Containerfile without a container, in an empty folder and a new virtual environment.

WORKDIR is that folder, and `python` and `pip` are those of the environment. The server listens on the loopback address
only. As root, it runs as the USER of the file, if that can read Python. The check ends when the HEALTHCHECK succeeds.

    python tools/run_containerfile.py --arg TORCH_INDEX=https://pypi.org/simple
"""

import argparse
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
KNOWN = {
    "ARG", "CMD", "COPY", "ENTRYPOINT", "ENV", "EXPOSE", "FROM", "HEALTHCHECK", "RUN", "USER", "VOLUME", "WORKDIR",
}  # fmt: skip


def parse(text: str) -> list[tuple[str, str]]:
    """The instructions, each with its argument on one line."""
    lines = re.sub(r"\\\n", " ", re.sub(r"^\s*#.*\n", "", text, flags=re.M)).splitlines()
    steps = [(name.upper(), rest.strip()) for name, _, rest in (line.strip().partition(" ") for line in lines if line)]
    unknown = {name for name, _ in steps} - KNOWN
    if unknown:
        raise SystemExit(f"unknown instructions: {', '.join(sorted(unknown))}; teach {Path(__file__).name} to run them")
    return steps


@dataclass
class ContainerRun:
    """What the instructions before a step have set."""

    context: Path
    folder: Path
    arguments: dict[str, str]
    environment: dict[str, str]
    workdir: str = "/"
    user: int | None = None
    command: list[str] = field(default_factory=list)
    default: list[str] = field(default_factory=list)
    health: list[str] = field(default_factory=list)

    def step(self, name: str, rest: str) -> None:
        if name == "WORKDIR":
            self.workdir = rest
            return
        rest = rest.replace(self.workdir, str(self.folder)) if self.workdir != "/" else rest
        if name == "COPY":
            *sources, target = rest.split()
            files = [file for source in sources for file in self.context.glob(source)]
            if len(files) != len(sources):
                raise SystemExit(f"COPY {rest}: each source must be one file, and these are there: {files}")
            for file in files:
                shutil.copy(file, self.folder / target)
        elif name == "RUN":
            print(f"RUN {rest}", flush=True)
            subprocess.run(["sh", "-ec", rest], cwd=self.folder, env=self.environment, check=True)
        elif name in ("ARG", "ENV"):
            key, _, value = rest.partition("=")
            self.environment[key] = self.arguments.get(key, value) if name == "ARG" else value
        elif name == "USER":
            self.user = int(rest)
        elif name == "ENTRYPOINT":
            self.command = json.loads(rest)
        elif name == "CMD":
            self.default = json.loads(rest)
        elif name == "HEALTHCHECK":
            self.health = json.loads(rest.partition("CMD ")[2])

    def _as_user(self) -> dict[str, Any]:
        """Options of a process as the USER of the file, if this process may change its user."""
        options: dict[str, Any] = {"user": self.user, "group": self.user, "extra_groups": []}
        try:
            subprocess.run(["python", "--version"], env=self.environment, check=True, capture_output=True, **options)
        except PermissionError:
            print("USER is ignored: this user may not change it, or Python is in a folder that it cannot read")
            return {}
        return options

    def serve(self, seconds: float = 120.0) -> None:
        """Start the default command and wait for the health check."""
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = str(listener.getsockname()[1])
        words = [*self.command, *self.default]
        command = ["127.0.0.1" if word == "0.0.0.0" else port if word == "8000" else word for word in words]
        health = [word.replace(":8000/", f":{port}/") for word in self.health]
        as_user = self._as_user()
        environment = {**self.environment, "HORST_TOKEN": "a-token-for-this-check"}
        print(f"CMD {' '.join(command)}", flush=True)
        end = time.monotonic() + seconds
        with subprocess.Popen(command, cwd=self.folder, env=environment, **as_user) as server:
            try:
                while subprocess.run(health, env=environment, cwd=self.folder, capture_output=True).returncode:
                    if server.poll() is not None or time.monotonic() > end:
                        raise SystemExit("the server of the Containerfile does not pass its health check")
                    time.sleep(0.5)
            finally:
                server.terminate()
                server.wait(30)


def run(file: Path, context: Path, arguments: dict[str, str]) -> None:
    steps = parse(file.read_text())
    with tempfile.TemporaryDirectory(prefix="horst-image-") as name:
        place = Path(name)
        place.chmod(0o755)  # for the USER of the file
        environment = place / "python"
        subprocess.run([sys.executable, "-m", "venv", environment], check=True)
        path = {"PATH": f"{environment / 'bin'}:{os.environ['PATH']}", "HOME": str(place), "PIP_QUIET": "1"}
        kept = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "PYTHONHOME")}
        container = ContainerRun(context, place / "work", arguments, {**kept, **path})
        container.folder.mkdir()
        for step in steps:
            container.step(*step)
        container.serve()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arg", action="append", default=[], metavar="NAME=VALUE", help="a value of an ARG")
    given = parser.parse_args()
    started = time.monotonic()
    run(ROOT / "Containerfile", ROOT, dict(text.split("=", 1) for text in given.arg))
    print(f"the steps of the Containerfile ran, and its server is healthy: {time.monotonic() - started:.0f} s")


if __name__ == "__main__":
    main()
