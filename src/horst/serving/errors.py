"""Errors as a client sees them: a status, and {"error": {"code", "message"}}."""

from __future__ import annotations

import logging
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from starlette.exceptions import HTTPException

from horst.errors import (
    BusyError,
    CheckpointError,
    ConfigError,
    DataError,
    HorstError,
    InputError,
    MissingExtraError,
    VideoError,
)
from horst.serving.metrics import Metrics

KINDS: dict[type[HorstError], tuple[int, str]] = {
    BusyError: (503, "busy"),
    VideoError: (422, "video"),
    ConfigError: (422, "config"),
    CheckpointError: (422, "model"),
    DataError: (422, "data"),
    InputError: (422, "input"),
    MissingExtraError: (501, "extra"),
}
CODES = {400: "request", 401: "token", 403: "forbidden", 404: "missing", 405: "method", 409: "running", 413: "large"}

log = logging.getLogger("horst.serving")


class Fault(BaseModel):
    code: str
    """A word for programs."""
    message: str
    """A sentence for people."""


class Problem(BaseModel):
    """What every request is answered with that could not be met."""

    error: Fault


class ApiError(Exception):
    """A request that is answered with a problem."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code = status, code


MEANINGS = {
    400: "The request itself is broken.",
    401: "A token is needed.",
    403: "A page of another site, or another name of this host.",
    404: "There is no such thing.",
    405: "Another method is needed.",
    409: "Something is at work already.",
    413: "The body is too large.",
    422: "A value that cannot be worked with; the message says which.",
    503: "Busy: later there may be room.",
}


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """For OpenAPI: what a route may answer besides what was asked for."""
    return {n: {"model": Problem, "description": MEANINGS[n]} for n in (400, 401, 403, *statuses)}


def install(app: FastAPI, metrics: Metrics) -> None:
    """Answers every error in the one form."""

    @app.exception_handler(HorstError)
    async def ours(request: Request, error: HorstError) -> JSONResponse:
        for kind, (status, code) in KINDS.items():
            if isinstance(error, kind):
                return answer(status, code, str(error))
        return answer(422, "input", str(error))

    @app.exception_handler(ApiError)
    async def api(request: Request, error: ApiError) -> JSONResponse:
        return answer(error.status, error.code, str(error))

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        return answer(422, "input", f"{where}: {first['msg']}")

    @app.exception_handler(HTTPException)
    async def http(request: Request, error: HTTPException) -> JSONResponse:
        response = answer(error.status_code, CODES.get(error.status_code, "request"), str(error.detail))
        response.headers.update(error.headers or {})
        return response

    @app.exception_handler(Exception)
    async def unforeseen(request: Request, error: Exception) -> JSONResponse:
        log.error("%s %s", request.method, request.url.path, exc_info=error)
        metrics.add(failures=1)
        return answer(500, "internal", "the server made a mistake")


def answer(status: int, code: str, message: str) -> JSONResponse:
    headers = {"Retry-After": "5"} if status == 503 else None
    return JSONResponse({"error": {"code": code, "message": message}}, status, headers)
