"""HTTP and WebSocket connections with limits that uvicorn does not have.

- A client has `Limits.head` seconds to send the head of a request, from the first byte or from the connection itself,
  and as long until the handshake of a WebSocket is answered.
- A client that does not read what it is sent is disconnected, with all that waits to be sent.
- Few connections may wait for their clients; see `horst.serving.waiting`.
- What costs more time than its bytes tell is limited in number: small chunks of bodies, and messages, fragments, pings
  and pongs of WebSockets.
"""

import asyncio
import socket
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from horst.serving.limits import Limits
from horst.serving.rate_limiter import RateLimiter
from horst.serving.waiting import Wait, Waiting

READ_BYTES = 16 << 10  # of a WebSocket at once: what is read may have thousands of messages
PARSE_BYTES = 2 << 10  # of these at once: after each part, a client that sends too many messages is disconnected
UNSENT_BYTES = 64 << 10  # that the kernel takes before the client is ready for them, as this hides whether it reads
FLOOD = 5  # times `Limits.rate`: messages of a WebSocket per second, as also the answer "rejected" takes time
CONTROL_RATE = 20.0  # pings and pongs of a WebSocket per second, and at once: they bypass the flow control of messages
SMALL = 4 << 10  # bytes of a chunk or fragment: parsing a smaller one takes as long
FREE_CHUNKS = 64  # small ones of each body
CHUNK_RATE = 2000.0  # further small chunks per second of all bodies: about 5% of a core


def max_connections(limits: Limits) -> int:
    """Of a server, at once."""
    return 4 * limits.streams + 64


def connection_classes(limits: Limits) -> tuple[type[asyncio.Protocol], type[asyncio.Protocol]]:
    """The protocols of HTTP and WebSocket connections, for uvicorn."""
    waiting = Waiting(limits, max_connections(limits) // 2)
    chunks = RateLimiter(CHUNK_RATE)

    class Connection(asyncio.Protocol):
        transport: asyncio.Transport

        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            super().connection_made(transport)
            self.transport.set_write_buffer_limits(0)  # `pause_writing` as soon as the client must read first
            unsent = getattr(socket, "TCP_NOTSENT_LOWAT", None)
            if unsent is not None:
                transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, unsent, UNSENT_BYTES)
            waiting.begin_head(self.transport)

        def pause_writing(self) -> None:
            super().pause_writing()
            waiting.begin_read(self.transport)

        def resume_writing(self) -> None:
            super().resume_writing()
            waiting.end(self.transport, Wait.READ)

        def connection_lost(self, exc: Exception | None) -> None:
            waiting.end(self.transport)
            super().connection_lost(exc)

    class HTTPConnection(Connection, H11Protocol):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            self.conn = self.parser = Parser(chunks)

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self._follows() and not waiting.has_deadline(self.transport, Wait.HEAD):
                waiting.begin_head(self.transport)
            if self._busy() and self.conn.trailing_data[0]:  # a client that does not wait for its answers may not
                self.cycle.keep_alive = False  # read them either; the connection ends after this one

        def send_400_response(self, msg: str) -> None:
            if self._busy():  # the body of a request is malformed that the application works on: it answers no more
                self.cycle.disconnected = True
                self.cycle.message_event.set()
            try:
                super().send_400_response(self.parser.refusal or msg)
            except h11.LocalProtocolError:  # a response was sent, or a part of one
                self.transport.abort()

        def on_response_complete(self) -> None:
            super().on_response_complete()  # starts the time-out of a connection that is kept alive
            if self._follows():
                waiting.begin(self.transport, Wait.HEAD)

        def _busy(self) -> bool:
            """Whether it has a request that is not answered."""
            return self.cycle is not None and not self.cycle.response_complete

        def _follows(self) -> bool:
            """Whether it is open, and the client must send a request. If it must send a body, it is noted."""
            if self.transport.is_closing():
                waiting.end(self.transport, Wait.HEAD, Wait.BODY)
                return False
            if self.transport.get_protocol() is not self:  # it is a WebSocket
                return False
            if not self._busy():
                waiting.end(self.transport, Wait.BODY)
                return True
            waiting.end(self.transport, Wait.HEAD)
            waiting.end(self.transport, Wait.BODY)
            if self.cycle.more_body:
                waiting.begin(self.transport, Wait.BODY)
            return False

    class WebSocketConnection(Connection, WebSocketsSansIOProtocol):
        _flooded = False

        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            self._control, self._messages = RateLimiter(CONTROL_RATE), RateLimiter(FLOOD * limits.rate)

        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            super().connection_made(transport)
            if hasattr(transport, "max_size"):  # of asyncio; other loops read as much as they like
                transport.max_size = READ_BYTES

        def data_received(self, data: bytes) -> None:
            for start in range(0, len(data), PARSE_BYTES):
                if self.transport.is_closing():
                    return
                super().data_received(data[start : start + PARSE_BYTES])
                if self.conn.handshake_exc is not None:  # uvicorn does not send this answer: the head has long lines
                    self.transport.write(b"".join(self.conn.data_to_send()))
                    self.transport.close()

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

        def handle_cont(self, event: Any) -> None:
            if len(event.data) >= SMALL or self._allowed(self._messages):
                super().handle_cont(event)

        def _allowed(self, allowance: RateLimiter) -> bool:
            self._flooded = self._flooded or not allowance.take()
            return not self._flooded

        async def send(self, message: Any) -> None:
            await super().send(message)
            if self.initial_response is not None and self.close_sent:
                self.handshake_complete = True  # it was refused: no error, as uvicorn would log
            if self.handshake_complete:
                waiting.end(self.transport, Wait.HEAD)

    return HTTPConnection, WebSocketConnection


class Parser(h11.Connection):
    """Of HTTP requests; refuses bodies with too many small chunks."""

    def __init__(self, allowance: RateLimiter) -> None:
        """`allowance` of small chunks beyond those that each body may have."""
        super().__init__(h11.SERVER)
        self.refusal = ""
        self._allowance, self._free = allowance, FREE_CHUNKS

    def next_event(self) -> Any:
        event = super().next_event()
        if isinstance(event, h11.Request):
            self._free = FREE_CHUNKS
        elif isinstance(event, h11.Data) and event.chunk_start and event.chunk_end and len(event.data) < SMALL:
            self._free -= 1
            if self._free < 0 and not self._allowance.take():
                self.refusal = f"too many small chunks: send chunks of at least {SMALL} bytes"
                raise h11.RemoteProtocolError(self.refusal)
        return event
