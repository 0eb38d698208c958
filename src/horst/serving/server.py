"""The server process: connections with limits, and a stop in two phases.

SIGTERM drains: the server is not ready (`/healthz/ready`) and refuses new sessions with 503, so a load balancer sends
them elsewhere. Open sessions go on until the last one ends, for a few seconds at most. Then the server stops: it closes
WebSockets with 1012, and ends. A second signal, or Ctrl-C, stops it at once.
"""

import signal
import socket
from time import monotonic
from types import FrameType

import uvicorn
from fastapi import FastAPI

from horst.serving.connections import connection_classes, max_connections
from horst.serving.guard import Guard
from horst.serving.limits import Limits
from horst.serving.logs import limit_repeats
from horst.serving.manager import ModelManager


class Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, manager: ModelManager, drain: float) -> None:
        super().__init__(config)
        self.manager, self.drain = manager, drain
        self._drained = float("inf")  # when the open sessions are ended

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if sig == signal.SIGTERM and not self.manager.draining:
            self._captured_signals.append(sig)  # uvicorn raises it again at the end
            self._drained = monotonic() + self.drain
            self.manager.draining = True
        else:
            super().handle_exit(sig, frame)

    async def on_tick(self, counter: int) -> bool:
        """Ten times a second; whether to stop."""
        if self.manager.draining and (not self.manager.metrics.streams or monotonic() >= self._drained):
            self.should_exit = True
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self.manager.stopped.set()  # videos that are read end at their next frame
        for connection in tuple(self.server_state.connections):
            cycle = getattr(connection, "cycle", None)
            if cycle is not None and not cycle.response_complete and (cycle.more_body or cycle.flow.write_paused):
                connection.transport.abort()  # the body may never arrive, and the answer may never be read
        await super().shutdown(sockets)


def create_server(app: Guard, *, host: str, port: int, limits: Limits, drain: float = 5.0) -> Server:
    """A server with bounded messages and connections; after SIGTERM, open sessions have `drain` seconds."""
    http, websocket = connection_classes(limits)
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        log_level="error",  # not a line for every invalid request
        access_log=False,  # URLs may contain the token
        http=http,
        ws=websocket,
        ws_max_size=limits.frame_bytes + 4096,
        ws_per_message_deflate=False,  # images are compressed already
        ws_ping_interval=20.0,
        ws_ping_timeout=20.0,
        timeout_keep_alive=20,
        timeout_graceful_shutdown=3,
        limit_concurrency=max_connections(limits),
        server_header=False,
    )
    limit_repeats()
    assert isinstance(app.app, FastAPI)
    return Server(config, app.app.state.manager, drain)
