"""Atomic writes, claimed folders, stamps, and JSON with a checksum."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from horst.errors import DataError
from horst.io import (
    atomic_write,
    claim_folder,
    decode_checked,
    encode_checked,
    file_stamp,
    holder,
    is_locked,
    lock,
    read_checked,
    read_json,
    remove_abandoned,
    write_text,
)


def test_atomic_write(tmp_path: Path) -> None:
    path = tmp_path / "new" / "x.txt"
    write_text(path, "one")
    with pytest.raises(ZeroDivisionError), atomic_write(path) as partial:
        partial.write_text(f"two {1 / 0}")
    assert path.read_text() == "one"
    with atomic_write(path, overwrite=False) as partial:
        partial.write_text("three")
    assert path.read_text() == "one"
    with atomic_write(tmp_path / "y.txt", overwrite=False) as partial:
        partial.write_text("three")
    assert (tmp_path / "y.txt").read_text() == "three"
    assert [p.name for p in path.parent.iterdir()] == ["x.txt"]


def test_without_hard_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError("not supported")

    monkeypatch.setattr(os, "link", fail)
    for text in ("one", "two"):
        with atomic_write(tmp_path / "x", overwrite=False) as partial:
            partial.write_text(text)
    assert (tmp_path / "x").read_text() == "one"


def test_files_of_running_processes_are_not_removed(tmp_path: Path) -> None:
    """Unfinished files go when their process has ended, when they are this one's, or when they are a day old."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as running:
        here = socket.gethostname().replace(".", "-")
        writers = [(here, ended.pid), (here, os.getpid()), (here, running.pid), ("elsewhere", ended.pid)]
        files = [tmp_path / f".7.maps.{host}.{process}.partial" for host, process in writers]
        other, old = tmp_path / f".8.maps.{here}.{ended.pid}.partial", tmp_path / ".7.maps.x.1.partial"
        foreign = tmp_path / ".7.maps.partial"
        for path in (*files, other, old, foreign):
            path.touch()
        os.utime(old, (0, 0))
        remove_abandoned(tmp_path, {"7.maps"})
        running.communicate(b"\n")
    assert [path.exists() for path in files] == [False, False, True, True]
    assert other.exists()
    assert foreign.exists()
    assert not old.exists()


def test_a_claimed_folder(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    for _ in range(2):
        claim_folder(folder, {"a": 1, "size": (2, 3)}, "store")
    (folder / "x").touch()
    with pytest.raises(DataError, match=r"is another store: a differs \(1 there, 2 now\)"):
        claim_folder(folder, {"a": 2, "size": (2, 3)}, "store")
    with pytest.raises(DataError, match="is another store: b differs"):
        claim_folder(folder, {"a": 1, "size": (2, 3), "b": 1}, "store")
    claim_folder(folder, {"a": 1, "size": (2, 3), "b": 1}, "store", optional=("b",))
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    partial = folder / f".index.json.{socket.gethostname().replace('.', '-')}.{ended.pid}.partial"
    partial.touch()  # what a process leaves that is killed while it writes the index
    other = folder / ".index.partial"
    other.touch()  # of another program
    claim_folder(folder, {"a": 1, "size": (2, 3)}, "store")
    assert not partial.exists()
    other.unlink()
    (folder / "index.json").unlink()
    with pytest.raises(DataError, match="is not empty and is no store"):
        claim_folder(folder, {"a": 1}, "store")


def test_stamps(tmp_path: Path) -> None:
    assert file_stamp(tmp_path / "none") == "missing"
    (tmp_path / "v").mkdir()
    image = tmp_path / "v" / "1.jpg"
    image.write_bytes(b"x")
    before, one = file_stamp(tmp_path / "v"), file_stamp(image)
    (tmp_path / "v" / ".lock").touch()
    assert file_stamp(tmp_path / "v") == before
    os.utime(image, ns=(0, 0))  # the folder's own time is as before
    assert file_stamp(tmp_path / "v") != before
    assert file_stamp(image) != one


def test_json(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(json.dumps({str(i): i for i in range(1000)}))
    assert read_json(path) == {str(i): i for i in range(1000)}
    path.write_text('{"a": 1, "b": {"c": 1, "d": 2, "c": 1}}')
    with pytest.raises(DataError, match="the key 'c' occurs twice"):
        read_json(path)
    path.write_text("{")
    with pytest.raises(DataError, match=r"x\.json cannot be read as JSON"):
        read_json(path)
    with pytest.raises(DataError, match="no such file"):
        read_json(tmp_path / "none.json")


def test_the_form_of_a_checked_file(tmp_path: Path) -> None:
    rest = '"a": 1, "b": [2]}'
    text = '{"crc32": "%08x", %s' % (zlib.crc32(rest.encode()), rest)  # noqa: UP031
    assert encode_checked({"a": 1, "b": [2]}) == text
    assert decode_checked(text.encode()) == {"a": 1, "b": [2]}
    (tmp_path / "x.json").write_text(text)
    assert read_checked(tmp_path / "x.json") == ({"a": 1, "b": [2]}, text.encode())
    for place in range(11, len(text)):
        other = text[:place] + ("0" if text[place] != "0" else "1") + text[place + 1 :]
        with pytest.raises(ValueError, match=r"checksum"):
            decode_checked(other.encode())
    for cut in range(1, len(text)):
        with pytest.raises(ValueError, match=r"."):
            decode_checked(text[:-cut].encode())


def test_other_contents_of_a_checked_file(tmp_path: Path) -> None:
    assert decode_checked(b'{"a": 1}') == {"a": 1}  # of earlier versions
    assert decode_checked(b'{"a": 1, "crc32": "0"}') == {"a": 1}
    for raw, says in ((b"[1]", "it holds a list; a mapping is needed"), (b"[" * 100_000, "nested too deeply")):
        with pytest.raises(ValueError, match=says):
            decode_checked(raw)
        (tmp_path / "x.json").write_bytes(raw)
        with pytest.raises(DataError, match=rf"x\.json cannot be read as JSON, it is damaged: .*{says}"):
            read_checked(tmp_path / "x.json")
    with pytest.raises(DataError, match="there is no such file"):
        read_checked(tmp_path / "gone.json")


def test_a_lock_is_seen_by_others_and_ends_with_its_holder(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    assert not is_locked(folder)
    code = "import pathlib, sys, time; from horst.io import lock; held = lock(pathlib.Path(sys.argv[1]))"
    words = [sys.executable, "-c", f"{code}; print('locked', flush=True); time.sleep(600)", str(folder)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "locked\n"
        with pytest.raises(BlockingIOError, match=r"another process has the lock .*run"):
            lock(folder, wait=False)
        assert is_locked(folder)
        assert holder(folder) == f"process {other.pid} on {socket.gethostname()}"
        with ThreadPoolExecutor() as pool:
            waiting = pool.submit(lock, folder)
            with pytest.raises(TimeoutError):
                waiting.result(0.3)
            other.kill()
            with waiting.result(60):
                assert holder(folder) == f"process {os.getpid()} on {socket.gethostname()}"
    assert not is_locked(folder)
