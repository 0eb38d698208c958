"""A Hugging Face Hub on a loopback port: what huggingface_hub asks for to fetch a repository, and no more."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import huggingface_hub.constants
import pytest

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def digest(data: bytes) -> str:
    """As git names a file."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


@contextmanager
def hub(folders: dict[str, Path], cache: Path) -> Iterator[list[str]]:
    """Serves each folder as the repository of its name; the paths that were asked for are gathered.

    huggingface_hub is told the address of the server, and to keep what it fetches in `cache`.
    """
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            asked.append(self.path)
            parts = self.path.partition("?")[0].strip("/").split("/")
            name = "/".join(parts[2:4] if parts[0] == "api" else parts[:2])
            folder = folders.get(name)
            if folder is None:
                self.answer(404, b"", {"X-Error-Code": "RepoNotFound"})
            elif parts[0] == "api" and parts[4:5] == ["tree"]:
                files = [
                    {"type": "file", "path": file.name, "size": file.stat().st_size, "oid": digest(file.read_bytes())}
                    for file in folder.iterdir()
                ]
                self.answer(200, json.dumps(files).encode(), {"Content-Type": "application/json"})
            elif parts[0] == "api":
                files = [{"rfilename": file.name} for file in folder.iterdir()]
                about = {"id": name, "sha": COMMIT, "siblings": files, "tags": [], "private": False, "downloads": 0}
                self.answer(200, json.dumps(about).encode(), {"Content-Type": "application/json"})
            elif not (folder / parts[-1]).is_file():
                self.answer(404, b"", {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": COMMIT})
            else:
                data = (folder / parts[-1]).read_bytes()
                self.answer(200, data, {"ETag": f'"{digest(data)}"', "X-Repo-Commit": COMMIT})

        do_HEAD = do_GET  # noqa: N815

        def answer(self, status: int, data: bytes, headers: dict[str, str]) -> None:
            self.send_response(status)
            for key, value in {**headers, "Content-Length": str(len(data))}.items():
                self.send_header(key, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(data)

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    url = f"http://127.0.0.1:{server.server_port}"
    constants = huggingface_hub.constants
    template = constants.HUGGINGFACE_CO_URL_TEMPLATE
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template.replace(constants.ENDPOINT, url))
        patch.setattr(constants, "ENDPOINT", url)
        patch.setattr(constants, "HF_HUB_CACHE", str(cache))
        patch.setattr(constants, "HF_HUB_OFFLINE", False)
        try:
            yield asked
        finally:
            server.shutdown()
            thread.join()
            server.server_close()
