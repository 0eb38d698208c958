"""HTTP and WebSocket connections with limits that uvicorn does not have.

- A client has `Limits.head` seconds to send the head of a request, from the first byte or from the connection itself.
- Few connections may wait for a request, of one address and in all. A further one takes the place of the oldest.
- A client that does not read what it is sent is disconnected, with all that waits to be sent; so is one that sends too
  many messages, pings or pongs.
"""

import asyncio
from typing import Any

from h11 import LocalProtocolError
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from horst.serving.limits import Limits
from horst.serving.rate_limiter import RateLimiter

READ_BYTES = 16 << 10  # at once: what is read is parsed at once, and may have thousands of messages
FLOOD = 5  # times `Limits.rate`: messages of a WebSocket per second, as also the answer "rejected" takes time
CONTROL_RATE = 20.0  # pings and pongs of a WebSocket per second, and at once: they bypass the flow control of messages


def max_connections(limits: Limits) -> int:
    """Of a server, at once."""
    return 4 * limits.streams + 64


def connection_classes(limits: Limits) -> tuple[type[asyncio.Protocol], type[asyncio.Protocol]]:
    """The protocols of HTTP and WebSocket connections, for uvicorn."""
    waiting: dict[Any, None] = {}  # for a request, the oldest first

    class HTTPConnection(H11Protocol):
        _deadline: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._wait()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self.transport.is_closing() or self.transport.get_protocol() is not self or self._busy():
                self._stop_waiting()
            elif self._deadline is None:
                self._wait()

        def send_400_response(self, msg: str) -> None:
            if self._busy():  # the body of a request is malformed that the application works on: it answers no more
                self.cycle.disconnected = True
                self.cycle.message_event.set()
            try:
                super().send_400_response(msg)
            except LocalProtocolError:  # a response was sent, or a part of one
                self.transport.abort()

        def on_response_complete(self) -> None:
            super().on_response_complete()  # starts the time-out of a connection that is kept alive
            if not self.transport.is_closing() and not self._busy():
                waiting[self] = None

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_waiting()
            super().connection_lost(exc)

        def _busy(self) -> bool:
            """Whether it has a request that is not answered."""
            return self.cycle is not None and not self.cycle.response_complete

        def _wait(self) -> None:
            self._deadline = self.loop.call_later(limits.head, self.transport.abort)
            waiting[self] = None
            own = [other for other in waiting if other.client and self.client and other.client[0] == self.client[0]]
            if len(own) > limits.waiting or len(waiting) > max_connections(limits) // 2:
                oldest = own[0] if len(own) > limits.waiting else next(iter(waiting))
                oldest.transport.abort()
                oldest._stop_waiting()

        def _stop_waiting(self) -> None:
            waiting.pop(self, None)
            if self._deadline is not None:
                self._deadline.cancel()
                self._deadline = None

    class WebSocketConnection(WebSocketsSansIOProtocol):
        _stalled: asyncio.TimerHandle | None = None
        _flooded = False

        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            self._control, self._messages = RateLimiter(CONTROL_RATE), RateLimiter(FLOOD * limits.rate)

        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            super().connection_made(transport)
            if hasattr(transport, "max_size"):  # of asyncio; other loops read as much as they like
                transport.max_size = READ_BYTES

        def pause_writing(self) -> None:
            super().pause_writing()
            self._stalled = self.loop.call_later(limits.slow, self.transport.abort)

        def resume_writing(self) -> None:
            super().resume_writing()
            self._resume()

        def connection_lost(self, exc: Exception | None) -> None:
            self._resume()
            super().connection_lost(exc)

        def handle_events(self) -> None:
            super().handle_events()
            if self._flooded:  # not closed in order: it would be read for ten more seconds
                self.transport.abort()

        def handle_ping(self) -> None:
            if self._allowed(self._control):
                super().handle_ping()

        def handle_pong(self, event: Any) -> None:
            if self._allowed(self._control):
                super().handle_pong(event)

        def handle_text(self, event: Any) -> None:
            if self._allowed(self._messages):
                super().handle_text(event)

        def handle_bytes(self, event: Any) -> None:
            if self._allowed(self._messages):
                super().handle_bytes(event)

        def _allowed(self, allowance: RateLimiter) -> bool:
            self._flooded = self._flooded or not allowance.take()
            return not self._flooded

        async def send(self, message: Any) -> None:
            await super().send(message)
            if self.initial_response is not None and self.close_sent:
                self.handshake_complete = True  # it was refused: no error, as uvicorn would log

        def _resume(self) -> None:
            if self._stalled is not None:
                self._stalled.cancel()
                self._stalled = None

    return HTTPConnection, WebSocketConnection
