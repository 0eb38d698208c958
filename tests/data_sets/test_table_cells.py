"""Cells of annotation tables: what they mean, and what is said of those that mean nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from horst.data.tables import need, read_json, read_rows, seconds, whole
from horst.errors import DataError

FILE = Path("table.csv")


@given(st.integers(0, 99), st.integers(0, 59), st.integers(0, 59_999))
def test_times_of_day_are_seconds(hours: int, minutes: int, thousandths: int) -> None:
    wanted = 3600 * hours + 60 * minutes + thousandths / 1000
    rest = f"{thousandths // 1000:02d}.{thousandths % 1000:03d}"
    assert seconds(FILE, 1, {"t": f"{hours:02d}:{minutes:02d}:{rest}"}, "t") == pytest.approx(wanted)
    assert seconds(FILE, 1, {"t": f"{minutes}:{rest}"}, "t") == pytest.approx(wanted - 3600 * hours)
    assert seconds(FILE, 1, {"t": str(wanted)}, "t") == pytest.approx(wanted)


@pytest.mark.parametrize(
    ("value", "why"), [("soon", "neither seconds nor"), ("1:x", "neither"), ("-0.1", "start at 0"), ("", "t is empty")]
)
def test_times_that_are_none(value: str, why: str) -> None:
    with pytest.raises(DataError, match=f"table.csv, line 7.*{why}"):
        seconds(FILE, 7, {"t": value}, "t")


def test_whole_numbers_and_columns() -> None:
    assert whole(FILE, 3, {"n": "12"}, "n") == 12
    with pytest.raises(DataError, match=r"line 3: n is '1\.5', not a whole number"):
        whole(FILE, 3, {"n": "1.5"}, "n")
    with pytest.raises(DataError, match=r"has no column 'verb_clas'.*'verb_class'.*there are id, verb_class"):
        need(FILE, 1, {"id": "1", "verb_class": "2"}, "verb_clas")


def test_rows_come_with_their_lines(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_bytes('\ufeffid, name\n1, a b \n\n2,"x,\ny"\n'.encode())
    assert list(read_rows(path)) == [(2, {"id": "1", "name": "a b"}), (5, {"id": "2", "name": "x,\ny"})]
    path.write_text("1,2\n3,4\n")
    assert list(read_rows(path, ["a", "b"])) == [(1, {"a": "1", "b": "2"}), (2, {"a": "3", "b": "4"})]
    for rows in ("a,b\n1,2\n3\n", "a,b\n1,2\n3,4,5\n"):
        path.write_text(rows)
        with pytest.raises(DataError, match=r"table.csv, line 3: there are not 2 columns"):
            list(read_rows(path))
    path.write_bytes(b"a,b\n\xff,2\n")
    with pytest.raises(DataError, match="line 2: byte 0xff is not UTF-8"):
        list(read_rows(path))
    with pytest.raises(DataError, match="no such file"):
        list(read_rows(tmp_path / "none.csv"))
    path.write_text("{")
    with pytest.raises(DataError, match="cannot be read as JSON"):
        read_json(path)
    with pytest.raises(DataError, match="no such file"):
        read_json(tmp_path / "none.json")
