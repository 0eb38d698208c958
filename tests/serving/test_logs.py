"""Log lines that clients can cause: a few of each kind."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from servers import Running, check_serving
from websockets.exceptions import ConnectionClosed

from horst.serving import logs
from horst.serving.logs import KINDS, MOST, REPEATED, SECONDS, Repeated


@pytest.fixture
def lines() -> Iterator[list[str]]:
    """What a logger with the filter lets through."""
    found, logger = list[str](), logging.getLogger("horst.test.logs")
    repeated, handler = Repeated(), logging.Handler()
    handler.emit = lambda record: found.append(record.getMessage())  # type: ignore[method-assign]
    logger.addFilter(repeated)
    logger.addHandler(handler)
    yield found
    logger.removeFilter(repeated)
    logger.removeHandler(handler)


def test_repeated_lines(lines: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    now, logger = 0.0, logging.getLogger("horst.test.logs")
    monkeypatch.setattr(logs, "monotonic", lambda: now)
    for number in range(100):
        logger.error("number %s", number)
    assert [line.split(" (")[0] for line in lines] == [f"number {number}" for number in range(MOST)]
    assert "not logged for a minute" in lines[-1]
    logger.error("another")
    assert lines[-1] == "another"
    for error in (ValueError(), KeyError()):
        logger.error("number %s", 1, exc_info=error)
    assert len(lines) == MOST + 3
    now = SECONDS + 1
    logger.error("number %s", 7)
    logger.error("number %s", 8)
    assert lines[-2:] == [f"number 7 (and {100 - MOST} more like it before)", "number 8"]


def test_kinds_are_forgotten(lines: list[str]) -> None:
    for number in range(3 * KINDS):
        logging.getLogger("horst.test.logs").error(f"line {number}")
    assert len(lines) == 3 * KINDS


def test_text_that_is_not_utf8(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(REPEATED, "_kinds", {})
    logger, handler, records = logging.getLogger("uvicorn.error"), logging.Handler(), list[logging.LogRecord]()
    handler.emit = records.append  # type: ignore[method-assign]
    logger.addHandler(handler)
    try:
        for _ in range(4 * MOST):
            with server.socket() as client:
                client.send(b"\xff\xff", text=True)
                with pytest.raises(ConnectionClosed, match="1007"):
                    client.recv(timeout=10)
    finally:
        logger.removeHandler(handler)
    assert len(records) == MOST
    check_serving(server)
