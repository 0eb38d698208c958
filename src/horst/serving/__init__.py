"""Serves models over HTTP and WebSockets, with a web page and a Python client.

    horst serve somethings

    with Client("http://127.0.0.1:8000") as client:
        for prediction in client.watch("clip.mp4"):
            print(prediction["time"], prediction["answer"])

Needs the extra `serve`. The names below are imported on first use, so that a client does not import torch.
"""

from typing import TYPE_CHECKING

from horst.lazy import lazy_names

if TYPE_CHECKING:
    from horst.serving.app import create_app as create_app
    from horst.serving.client import Client as Client
    from horst.serving.limits import Limits as Limits

__getattr__ = lazy_names(__name__, {"Client": "client", "Limits": "limits", "create_app": "app"})
