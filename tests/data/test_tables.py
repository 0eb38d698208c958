"""Reading CSV files: cells as text, numbers and times, and the errors of other cells."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from horst.data.readers.tables import CsvRow, read_rows
from horst.errors import DataError

FILE = Path("table.csv")


@given(st.integers(0, 99), st.integers(0, 59), st.integers(0, 59_999))
def test_times_of_day_as_seconds(hours: int, minutes: int, thousandths: int) -> None:
    wanted = 3600 * hours + 60 * minutes + thousandths / 1000
    rest = f"{thousandths // 1000:02d}.{thousandths % 1000:03d}"
    assert CsvRow(FILE, 1, {"t": f"{hours:02d}:{minutes:02d}:{rest}"}).seconds("t") == pytest.approx(wanted)
    assert CsvRow(FILE, 1, {"t": f"{minutes}:{rest}"}).seconds("t") == pytest.approx(wanted - 3600 * hours)
    assert CsvRow(FILE, 1, {"t": str(wanted)}).seconds("t") == pytest.approx(wanted)


@pytest.mark.parametrize(
    ("value", "why"), [("soon", "neither seconds nor"), ("1:x", "neither"), ("-0.1", "start at 0"), ("", "t is empty")]
)
def test_invalid_times(value: str, why: str) -> None:
    with pytest.raises(DataError, match=f"table.csv, line 7.*{why}"):
        CsvRow(FILE, 7, {"t": value}).seconds("t")


def test_whole_numbers_and_columns() -> None:
    assert CsvRow(FILE, 3, {"n": "12"}).whole("n") == 12
    with pytest.raises(DataError, match=r"line 3: n is '1\.5', not a whole number"):
        CsvRow(FILE, 3, {"n": "1.5"}).whole("n")
    with pytest.raises(DataError, match=r"has no column 'verb_clas'.*'verb_class'.*there are id, verb_class"):
        CsvRow(FILE, 1, {"id": "1", "verb_class": "2"}).text("verb_clas")


def test_rows_have_line_numbers(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_bytes('\ufeffid, name\n1, a b \n\n2,"x,\ny"\n'.encode())
    assert [(row.line, row.cells) for row in read_rows(path)] == [
        (2, {"id": "1", "name": "a b"}),
        (5, {"id": "2", "name": "x,\ny"}),
    ]
    path.write_text("1,2\n3,4\n")
    assert [row.cells for row in read_rows(path, ["a", "b"])] == [{"a": "1", "b": "2"}, {"a": "3", "b": "4"}]
    for rows in ("a,b\n1,2\n3\n", "a,b\n1,2\n3,4,5\n"):
        path.write_text(rows)
        with pytest.raises(DataError, match=r"table.csv, line 3: there are not 2 columns"):
            list(read_rows(path))
    path.write_bytes(b"a,b\n\xff,2\n")
    with pytest.raises(DataError, match="line 2: byte 0xff is not UTF-8"):
        list(read_rows(path))
    with pytest.raises(DataError, match="no such file"):
        list(read_rows(tmp_path / "none.csv"))


@pytest.mark.parametrize(
    ("text", "number"),
    [("1e-9", 1e-9), ("59.94", 59.94), ("0", None), ("-1", None), ("inf", None), ("nan", None), ("x", None)],
)
def test_numbers_above_0(text: str, number: float | None) -> None:
    if number is not None:
        assert CsvRow(FILE, 3, {"n": text}).positive("n") == number
        return
    with pytest.raises(DataError, match=f"line 3: n is '{text}', not a number above 0"):
        CsvRow(FILE, 3, {"n": text}).positive("n")


def test_limits_of_numbers() -> None:
    for text, least, taken in (("0", 0, True), ("-1", 0, False), ("+1", 1, True), ("0", 1, False), ("-1", -1, True)):
        if taken:
            assert CsvRow(FILE, 3, {"n": text}).whole("n", least) == int(text)
        else:
            with pytest.raises(DataError, match=f"a whole number from {least} on"):
                CsvRow(FILE, 3, {"n": text}).whole("n", least)
    assert CsvRow(FILE, 1, {"t": "99:59:59.5"}).seconds("t") == 99 * 3600 + 59 * 60 + 59.5
    assert CsvRow(FILE, 1, {"t": "75:00"}).seconds("t") == 75 * 60
    assert CsvRow(FILE, 1, {"t": "75"}).seconds("t") == 75
    assert CsvRow(FILE, 1, {"t": "0"}).seconds("t") == 0
    for text in ("1:60:00", "1:00:60", "1:00:-1", "1:2:3:4", "inf", "1:nan"):
        with pytest.raises(DataError, match="neither seconds nor"):
            CsvRow(FILE, 1, {"t": text}).seconds("t")
