"""A Hugging Face Hub on a loopback port: the requests of huggingface_hub to download or upload a repository."""

from __future__ import annotations

import hashlib
import json
import threading
from base64 import b64decode
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

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            parts = self.path.partition("?")[0].strip("/").split("/")
            name, action = "/".join(parts[2:4]), parts[4] if len(parts) > 4 else ""
            found: dict[str, object] = {}
            if action and name not in folders:
                return self.answer(404, b"", {"X-Error-Code": "RepoNotFound"})
            if parts[1:] == ["repos", "create"]:
                given = json.loads(body)
                found = {"url": f"{url}/{given.get('organization', 'me')}/{given['name']}"}
            elif action == "preupload":
                files = json.loads(body)["files"]
                found = {"files": [{"path": f["path"], "uploadMode": "regular", "shouldIgnore": False} for f in files]}
            elif action == "commit":
                for entry in map(json.loads, body.splitlines()):
                    if entry["key"] == "file":
                        (folders[name] / entry["value"]["path"]).write_bytes(b64decode(entry["value"]["content"]))
                found = {"commitUrl": f"{url}/{name}/commit/{COMMIT}", "commitOid": COMMIT}
            self.answer(200, json.dumps(found).encode(), {"Content-Type": "application/json"})

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
