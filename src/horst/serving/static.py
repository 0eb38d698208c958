"""The page: files of the package, read once, each under its own name. No path that a client writes is opened."""

from __future__ import annotations

import html
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

from fastapi import APIRouter, FastAPI
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

KINDS = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "json": "application/json",
    "webmanifest": "application/manifest+json",
    "svg": "image/svg+xml",
    "png": "image/png",
    "ico": "image/x-icon",
    "woff2": "font/woff2",
}
START = "index.html"


def table() -> dict[str, tuple[bytes, str]]:
    """The files of the page by their path."""
    return dict(_walk(files("horst") / "assets" / "web", "/"))


def _walk(folder: Traversable, above: str) -> list[tuple[str, tuple[bytes, str]]]:
    found: list[tuple[str, tuple[bytes, str]]] = []
    if not folder.is_dir():
        return found
    for entry in sorted(folder.iterdir(), key=lambda e: e.name):
        if entry.is_dir():
            found += _walk(entry, f"{above}{entry.name}/")
        elif (kind := KINDS.get(entry.name.rpartition(".")[2])) is not None:
            found.append((above + entry.name, (entry.read_bytes(), kind)))
    return found


def routes(app: FastAPI) -> APIRouter:
    """One route for each file, and the description of the API as a page."""
    router = APIRouter(include_in_schema=False)
    pages = table()
    for path, (body, kind) in pages.items():
        router.add_api_route(path, _page(body, kind), methods=["GET", "HEAD"])
    if f"/{START}" in pages:
        router.add_api_route("/", _page(*pages[f"/{START}"]), methods=["GET", "HEAD"])

    @router.get("/docs")
    async def docs() -> HTMLResponse:
        return HTMLResponse(describe(app.openapi()))

    return router


def _page(body: bytes, kind: str) -> Any:
    async def page(request: Request) -> Response:
        return Response(body, media_type=kind, headers={"cache-control": "no-cache"})

    return page


def describe(schema: dict[str, Any]) -> str:
    """The API as plain HTML, from its OpenAPI description: it needs no script and no other site."""
    parts = []
    for path, methods in schema["paths"].items():
        for method, route in methods.items():
            parts.append(f"<h2><code>{method.upper()} {html.escape(path)}</code></h2>")
            parts.append(f"<p>{html.escape(route.get('description', route.get('summary', '')))}</p>")
            rows = [
                f"<dt><code>{html.escape(p['name'])}</code> <small>{p['in']}</small></dt>"
                f"<dd>{html.escape(p.get('description') or _kind(p['schema']))}</dd>"
                for p in route.get("parameters", ())
            ]
            for kind, body in route.get("requestBody", {}).get("content", {}).items():
                rows.append(f"<dt>body <small>{kind}</small></dt><dd>{html.escape(_kind(body['schema']))}</dd>")
            for status, told in route["responses"].items():
                kinds = [_kind(c.get("schema", {})) for c in told.get("content", {}).values()]
                shown = f"{told['description']} {', '.join(kinds)}"
                rows.append(f"<dt>{status}</dt><dd>{html.escape(shown.strip())}</dd>")
            parts.append(f"<dl>{''.join(rows)}</dl>")
    parts.append("<h2>Forms</h2>")
    for name, form in schema.get("components", {}).get("schemas", {}).items():
        fields = ", ".join(f"{key}: {_kind(value)}" for key, value in form.get("properties", {}).items())
        parts.append(f"<p id='{name}'><b>{name}</b> <code>{{{html.escape(fields)}}}</code></p>")
    return PAGE.format(body="\n".join(parts), socket=html.escape(SOCKET))


def _kind(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "anyOf" in schema:
        return " or ".join(_kind(one) for one in schema["anyOf"])
    if "enum" in schema:
        return " | ".join(map(str, schema["enum"]))
    if schema.get("type") == "array":
        return f"list of {_kind(schema.get('items', {}))}"
    if schema.get("format") == "binary":
        return "bytes"
    return str(schema.get("const") or schema.get("type", "any"))


PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>horst: API</title><link rel="stylesheet" href="base.css"></head>
<body><main><h1>API</h1>
<p>As data: <a href="openapi.json">openapi.json</a>. Errors are <code>{{"error": {{"code", "message"}}}}</code>.
Where a token is set it goes into <code>Authorization: Bearer ...</code>.</p>
<h2><code>WebSocket /ws</code></h2><pre>{socket}</pre>
{body}</main></body></html>
"""

SOCKET = """One live stream. Text messages are JSON objects with "type"; frames are binary. A token goes into
?token=..., into Authorization: Bearer ..., or into the subprotocols "horst", "token.<token>".

client  {"type": "start", "model": null, "restarts": "auto|never|every|motion", "seconds": 3, "states": 3, "top": 5,
         "threshold": 0.0, "attention": false}          all but "type" may be left out
server  {"type": "ready", "model", "size": [height, width], "fps", "tasks": {task: classes}, "order", "limits"}
   or   {"type": "busy", "message"} and close 1013, then or later
client  binary: uint32 number, float64 time in seconds, both little-endian, then a JPEG, PNG or WebP
server  {"type": "answer", "frame": number, "status", "prediction", "message"}   once for each frame, in order
          predicted  the newest prediction: {"time", "age", "answer", "top": {task: [{"name", "probability"}]},
                     "latency", "attention": {"temporal", "times", "spatial", "shape"}}
          held       no tick fell due: the model asks at its own pace
          skipped    the model could not keep up, or too many frames are under way
          refused    no picture that is taken, or too many a second: "message" says which; the stream goes on
client  {"type": "reset"} -> {"type": "reset"}           what follows is something new
client  {"type": "stop"}  -> {"type": "stopped"}, close 1000
server  {"type": "error", "code", "message"}: json, type, start (close 1008), slow (1008), idle (1001), internal (1011).
        A message that is too large is closed with 1009.
"""
