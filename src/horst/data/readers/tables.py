"""Reading text and CSV files, with errors that name the file, the line, the value and the remedy."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from horst.errors import DataError, did_you_mean


def read_text(path: Path) -> str:
    """A file of text in UTF-8, with or without a byte order mark."""
    try:
        data = path.read_bytes()
        return data.decode("utf-8-sig")
    except FileNotFoundError as error:
        raise DataError(f"{path}: there is no such file") from error
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error}") from error
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise DataError(
            f"{path}, line {line}: byte {data[error.start]:#x} is not UTF-8; save the file as UTF-8"
        ) from error


def read_rows(path: Path, columns: Sequence[str] | None = None) -> Iterator[tuple[int, dict[str, str]]]:
    """(line, row) of a CSV file. Without a header in the file, `columns` names what it has."""
    reader = csv.DictReader(io.StringIO(read_text(path), newline=""), fieldnames=columns, skipinitialspace=True)
    try:
        names = [name.strip() for name in reader.fieldnames or ()]
        for name in names:
            if names.count(name) > 1:
                raise DataError(f"{path}: the column {name!r} occurs twice in its first line; rename one of them")
        for row in reader:
            if None in row or None in row.values():
                raise DataError(f"{path}, line {reader.line_num}: there are not {len(names)} columns as in the others")
            yield reader.line_num, {key.strip(): value.strip() for key, value in row.items()}
    except csv.Error as error:
        raise DataError(f"{path}, line {reader.line_num}: it cannot be read as CSV: {error}") from error


def need(path: Path, line: int, row: dict[str, str], column: str) -> str:
    if column not in row:
        raise DataError(f"{path} has no column {column!r}{did_you_mean(column, row)}; there are {', '.join(row)}")
    if not row[column]:
        raise DataError(f"{path}, line {line}: {column} is empty")
    return row[column]


def whole(path: Path, line: int, row: dict[str, str], column: str, least: int = 0) -> int:
    """A whole number from `least` on."""
    value = need(path, line, row, column)
    if not re.fullmatch(r"[+-]?[0-9]+", value):
        raise DataError(f"{path}, line {line}: {column} is {value!r}, not a whole number")
    if int(value) < least:
        raise DataError(f"{path}, line {line}: {column} is {value!r}; it is a whole number from {least} on")
    return int(value)


def positive(path: Path, line: int, row: dict[str, str], column: str) -> float:
    """A finite number above 0."""
    value = need(path, line, row, column)
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise DataError(f"{path}, line {line}: {column} is {value!r}, not a number above 0")
    return number


def seconds(path: Path, line: int, row: dict[str, str], column: str) -> float:
    """A number of seconds, or hours:minutes:seconds."""
    value = need(path, line, row, column)
    *high, last = value.split(":")
    try:
        total = float(last)
        if not math.isfinite(total) or len(high) > 2 or not all(re.fullmatch(r"[0-9]+", part) for part in high):
            raise ValueError(value)
        if high and not (0 <= total < 60 and all(int(part) < 60 for part in high[1:])):
            raise ValueError(value)
    except ValueError as error:
        raise DataError(f"{path}, line {line}: {column} is {value!r}, neither seconds nor h:m:s") from error
    if total < 0:
        raise DataError(f"{path}, line {line}: {column} is {value!r}; times start at 0")
    minutes = 0
    for part in high:
        minutes = 60 * minutes + int(part)
    return 60 * minutes + total
