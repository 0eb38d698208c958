"""JSON files with a checksum of their own bytes, so that a flipped bit is an error and not another label.

The file is plain JSON whose first entry is "crc32", the checksum of all that follows it.
"""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any

from horst.errors import DataError
from horst.io import write_text

_HEAD = '{"crc32": "%08x", '
_LENGTH = len(_HEAD % 0)
_BEGIN = _HEAD.split("%")[0].encode()


def sealed(data: dict[str, Any]) -> str:
    """A mapping that is not empty as text."""
    rest = json.dumps(data)[1:]
    return _HEAD % zlib.crc32(rest.encode()) + rest


def unsealed(raw: bytes) -> dict[str, Any]:
    """The mapping. ValueError where the checksum does not match; text without one, of earlier versions, is read too."""
    if raw.startswith(_BEGIN) and raw[:_LENGTH] != (_HEAD % zlib.crc32(raw[_LENGTH:])).encode():
        raise ValueError("its checksum does not match")
    try:
        data = json.loads(raw)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    if not isinstance(data, dict):
        raise ValueError(f"it holds a {type(data).__name__}; a mapping is needed")
    data.pop("crc32", None)
    return data


def write_sealed(path: Path, data: dict[str, Any]) -> None:
    """Write a mapping that is not empty, whole or not at all."""
    write_text(path, sealed(data))


def read_sealed(path: Path) -> tuple[dict[str, Any], bytes]:
    """The mapping, and the bytes of the file."""
    try:
        raw = path.read_bytes()
        return unsealed(raw), raw
    except FileNotFoundError as error:
        raise DataError(f"{path}: there is no such file") from error
    except (OSError, ValueError) as error:
        raise DataError(
            f"{path} cannot be read as JSON, it is damaged: {error}; restore it or make it again"
        ) from error
