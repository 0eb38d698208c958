"""The web page, and `/docs`, which describes the API. Only files of the package are served, looked up by name."""

import html
from collections.abc import Iterator
from pathlib import Path
from string import Template
from typing import Any

from fastapi import APIRouter, FastAPI, Request
from starlette.responses import FileResponse, HTMLResponse

from horst.serving.errors import ApiError

ASSETS = Path(__file__).parents[1] / "assets"
PAGES = {file.name: file for file in (ASSETS / "web").iterdir()}
TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


def page_routes(app: FastAPI) -> APIRouter:
    """To be included last, as `/{name}` matches all names."""
    router = APIRouter(include_in_schema=False)

    @router.get("/docs")
    async def docs(request: Request) -> HTMLResponse:
        template = Template((ASSETS / "api.html").read_text(encoding="utf-8"))
        address = html.escape(str(request.base_url).rstrip("/"))  # for the examples: the one that the reader uses
        socket = address.replace("http", "ws", 1)
        routes = "\n".join(describe(app.openapi()))
        return HTMLResponse(template.substitute(address=address, socket=socket, routes=routes))

    @router.api_route("/", methods=["GET", "HEAD"])
    @router.api_route("/{name}", methods=["GET", "HEAD"])
    async def page(name: str = "index.html") -> FileResponse:
        if name not in PAGES:
            raise ApiError(404, f"there is no page {name!r}")
        return FileResponse(PAGES[name], media_type=TYPES[PAGES[name].suffix])

    return router


def describe(schema: dict[str, Any]) -> Iterator[str]:
    """HTML of an OpenAPI description: routes, then schemas."""
    for path, methods in schema["paths"].items():
        for method, route in methods.items():
            yield f"<h2><code>{method.upper()} {html.escape(path)}</code></h2>"
            yield f"<p>{html.escape(route.get('description', ''))}</p>"
            rows = [
                (p["name"], p["in"], p.get("description") or _type(p["schema"])) for p in route.get("parameters", ())
            ]
            body = route.get("requestBody", {}).get("content", {})
            rows += [("body", kind, _type(content["schema"])) for kind, content in body.items()]
            for status, response in route["responses"].items():
                types = [_type(content.get("schema", {})) for content in response.get("content", {}).values()]
                if status < "400":
                    rows.append((status, "", ", ".join(types)))
            rows.append(("errors", "", ", ".join(status for status in route["responses"] if status >= "400")))
            items = (f"<dt>{html.escape(a)} <small>{b}</small></dt><dd>{html.escape(c)}</dd>" for a, b, c in rows if c)
            yield f"<dl>{''.join(items)}</dl>"
    yield "<h2>Schemas</h2>"
    for name, form in schema["components"]["schemas"].items():
        fields = ", ".join(f"{key}: {_type(value)}" for key, value in form.get("properties", {}).items())
        yield f"<p id='{name}'><b>{name}</b> <code>{{{html.escape(fields)}}}</code></p>"


def _type(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "anyOf" in schema:
        return " or ".join(_type(one) for one in schema["anyOf"])
    if "enum" in schema:
        return " | ".join(map(str, schema["enum"]))
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}"
    if schema.get("format") == "binary":
        return "bytes"
    return str(schema.get("const") or schema.get("type", "any"))
