"""Serves models over HTTP and WebSockets (`horst serve`), with a web page and a Python client.

Needs the extra `serve`. The names below are imported on first use, so that a client does not import torch.
"""

from typing import TYPE_CHECKING

from horst.extras import lazy_names

if TYPE_CHECKING:
    from horst.serving.app import create_app as create_app
    from horst.serving.client import Client as Client
    from horst.serving.limits import Limits as Limits

__getattr__ = lazy_names(__name__, {"Client": "client", "Limits": "limits", "create_app": "app"})
