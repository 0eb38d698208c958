"""Connections that wait for their client, which must send a request, its body or a handshake, or read an answer.

Few may wait, of one address and in all. A further one takes the place of the one that has waited the longest without
progress, so one client cannot take all connections, and nobody is refused.
"""

import asyncio
from enum import Enum
from typing import Any

from horst.serving.limits import MIN_RATE, Limits


class Wait(Enum):
    """What the client must do."""

    HEAD = "send the head of a request, or complete the handshake"
    BODY = "send the body"
    READ = "read what it was sent"


class Waiting:
    def __init__(self, limits: Limits, most: int) -> None:
        self.limits, self._most = limits, most
        self._deadlines: dict[tuple[asyncio.Transport, Wait], asyncio.TimerHandle | None] = {}  # longest wait first

    def begin(self, transport: asyncio.Transport, wait: Wait, deadline: asyncio.TimerHandle | None = None) -> None:
        """The client must act, before `deadline` if there is one. If it had to already, it has made progress."""
        self.end(transport, wait)
        self._deadlines[transport, wait] = deadline
        waiting = list(dict.fromkeys(transport for transport, _ in self._deadlines))
        own = [other for other in waiting if _address(other) == _address(transport)]
        if len(own) > self.limits.waiting or len(waiting) > self._most:
            others = own if len(own) > self.limits.waiting else waiting
            # of the same wait if possible: a client whose request is on its way does not end for one that never reads
            same = [other for other in others if other is not transport and (other, wait) in self._deadlines]
            oldest = (same or others)[0]
            oldest.abort()
            self.end(oldest)

    def begin_head(self, transport: asyncio.Transport) -> None:
        """The client must complete a head in time."""
        loop = asyncio.get_running_loop()
        self.begin(transport, Wait.HEAD, loop.call_later(self.limits.head, transport.abort))

    def begin_read(self, transport: asyncio.Transport) -> None:
        """The client must read `MIN_RATE` on average, or all that waits to be sent."""
        left = transport.get_write_buffer_size()

        def check() -> None:
            if left - transport.get_write_buffer_size() < self.limits.slow * MIN_RATE:
                transport.abort()  # also after `close`, which waits until everything is sent
            else:
                self.begin_read(transport)

        loop = asyncio.get_running_loop()
        self.begin(transport, Wait.READ, loop.call_later(self.limits.slow, check))

    def has_deadline(self, transport: asyncio.Transport, wait: Wait) -> bool:
        return self._deadlines.get((transport, wait)) is not None

    def end(self, transport: asyncio.Transport, *waits: Wait) -> None:
        """The client has done this; by default all."""
        for wait in waits or Wait:
            deadline = self._deadlines.pop((transport, wait), None)
            if deadline is not None:
                deadline.cancel()


def _address(transport: asyncio.Transport) -> Any:
    name = transport.get_extra_info("peername")
    return name[0] if isinstance(name, tuple) else name
