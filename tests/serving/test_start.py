"""What a client may ask for at the start, and how many frames of it are taken."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from horst.errors import InputError
from horst.serving import Limits
from horst.serving.socket import Session, Start
from horst.serving.wire import join_frame

LIMITS = Limits(states=4)


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("seconds", [0.001, 1, 3600], [0, -1, 3600.5, "3", True]),
        ("states", [1, 4], [0, 5, 1.0, True]),
        ("top", [1, 1000], [0, 1001, 2.5, False]),
        ("threshold", [0, 0.5, 1], [-0.01, 1.01, "0", True]),
        ("attention", [True, False], [1, 0, "yes"]),
        ("model", ["tiny"], [3]),
        ("restarts", ["every"], [1, True]),
    ],
)
def test_values_that_are_taken(name: str, good: list[Any], bad: list[Any]) -> None:
    for value in good:
        assert getattr(Start.parsed({"type": "start", name: value}, LIMITS), name) == value
    for value in bad:
        with pytest.raises(InputError):
            Start.parsed({"type": "start", name: value}, LIMITS)
    assert Start.parsed({"type": "start", name: None}, LIMITS) == Start()
    with pytest.raises(InputError, match="start has no 'speed'"):
        Start.parsed({"speed": 1}, LIMITS)


def statuses(times: list[float], monkeypatch: pytest.MonkeyPatch, answered: bool = True, **limits: float) -> list[str]:
    """What becomes of frames that arrive at these times: taken, refused or skipped."""
    now = 0.0
    monkeypatch.setattr("horst.serving.socket.time.monotonic", lambda: now)
    engine = SimpleNamespace(hand_over=lambda guest, ticket: None)
    nobody = SimpleNamespace(submit=lambda *_: None)

    async def run() -> list[str]:
        nonlocal now
        session = Session(None, None, Limits(**limits), None, nobody)  # type: ignore[arg-type]
        session._engine, session._guest = engine, None  # type: ignore[assignment]
        for time in times:
            now = time
            session._take(join_frame(7, time, b"picture"))
            session._under_way = 0 if answered else session._under_way
        assert {ticket.number for ticket in session._tickets} == {7}
        return [ticket.status or "taken" for ticket in session._tickets]

    return asyncio.run(run())


@pytest.mark.parametrize("rate", [10.0, 30.0])
def test_frames_are_taken_at_the_granted_rate(rate: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second's worth may come at once. What is not used is granted later, up to a second's worth."""
    assert statuses([i / rate for i in range(200)], monkeypatch, rate=rate) == ["taken"] * 200
    burst = statuses([0.0] * 40 + [0.5] * 40 + [10.0] * 40, monkeypatch, rate=rate)
    taken = [burst[i : i + 40].count("taken") for i in (0, 40, 80)]
    assert taken == [rate, rate / 2, rate]
    assert set(burst) == {"taken", "refused"}


@pytest.mark.parametrize("rate", [10.0, 30.0])
@pytest.mark.parametrize("times", [1.1, 2.0, 5.0])
def test_a_client_above_the_rate_gets_the_rate(times: float, rate: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """For 20 seconds: a second's worth at once, then as many frames as are granted. Refused ones cost nothing."""
    sent = statuses([i / (times * rate) for i in range(round(20 * times * rate))], monkeypatch, rate=rate)
    assert sent.count("taken") == pytest.approx(min(21 * rate, len(sent)), abs=2)
    assert set(sent[-round(2 * times * rate) :]) == {"taken", "refused"}


def test_a_skipped_frame_counts_for_the_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    assert statuses([0.0] * 8, monkeypatch, answered=False, in_flight=4, rate=6.0) == (
        ["taken"] * 4 + ["skipped"] * 2 + ["refused"] * 2
    )


def test_no_more_are_under_way_than_granted(monkeypatch: pytest.MonkeyPatch) -> None:
    assert statuses([0.0] * 6, monkeypatch, answered=False, in_flight=4) == ["taken"] * 4 + ["skipped"] * 2


def test_a_refused_frame_is_answered_by_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> list[tuple[int, Any]]:
        session = Session(None, None, Limits(frame_bytes=4), None, None)  # type: ignore[arg-type]
        for message in (
            join_frame(258, 0.0, b"too large"),
            b"\x03\x00\x00\x00",
            b"\x03\x00\x00",
            b"\x01\x02\x00\x00\xff",
        ):
            session._take(message)
        return [(ticket.number, ticket.status) for ticket in session._tickets]

    assert asyncio.run(run()) == [(258, "refused"), (3, "refused"), (0, "refused"), (513, "refused")]
