"""Log lines of which clients cause many: a few of each kind, then how many more there were."""

import logging
from time import monotonic

MOST, SECONDS = 5, 60.0  # lines of a kind within this time
KINDS = 1000  # that are remembered


class Repeated(logging.Filter):
    """Drops the further lines of a kind: with the same text before its values, and the same type of exception."""

    def __init__(self) -> None:
        super().__init__()
        self._kinds: dict[tuple[object, ...], tuple[float, int]] = {}  # when they began, and how many there were

    def filter(self, record: logging.LogRecord) -> bool:
        kind = record.name, record.msg, record.exc_info and record.exc_info[0]
        now = monotonic()
        if len(self._kinds) >= KINDS:
            self._kinds.clear()
        began, count = self._kinds.get(kind, (now, 0))
        if count == 0 or now - began > SECONDS:
            began, dropped, count = now, count - MOST, 0
            if dropped > 0:
                record.msg = f"{record.msg} (and {dropped} more like it before)"
        self._kinds[kind] = began, count + 1
        if count + 1 == MOST:
            record.msg = f"{record.msg} (further ones like it are not logged for a minute)"
        return count < MOST


REPEATED = Repeated()


def limit_repeats() -> None:
    """For the loggers of a server."""
    for name in ("uvicorn.error", "horst.serving"):
        logging.getLogger(name).addFilter(REPEATED)
