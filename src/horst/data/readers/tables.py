"""Reading text and CSV files. Errors name the file, the line, the value and the remedy."""

import csv
import io
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from horst.errors import DataError, did_you_mean


@dataclass(frozen=True, slots=True)
class CsvRow:
    """A row of a CSV file, as text by column."""

    path: Path
    line: int
    cells: dict[str, str]

    def __str__(self) -> str:
        return f"{self.path}, line {self.line}"

    def get(self, column: str) -> str:
        """The text of a cell; empty if the file has no such column."""
        return self.cells.get(column, "")

    def text(self, column: str) -> str:
        """The text of a cell, which must not be empty."""
        if column not in self.cells:
            known = f"{did_you_mean(column, self.cells)}; there are {', '.join(self.cells)}"
            raise DataError(f"{self.path} has no column {column!r}{known}")
        if not self.cells[column]:
            raise DataError(f"{self}: {column} is empty")
        return self.cells[column]

    def whole(self, column: str, least: int = 0) -> int:
        """A whole number from `least` on."""
        value = self.text(column)
        if not re.fullmatch(r"[+-]?[0-9]+", value):
            raise DataError(f"{self}: {column} is {value!r}, not a whole number")
        if int(value) < least:
            raise DataError(f"{self}: {column} is {value!r}; it is a whole number from {least} on")
        return int(value)

    def positive(self, column: str) -> float:
        """A finite number above 0."""
        value = self.text(column)
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if not 0 < number < math.inf:
            raise DataError(f"{self}: {column} is {value!r}, not a number above 0")
        return number

    def seconds(self, column: str) -> float:
        """Seconds, written as a number or as hours:minutes:seconds."""
        value = self.text(column)
        *high, last = value.split(":")
        try:
            parts = [*(int(part) if part.isascii() and part.isdigit() else math.nan for part in high), float(last)]
        except ValueError:
            parts = [math.nan]
        if not math.isfinite(sum(parts)) or len(parts) > 3 or not all(0 <= part < 60 for part in parts[1:]):
            raise DataError(f"{self}: {column} is {value!r}, neither seconds nor h:m:s")
        if parts[0] < 0:
            raise DataError(f"{self}: {column} is {value!r}; times start at 0")
        total = 0.0
        for part in parts:
            total = 60 * total + part
        return total


def read_text(path: Path) -> str:
    """The text of a file in UTF-8, with or without a byte order mark."""
    try:
        data = path.read_bytes()
        return data.decode("utf-8-sig")
    except FileNotFoundError as error:
        raise DataError(f"{path}: there is no such file") from error
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error}") from error
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        byte = f"byte {data[error.start]:#x} is not UTF-8; save the file as UTF-8"
        raise DataError(f"{path}, line {line}: {byte}") from error


def read_lines(path: Path) -> list[tuple[int, str]]:
    """(number, text) of the lines of a file that are not empty."""
    lines = enumerate(map(str.strip, read_text(path).splitlines()), 1)
    return [(number, text) for number, text in lines if text]


def read_rows(path: Path, columns: Sequence[str] | None = None) -> Iterator[CsvRow]:
    """The rows of a CSV file. `columns` names the columns of a file without a header."""
    reader = csv.DictReader(io.StringIO(read_text(path), newline=""), fieldnames=columns, skipinitialspace=True)
    try:
        names = [name.strip() for name in reader.fieldnames or ()]
        for name in names:
            if names.count(name) > 1:
                raise DataError(f"{path}: the column {name!r} occurs twice in its first line; rename one of them")
        for row in reader:
            if None in row or None in row.values():
                raise DataError(f"{path}, line {reader.line_num}: there are not {len(names)} columns as in the others")
            yield CsvRow(path, reader.line_num, {key.strip(): value.strip() for key, value in row.items()})
    except csv.Error as error:
        raise DataError(f"{path}, line {reader.line_num}: it cannot be read as CSV: {error}") from error
