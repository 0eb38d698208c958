"""Models served over HTTP and WebSockets, the page that comes with it, and a client.

    horst serve somethings

    with Client("http://127.0.0.1:8000") as client:
        for prediction in client.watch("clip.mp4"):
            print(prediction["time"], prediction["answer"])

Needs the extra `serve`. Names below are imported when they are first used: a client does not wait for torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from horst.serving.app import create_app as create_app
    from horst.serving.client import Client as Client
    from horst.serving.limits import Limits as Limits

_HOME = {"Client": "client", "Limits": "limits", "create_app": "app"}
__all__ = [*_HOME]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"horst.serving.{_HOME[name]}"), name)
    raise AttributeError(f"module 'horst.serving' has no attribute {name!r}")
