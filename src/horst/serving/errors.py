"""Errors as clients see them: a status, and {"error": {"code", "message"}}."""

import logging
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from starlette.exceptions import HTTPException

from horst import errors
from horst.errors import HorstError
from horst.io import DISK_FULL
from horst.serving.metrics import Metrics

KINDS: dict[type[HorstError], tuple[int, str]] = {
    errors.BusyError: (503, "busy"),
    errors.VideoError: (422, "video"),
    errors.ConfigError: (422, "config"),
    errors.ExistsError: (409, "exists"),
    errors.CheckpointError: (422, "model"),
    errors.DataError: (422, "data"),
    errors.MissingExtraError: (501, "extra"),
    HorstError: (422, "input"),
}  # status and code by type; the first match counts
STATUSES = {
    400: ("request", "Malformed request."),
    401: ("token", "A token is required."),
    403: ("forbidden", "Wrong host, or a page of another site."),
    404: ("missing", "Not found."),
    405: ("method", "Method not allowed."),
    408: ("slow", "The body arrived too slowly."),
    409: ("running", "Conflict: already running, full, or a model of this name exists."),
    413: ("large", "The body is too large."),
    422: ("input", "Invalid value; the message names it."),
    501: ("extra", "An optional package is not installed."),
    503: ("busy", "Busy: try again later."),
    507: ("disk", "The disk of the server is full."),
}  # default code and description
BINARY = {"schema": {"type": "string", "format": "binary"}}
BINARY_BODY = {"requestBody": {"required": True, "content": {"application/octet-stream": BINARY}}}  # for OpenAPI
PATH = re.compile(r"(?<![\w.~:/\\])(?!/api/)(?:[A-Za-z]:)?(?:[/\\][^/\\\s'\":]+)+[/\\]([^/\\\s'\":,;)]+)")
log = logging.getLogger("horst.serving")


class ErrorDetail(BaseModel):
    code: str  # for programs
    message: str  # for people


class ErrorResponse(BaseModel):
    error: ErrorDetail


class ApiError(HorstError):
    """An error with a status and a code of its own."""

    def __init__(self, status: int, message: str, code: str | None = None) -> None:
        super().__init__(message)
        self.status, self.code = status, code or STATUSES[status][0]


def responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """For OpenAPI: the errors of a route."""
    return {n: {"model": ErrorResponse, "description": STATUSES[n][1]} for n in (400, 401, 403, *statuses)}


def file_response(kind: str, *statuses: int) -> dict[str, Any]:
    """For OpenAPI: the options of a route that answers with a file of this media type, or with an error."""
    return {"response_class": Response, "responses": {**responses(*statuses), 200: {"content": {kind: BINARY}}}}


def error_response(status: int, message: str, code: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    # After 408 and 413 the rest of the body is not read, so no other request can follow.
    own = {503: {"Retry-After": "5"}, 408: {"Connection": "close"}, 413: {"Connection": "close"}}.get(status, {})
    headers = {**(headers or {}), **own}
    return JSONResponse({"error": {"code": code, "message": message}}, status, headers)


def hide_paths(message: str, folder: Path | None = None) -> str:
    """A message for clients, who must not see paths of the server: only their last parts. `folder` may have spaces."""
    return PATH.sub(r"\1", message if folder is None else message.replace(f"{folder}{os.sep}", ""))


def validation_message(found: Sequence[Any]) -> str:
    """The first error of pydantic as one line."""
    return f"{'.'.join(str(part) for part in found[0]['loc'])}: {found[0]['msg']}"


def install(app: FastAPI, metrics: Metrics, folder: Path | None = None) -> None:
    """Answer every error in the same form. `folder` of the server is not named."""

    async def answer(request: Request, error: Exception) -> JSONResponse:
        if isinstance(error, ApiError):
            return error_response(error.status, hide_paths(str(error), folder), error.code)
        if isinstance(error, HorstError):
            status, code = next(known for kind, known in KINDS.items() if isinstance(error, kind))
            return error_response(status, hide_paths(str(error), folder), code)
        if isinstance(error, RequestValidationError):
            return error_response(422, validation_message(error.errors()), "input")
        if isinstance(error, HTTPException):
            code = STATUSES.get(error.status_code, ("request", ""))[0]
            return error_response(error.status_code, str(error.detail), code, error.headers)
        full = isinstance(error, OSError) and error.errno in DISK_FULL
        log.error("%s %s", request.method, request.url.path, exc_info=error)
        metrics.add(failures=1)
        if full:
            return error_response(507, "the disk of the server is full: its owner must free some space", "disk")
        return error_response(500, "internal server error", "internal")

    for kind in (HorstError, RequestValidationError, HTTPException, OSError, Exception):
        app.add_exception_handler(kind, answer)
