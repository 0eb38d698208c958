"""How processes are spread over devices, and that an interruption ends them all."""

from __future__ import annotations

import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from horst import tasks
from horst.errors import ConfigError
from horst.studies import launcher
from horst.studies.config import Study
from horst.studies.plan import Job, plan

ROOT = Path(__file__).parents[2]
STUDY = {
    "name": "try",
    "title": "A try",
    "question": "Does it work?",
    "base": "somethings/cpu",
    "runs": [{"name": "a"}, {"name": "b", "changes": {"model.options.order": 3}}],
    "metrics": ["area"],
}


@dataclass
class Machine:
    """Starts what only counts the looks at it."""

    looks: int = 3
    interrupted_after: int | None = None
    running: dict[str, str] = field(default_factory=dict)
    """Device by run folder."""
    most: dict[str, int] = field(default_factory=dict)
    """At once, by device."""
    started: list[list[str]] = field(default_factory=list)
    stopped: list[str] = field(default_factory=list)

    def launch(self, words: Sequence[str], log: Path, environment: Mapping[str, str], held: Sequence[int]) -> Process:
        if len(self.started) == self.interrupted_after:
            raise KeyboardInterrupt
        self.started.append(list(words))
        device = environment.get("CUDA_VISIBLE_DEVICES", "")
        assert log.stem not in self.running  # its training is over before it is evaluated
        self.running[log.stem] = device
        count = list(self.running.values()).count(device)
        self.most[device] = max(self.most.get(device, 0), count)
        return Process(self, log.stem, self.looks, 1 if log.stem == "a-seed1" else 0)


@dataclass
class Process:
    machine: Machine
    name: str
    looks: int
    status: int
    failed_log: Path | None = None

    def poll(self) -> int | None:
        self.looks -= 1
        if self.looks > 0:
            return None
        self.machine.running.pop(self.name, None)
        return self.status

    def stop(self) -> None:
        self.machine.stopped.append(self.name)


def run_on(
    machine: Machine, jobs: Sequence[tuple[Job, Any]], report: Any = print, **options: Any
) -> list[launcher.FailedJob]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tasks, "start_process", machine.launch)
        return launcher.run_jobs(jobs, launcher=tasks.LocalLauncher(**options), report=report)


@pytest.fixture
def jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Job]:
    """a and b with seeds 0 to 4."""
    monkeypatch.setattr(tasks, "POLL_SECONDS", 0.0)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    (tmp_path / "try.yaml").write_text(yaml.safe_dump(STUDY))
    return plan(Study.from_file(tmp_path / "try.yaml"), tmp_path, seeds=range(5))


@pytest.mark.parametrize(("parallel", "devices"), [(1, ()), (3, ()), (1, (0, 2)), (2, (0, 1, 3))])
def test_runs_are_spread(jobs: list[Job], parallel: int, devices: tuple[int, ...]) -> None:
    machine, said = Machine(), []
    failures = run_on(machine, [(job, "new") for job in jobs], parallel=parallel, devices=devices, report=said.append)
    assert machine.most == dict.fromkeys(map(str, devices) if devices else [""], parallel)
    assert [failure.job.name for failure in failures] == ["a-seed1"]
    assert len(machine.started) == 10
    assert all(words[-1] == "--evaluate" for words in machine.started)
    assert sum("10" in line for line in said) >= 1
    assert machine.running == {}


@pytest.mark.parametrize(
    ("parallel", "devices", "share"), [(1, (), None), (2, (), "4"), (2, (0, 1), "2"), (9, (), "1")]
)
def test_runs_share_the_cores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, parallel: int, devices: tuple[int, ...], share: str | None
) -> None:
    """Each would take all cores, and wait for threads that have none."""
    monkeypatch.setattr(tasks, "available_cores", lambda: 8)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    given: list[Mapping[str, str]] = []
    monkeypatch.setattr(tasks, "start_process", lambda words, log, environment, locks: given.append(environment))
    for device in devices or (None,):
        tasks.LocalLauncher(parallel, devices).start(["train"], tmp_path / "log", device, alone=False)
    assert [environment.get("OMP_NUM_THREADS") for environment in given] == [share] * max(1, len(devices))
    monkeypatch.setenv("OMP_NUM_THREADS", "3")  # a choice of the user, which the process inherits
    tasks.LocalLauncher(parallel).start(["train"], tmp_path / "log", None, alone=False)
    assert "OMP_NUM_THREADS" not in given[-1]


@dataclass
class Full(Machine):
    """Has memory for `room` runs on a device: the others say so and end."""

    room: int = 2

    def launch(self, words: Sequence[str], log: Path, environment: Mapping[str, str], held: Sequence[int]) -> Process:
        process = super().launch(words, log, environment, held)
        process.status = int(list(self.running.values()).count(self.running[log.stem]) > self.room)
        if process.status:
            process.looks = 1
            log.parent.mkdir(exist_ok=True)
            log.write_text("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 222.00 MiB.\n")
        return process


@pytest.mark.parametrize("devices", [(), (0, 1)])
def test_a_run_without_memory_is_put_off(jobs: list[Job], devices: tuple[int, ...]) -> None:
    machine, said = Full(), []
    everything = [(job, "new") for job in jobs]
    failures = run_on(machine, everything, parallel=4, devices=devices, report=said.append)
    assert failures == []
    assert sum("no memory for it beside" in line for line in said) == 2 * max(len(devices), 1)
    assert sum(": done, " in line for line in said) == len(jobs)
    assert said[-1].endswith("10 of 10")

    machine = Full(room=0)  # too large for the device as it is
    failures = run_on(machine, everything[:2], parallel=2, devices=devices[:1], report=said.append)
    assert sorted(failure.job.name for failure in failures) == ["a-seed0", "b-seed0"]
    assert "out of memory" in failures[0].lines[-1]


def test_devices_are_counted_among_those_that_a_scheduler_gave(
    jobs: list[Job], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4, GPU-5")
    some = [(job, "new") for job in jobs[2:4]]
    machine = Machine()
    run_on(machine, some, devices=(1, 0), report=lambda text: None)
    assert machine.most == {"GPU-5": 1, "4": 1}
    machine = Machine()
    run_on(machine, some, report=lambda text: None)
    assert machine.most == {"": 1}  # as it is
    for given in ("4, GPU-5", ""):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", given)
        with pytest.raises(ConfigError, match=f"--devices has 2, and CUDA_VISIBLE_DEVICES is '{given}'"):
            run_on(Machine(), some, devices=(0, 2) if given else (2,))


def test_devices_count_from_0(jobs: list[Job], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5,")
    assert [tasks.visible_device(device) for device in (0, 1)] == ["4", "5"]
    for device in (-1, 2):
        with pytest.raises(ConfigError, match=f"--devices has {device}, .* among the 2 in it"):
            tasks.visible_device(device)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    assert tasks.visible_device(7) == "7"


def test_what_begins_and_ends_is_said(jobs: list[Job]) -> None:
    said: list[str] = []
    states = [(jobs[0], "new"), (jobs[1], "stopped"), (jobs[2], "trained"), (jobs[3], "done")]
    (failure,) = run_on(Machine(), states, report=said.append)
    names = [job.title for job in jobs]
    assert said == [
        f"{names[0]}: starts; {jobs[0].log}",
        f"{names[0]}: done, 0 s, 1 of 3",
        f"{names[1]}: continues; {jobs[1].log}",
        f"{names[1]}: done, 0 s, 2 of 3",
        f"{names[2]}: starts; {jobs[2].log}",
        f"{names[2]}: FAILED (1), 0 s, 3 of 3",
    ]
    assert (failure.job, failure.status, failure.lines) == (jobs[2], 1, [])


@pytest.mark.parametrize("sign", [*tasks.OUT_OF_MEMORY, "another error"])
def test_a_failure_for_memory_is_put_off_beside_others_alone(jobs: list[Job], sign: str) -> None:
    class Once(Machine):
        def launch(self, words: Sequence[str], log: Path, *more: Any) -> Process:
            process = super().launch(words, log, *more)
            process.looks, process.status = 5, 0
            if log.stem == "b-seed0" and len(self.started) == 2:
                process.looks, process.status = 1, 3
                log.parent.mkdir(exist_ok=True)
                log.write_text(f"first\nx {sign} y\nlast\n")
            return process

    said: list[str] = []
    machine = Once()
    given = [(job, "new") for job in jobs[:3]]
    failures = run_on(machine, given, parallel=2, report=said.append)
    postponed = f"{jobs[1].title}: postponed, as there is no memory for it beside 1 others"
    if sign == "another error":
        assert postponed not in said
        assert [(f.job.name, f.status) for f in failures] == [("b-seed0", 3)]
        assert len(machine.started) == 3
    else:
        assert postponed in said
        assert failures == []
        assert [Path(words[3]).name for words in machine.started] == ["a-seed0", "b-seed0", "a-seed1", "b-seed0"]
        assert machine.most == {"": 2}
        assert said[-1].endswith("3 of 3")


def test_the_last_lines_of_a_log(tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert tasks.last_lines(log) == []
    log.write_bytes(b"\n".join(b"%d" % i for i in range(20)) + b"\xff\n")
    assert tasks.last_lines(log) == [*map(str, range(8, 19)), "19\N{REPLACEMENT CHARACTER}"]
    assert tasks.last_lines(log, 1) == ["19\N{REPLACEMENT CHARACTER}"]


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with (
        pytest.raises(ConfigError, match=r"cannot be written: .*; give another --folder"),
        launcher.lock_study(tmp_path / "file"),
    ):
        pass


def test_a_kill_that_asks_is_an_interruption_while_a_study_works() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
    with tasks.sigterm_interrupts():
        inside = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
    assert inside == [signal.default_int_handler] * 2
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)] == before
    seen: list[Any] = []

    def elsewhere() -> None:
        with tasks.sigterm_interrupts():
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=elsewhere)  # where no signal can be handled
    thread.start()
    thread.join()
    assert seen == before[:1]


def test_only_what_is_left_is_started(jobs: list[Job]) -> None:
    machine = Machine()
    one, two, _, three = jobs[:4]  # but for the one that fails
    states = [(one, "done"), (two, "stopped"), (three, "trained")]
    assert run_on(machine, states, report=lambda text: None) == []
    assert [words[:2] for words in machine.started] == [
        ["train", "--resume"],
        ["evaluate", str(three.folder)],
    ]


def test_an_interruption_stops_all(jobs: list[Job]) -> None:
    machine = Machine(looks=1000, interrupted_after=3)
    with pytest.raises(KeyboardInterrupt):
        run_on(machine, [(job, "new") for job in jobs], parallel=4, report=lambda text: None)
    assert sorted(machine.stopped) == sorted(machine.running)
    assert len(machine.stopped) == 3
    with pytest.raises(ConfigError, match="parallel is 0"):
        tasks.LocalLauncher(parallel=0)


def test_what_does_not_listen_is_ended_with_all_that_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "STOP_SECONDS", 0.2)
    sleeper = "import time; time.sleep(100)"
    deaf = f"""
import signal, subprocess, sys, time
signal.signal(signal.SIGINT, signal.SIG_IGN)
inner = subprocess.Popen([sys.executable, "-c", {sleeper!r}])
print(inner.pid, flush=True)
time.sleep(100)
"""
    process = tasks.ProcessGroup([sys.executable, "-c", deaf], stdout=subprocess.PIPE, start_new_session=True)
    assert process.stdout is not None
    inner = int(process.stdout.readline())
    begin = time.monotonic()
    process.stop()
    assert time.monotonic() - begin < 20
    assert process.poll() is not None
    limit = time.monotonic() + 10
    while _alive(inner) and time.monotonic() < limit:
        time.sleep(0.02)
    assert not _alive(inner)


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the place of Python's, for `spawn`: it says that it is there, and stays."""
    file = tmp_path / "python"
    file.write_text(f"#!{sys.executable}\nimport time\nprint('ready', flush=True)\ntime.sleep(100)\n")
    file.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(file))


def _wait(log: Path) -> None:
    limit = time.monotonic() + 20
    while "ready" not in log.read_text() and time.monotonic() < limit:
        time.sleep(0.02)


@pytest.mark.usefixtures("program")
def test_a_study_in_the_background_of_a_script_is_stopped_politely(tmp_path: Path) -> None:
    """A shell lets such a process ignore Ctrl-C, and so would those that it starts."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with tasks.sigterm_interrupts():
            child = tasks.start_process([], tmp_path / "log", {})
            _wait(tmp_path / "log")
            begin = time.monotonic()
            child.stop()
            assert time.monotonic() - begin < tasks.STOP_SECONDS / 2
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
    assert "KeyboardInterrupt" in (tmp_path / "log").read_text()


@pytest.mark.usefixtures("program")
def test_a_command_in_a_log_can_be_pasted_and_its_process_keeps_the_lock(tmp_path: Path) -> None:
    words = ["train", "a run.yaml", "--optimiser={name: adamw, lr: 1.0e-05}"]
    # Like a study: pytest itself may run in the background of a script, and its child would ignore the interruption.
    with tasks.sigterm_interrupts(), launcher.lock_study(tmp_path / "study") as held:
        child = tasks.start_process(words, tmp_path / "log", {}, [held.fileno()])
    _wait(tmp_path / "log")
    assert shlex.split((tmp_path / "log").read_text().splitlines()[0]) == ["$", "horst", *words]
    says = "is in use: another `horst study`, or a run that one has left"
    with pytest.raises(ConfigError, match=says), launcher.lock_study(tmp_path / "study"):
        pass
    child.stop()
    with launcher.lock_study(tmp_path / "study"):
        pass
    (tmp_path / "file").touch()
    with (
        pytest.raises(ConfigError, match=r"cannot be written: .*; give another -"),
        launcher.lock_study(tmp_path / "file"),
    ):
        pass


def _alive(pid: int) -> bool:
    """As a process that does something: one that ended may wait to be collected."""
    status = Path(f"/proc/{pid}/stat")
    try:
        return status.read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False
