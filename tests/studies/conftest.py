"""Runs of studies, in this process where nothing is to be learnt from another one: torch takes seconds to start."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import pytest

from horst.cli import main


@dataclass
class Finished:
    status: int
    failed_log: Path | None = None

    def poll(self) -> int:
        return self.status

    def stop(self) -> None: ...


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """What would have been started; it is done here instead."""
    done: list[list[str]] = []

    def here(words: Sequence[str], log: Path, environment: Mapping[str, str], held: Sequence[int]) -> Finished:
        done.append(list(words))
        log.parent.mkdir(exist_ok=True)
        with log.open("a") as file, redirect_stdout(file), redirect_stderr(file):
            return Finished(main(words))

    monkeypatch.setattr("horst.tasks.start_process", here)
    monkeypatch.setattr("horst.tasks.POLL_SECONDS", 0.0)
    return done
