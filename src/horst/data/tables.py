"""Reading annotation files: CSV and JSON, with errors that name the file and the line."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from horst.errors import DataError, near


def read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise DataError(f"{path}: there is no such file") from error
    except (OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read as JSON: {error}") from error


def read_rows(path: Path, columns: Sequence[str] | None = None) -> Iterator[tuple[int, dict[str, str]]]:
    """(line, row) of a CSV file. Without a header in the file, `columns` names what it has."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file, fieldnames=columns, skipinitialspace=True)
            for row in reader:
                if None in row or None in row.values():
                    wanted = len(reader.fieldnames or ())
                    raise DataError(f"{path}, line {reader.line_num}: there are not {wanted} columns as in the others")
                yield reader.line_num, {key.strip(): value.strip() for key, value in row.items()}
    except FileNotFoundError as error:
        raise DataError(f"{path}: there is no such file") from error
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path} cannot be read as CSV: {error}") from error


def need(path: Path, line: int, row: dict[str, str], column: str) -> str:
    if column not in row:
        raise DataError(f"{path} has no column {column!r}{near(column, row)}; there are {', '.join(row)}")
    if not row[column]:
        raise DataError(f"{path}, line {line}: {column} is empty")
    return row[column]


def whole(path: Path, line: int, row: dict[str, str], column: str) -> int:
    value = need(path, line, row, column)
    try:
        return int(value)
    except ValueError as error:
        raise DataError(f"{path}, line {line}: {column} is {value!r}, not a whole number") from error


def seconds(path: Path, line: int, row: dict[str, str], column: str) -> float:
    """A number of seconds, or hours:minutes:seconds."""
    value = need(path, line, row, column)
    try:
        total = 0.0
        for part in value.split(":"):
            total = 60 * total + float(part)
    except ValueError as error:
        raise DataError(f"{path}, line {line}: {column} is {value!r}, neither seconds nor h:m:s") from error
    if not total >= 0:
        raise DataError(f"{path}, line {line}: {column} is {value!r}; times start at 0")
    return total
