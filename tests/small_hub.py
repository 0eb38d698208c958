"""A Hugging Face Hub on a loopback port: repositories with branches and commits, uploads (also by LFS), downloads.

It answers the requests of huggingface_hub's client as the Hub does: by the same paths, headers and error codes.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
from base64 import b64decode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import huggingface_hub.constants
import pytest
import yaml

USER, TOKEN = "some-one", "hf_secret"  # who the token belongs to
LARGE = re.compile(r".*\.(safetensors|bin)")  # stored by LFS, as .gitattributes of a new repository says
Files = dict[str, bytes]


@dataclass
class Repository:
    """Commits by their ids, and the branches and tags that name them."""

    commits: dict[str, Files] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    private: bool = False
    messages: list[str] = field(default_factory=list)

    def commit(self, branch: str, files: Files, message: str) -> str:
        ident = hashlib.sha1(repr((message, len(self.commits), sorted(files))).encode()).hexdigest()
        self.commits[ident], self.names[branch] = files, ident
        self.messages.append(message)
        return ident

    def files(self, branch: str = "main") -> Files:
        return self.commits[self.names[branch]]


@dataclass
class SmallHub:
    """What is on the server, and what it was asked for."""

    repositories: dict[str, Repository] = field(default_factory=dict)
    objects: dict[str, bytes] = field(default_factory=dict)  # of LFS, by SHA-256
    asked: list[str] = field(default_factory=list)
    url: str = ""

    def add(self, name: str, folder: Path) -> Repository:
        """A repository with the files of a folder."""
        made = self.repositories[name] = Repository()
        made.commit("main", {file.name: file.read_bytes() for file in folder.iterdir()}, "add")
        return made


class Answer(Exception):  # noqa: N818
    """What is sent back; raised, so that a check can end a request."""

    def __init__(self, status: int, data: object = b"", **headers: str) -> None:
        self.status, self.headers = status, {key.replace("_", "-"): value for key, value in headers.items()}
        self.data = data if isinstance(data, bytes) else json.dumps(data).encode()


def git_digest(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: SmallHub

    def handle_request(self) -> None:
        self.hub.asked.append(f"{self.command} {self.path}")
        body = self.rfile.read(int(self.headers["Content-Length"] or 0))
        path = self.path.partition("?")[0]
        routes = {
            r"/api/repos/create": self.create,
            r"/api/validate-yaml": self.validate,
            r"/api/models/([^/]+/[^/]+)/branch/(.+)": self.branch,
            r"/api/models/([^/]+/[^/]+)/preupload/(.+)": self.preupload,
            r"/api/models/([^/]+/[^/]+)/commit/(.+)": self.commit,
            r"/api/models/([^/]+/[^/]+)/tree/([^/]+)": self.tree,
            r"/api/models/([^/]+/[^/]+?)(?:/revision/(.+))?": self.about,
            r"/([^/]+/[^/]+)\.git/info/lfs/objects/batch": self.batch,
            r"/lfs/([0-9a-f]{64})": self.upload,
            r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)": self.resolve,
        }
        try:
            for pattern, route in routes.items():
                if found := re.fullmatch(pattern, path):
                    route(body, *found.groups())
            raise Answer(404)
        except Answer as answer:
            self.send(answer)

    do_GET = do_HEAD = do_POST = do_PUT = handle_request  # noqa: N815

    def send(self, answer: Answer) -> None:
        self.send_response(answer.status)
        kind = {"Content-Type": "application/json"} if answer.data[:1] in (b"{", b"[") else {}
        for key, value in {**kind, **answer.headers, "Content-Length": str(len(answer.data))}.items():
            self.send_header(key, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.data)

    def find(self, name: str, revision: str | None = "main", *, write: bool = False) -> tuple[Repository, str]:
        """The repository and the commit of a revision, for those who may see it."""
        known = self.headers["Authorization"] == f"Bearer {TOKEN}"
        found = self.hub.repositories.get(name)
        if found is None or (found.private and not known):
            raise Answer(404, X_Error_Code="RepoNotFound", X_Error_Message="Repository not found")
        if write and not (known and name.startswith(f"{USER}/")):
            raise Answer(403, {"error": "You have no write access"}, X_Error_Message="You have no write access")
        commit = found.names.get(revision or "main", revision or "main")
        if commit not in found.commits and found.commits:
            raise Answer(404, X_Error_Code="RevisionNotFound", X_Error_Message=f"Invalid rev id: {revision}")
        return found, commit

    def create(self, body: bytes) -> None:
        given = json.loads(body)
        if self.headers["Authorization"] != f"Bearer {TOKEN}":
            raise Answer(401, {"error": "Invalid username or password."})
        if (given.get("organization") or USER) != USER:
            raise Answer(403, {"error": "You have no rights there"}, X_Error_Message="You have no rights there")
        name = f"{USER}/{given['name']}"
        status = 409 if name in self.hub.repositories else 200
        if status == 200:
            made = self.hub.repositories[name] = Repository(
                private=given.get("private") or given.get("visibility") == "private"
            )
            made.commit("main", {".gitattributes": b"*.safetensors filter=lfs\n"}, "initial commit")
        raise Answer(status, {"url": f"{self.hub.url}/{name}", "name": name})

    def validate(self, body: bytes) -> None:
        try:
            data = yaml.safe_load(json.loads(body)["content"].split("---\n")[1])
            assert isinstance(data, dict)
        except Exception as error:
            raise Answer(400, {"errors": [{"message": str(error)}], "warnings": []}) from error
        raise Answer(200, {"errors": [], "warnings": []})

    def branch(self, body: bytes, name: str, branch: str) -> None:
        found, _ = self.find(name, write=True)
        status = 409 if branch in found.names else 200
        found.names.setdefault(branch, found.names["main"])
        raise Answer(status, {})

    def preupload(self, body: bytes, name: str, revision: str) -> None:
        self.find(name, revision, write=True)
        modes = [
            {"path": f["path"], "uploadMode": "lfs" if LARGE.fullmatch(f["path"]) else "regular", "shouldIgnore": False}
            for f in json.loads(body)["files"]
        ]
        raise Answer(200, {"files": modes})

    def batch(self, body: bytes, name: str) -> None:
        self.find(name, write=True)
        objects: list[dict[str, Any]] = json.loads(body)["objects"]
        for one in objects:
            if one["oid"] not in self.hub.objects:
                one["actions"] = {"upload": {"href": f"{self.hub.url}/lfs/{one['oid']}"}}
        raise Answer(200, {"transfer": "basic", "objects": objects})

    def upload(self, body: bytes, oid: str) -> None:
        if hashlib.sha256(body).hexdigest() != oid:
            raise Answer(400)
        self.hub.objects[oid] = body
        raise Answer(200)

    def commit(self, body: bytes, name: str, revision: str) -> None:
        found, parent = self.find(name, revision, write=True)
        files, message = dict(found.commits.get(parent, {})), ""
        for entry in map(json.loads, body.decode().splitlines()):
            key, value = entry["key"], entry["value"]
            if key == "header":
                message = value["summary"]
            elif key == "file":
                files[value["path"]] = b64decode(value["content"])
            elif key == "lfsFile":
                files[value["path"]] = self.hub.objects[value["oid"]]
            elif key == "deletedFile":
                del files[value["path"]]
        ident = found.commit(revision, files, message)
        raise Answer(200, {"commitUrl": f"{self.hub.url}/{name}/commit/{ident}", "commitOid": ident})

    def tree(self, body: bytes, name: str, revision: str) -> None:
        found, commit = self.find(name, revision)
        files = found.commits[commit].items()
        raise Answer(200, [{"type": "file", "path": p, "size": len(d), "oid": git_digest(d)} for p, d in files])

    def about(self, body: bytes, name: str, revision: str | None) -> None:
        found, commit = self.find(name, revision)
        files = [{"rfilename": path} for path in found.commits[commit]]
        about = {"id": name, "sha": commit, "siblings": files, "tags": [], "private": found.private, "downloads": 0}
        raise Answer(200, about)

    def resolve(self, body: bytes, name: str, revision: str, path: str) -> None:
        found, commit = self.find(name, revision)
        data = found.commits[commit].get(path)
        if data is None:
            raise Answer(404, X_Error_Code="EntryNotFound", X_Repo_Commit=commit)
        if LARGE.fullmatch(path):
            linked = {"X_Linked_Etag": f'"{hashlib.sha256(data).hexdigest()}"', "X_Linked_Size": str(len(data))}
            raise Answer(200, data, ETag=f'"{git_digest(data)}"', X_Repo_Commit=commit, **linked)
        raise Answer(200, data, ETag=f'"{git_digest(data)}"', X_Repo_Commit=commit)

    def log_message(self, *_: object) -> None: ...


@contextmanager
def hub(folders: Mapping[str, Path], cache: Path, *, token: str | None = TOKEN) -> Iterator[SmallHub]:
    """A server with each folder as the repository of its name.

    huggingface_hub is told the address of the server, a token, and to keep what it fetches in `cache`.
    """
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Bound", (Handler,), {"hub": (found := SmallHub())}))
    for name, folder in folders.items():
        found.add(name, folder)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    url = found.url = f"http://127.0.0.1:{server.server_port}"
    constants = huggingface_hub.constants
    template = constants.HUGGINGFACE_CO_URL_TEMPLATE
    with pytest.MonkeyPatch.context() as patch:  # what HF_ENDPOINT and the others set when Python starts
        patch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template.replace(constants.ENDPOINT, url))
        patch.setattr(constants, "ENDPOINT", url)
        patch.setattr(constants, "HF_HUB_CACHE", str(cache))
        patch.setattr(constants, "HF_HUB_OFFLINE", False)
        patch.setattr(constants, "HF_HUB_DISABLE_XET", True)  # LFS, the protocol without a storage server of its own
        patch.setattr(constants, "HF_TOKEN_PATH", str(cache / "no-token"))
        patch.delenv("HF_TOKEN", raising=False)
        if token is not None:
            patch.setenv("HF_TOKEN", token)
        try:
            yield found
        finally:
            server.shutdown()
            thread.join()
            server.server_close()
