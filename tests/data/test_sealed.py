"""JSON with a checksum: its form is fixed, and any other bytes are refused."""

from __future__ import annotations

import zlib
from pathlib import Path

import pytest

from horst.data.sealed import read_sealed, sealed, unsealed, write_sealed
from horst.errors import DataError


def test_the_form_of_a_file(tmp_path: Path) -> None:
    rest = '"a": 1, "b": [2]}'
    text = '{"crc32": "%08x", %s' % (zlib.crc32(rest.encode()), rest)  # noqa: UP031
    assert sealed({"a": 1, "b": [2]}) == text
    assert unsealed(text.encode()) == {"a": 1, "b": [2]}
    write_sealed(tmp_path / "x.json", {"a": 1, "b": [2]})
    assert read_sealed(tmp_path / "x.json") == ({"a": 1, "b": [2]}, text.encode())
    for place in range(11, len(text)):
        other = text[:place] + ("0" if text[place] != "0" else "1") + text[place + 1 :]
        with pytest.raises(ValueError, match=r"checksum"):
            unsealed(other.encode())
    for cut in range(1, len(text)):
        with pytest.raises(ValueError, match=r"."):
            unsealed(text[:-cut].encode())


def test_what_is_no_sealed_mapping(tmp_path: Path) -> None:
    assert unsealed(b'{"a": 1}') == {"a": 1}  # of earlier versions
    assert unsealed(b'{"a": 1, "crc32": "0"}') == {"a": 1}
    for raw, says in ((b"[1]", "it holds a list; a mapping is needed"), (b"[" * 100_000, "nested too deeply")):
        with pytest.raises(ValueError, match=says):
            unsealed(raw)
        (tmp_path / "x.json").write_bytes(raw)
        with pytest.raises(DataError, match=rf"x\.json cannot be read as JSON, it is damaged: .*{says}"):
            read_sealed(tmp_path / "x.json")
    with pytest.raises(DataError, match="there is no such file"):
        read_sealed(tmp_path / "gone.json")
