"""Metrics in the text format of Prometheus."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from horst.serving import metrics as module
from horst.serving.metrics import BUCKETS, Metrics, memory


def values(text: str) -> dict[str, float]:
    return {name: float(value) for name, value in (x.rsplit(" ", 1) for x in text.splitlines() if x[0] != "#")}


times = st.one_of(st.floats(0, 4), st.sampled_from(BUCKETS))


@given(st.lists(times, max_size=20))
def test_latency_buckets(durations: list[float]) -> None:
    metrics = Metrics()
    for seconds in durations:
        metrics.count("predicted", seconds)
    found = values(metrics.text(0.0))
    for end in BUCKETS:
        assert found[f'horst_latency_seconds_bucket{{le="{end}"}}'] == sum(seconds <= end for seconds in durations)
    assert found['horst_latency_seconds_bucket{le="+Inf"}'] == found["horst_latency_seconds_count"] == len(durations)
    assert found["horst_latency_seconds_sum"] == pytest.approx(sum(durations), abs=1e-6)
    assert list(BUCKETS) == sorted(set(BUCKETS))


def test_counts() -> None:
    metrics = Metrics()
    fresh = values(metrics.text(0.0))
    unmoved = {name for name, value in fresh.items() if value}
    assert unmoved <= {"horst_memory_bytes", "horst_uptime_seconds"}
    metrics.add(streams=2, opened=3, busy=4, failures=5)
    metrics.add(streams=-1)
    for status in ("predicted", "not_due", "not_due", "skipped", "rejected"):
        metrics.count(status, 0.1)
    text = metrics.text(0.123456)
    found = values(text)
    counts = {"streams": 1, "streams_opened_total": 3, "busy_total": 4, "failures_total": 5, "load": 0.1235}
    assert {name: found[f"horst_{name}"] for name in counts} == counts
    answers = {"predicted": 1, "not_due": 2, "skipped": 1, "rejected": 1}
    assert {name: found[f'horst_frames_total{{status="{name}"}}'] for name in answers} == answers
    assert found["horst_latency_seconds_count"] == 1  # of those that were predicted
    assert 0 <= found["horst_uptime_seconds"] < 60
    assert text.endswith("\n")


def test_every_metric_has_help_and_type() -> None:
    lines = Metrics().text(0.5).splitlines()
    for help_line, kind_line in itertools.pairwise(lines):
        if help_line.startswith("# HELP"):
            name = help_line.split()[2]
            assert kind_line.split()[:3] == ["#", "TYPE", name]
            assert kind_line.split()[3] in ("gauge", "counter", "histogram")
            assert (kind_line.split()[3] == "counter") == name.endswith("_total")
    named = {line.split()[2] for line in lines if line.startswith("# TYPE")}
    for line in lines:
        if not line.startswith("#"):
            assert any(line.startswith(name) for name in named)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="Linux tells it there")
def test_memory_equals_the_systems_value(monkeypatch: pytest.MonkeyPatch) -> None:
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmRSS"))
    assert memory() == pytest.approx(1024 * int(line.split()[1]), rel=0.2)
    monkeypatch.setattr(module, "Path", lambda _: Path(os.devnull))  # a system without /proc
    assert memory() >= 0.8 * 1024 * int(line.split()[1])
