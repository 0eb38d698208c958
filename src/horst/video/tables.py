"""Tables that an mp4 claims to have, compared with its size before FFmpeg allocates memory for them.

An mp4 of 2 kB may claim 50 million samples, for which FFmpeg allocates gigabytes. `check_tables` estimates from the
headers what FFmpeg 8 will allocate. Files of other containers have no such tables, and no boxes that mean anything.
"""

import io
import os
import re
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from horst.errors import NotAVideoError

FLOOR = 160 << 20  # bytes that the tables of any file may take: 2 million samples, 7 hours of 30 fps and sound
SHARE = 2  # beyond, a table may take a byte for each two bytes of the file, which has more than 160 for a sample
SAMPLE = 80  # bytes of a sample: an index entry of 24, its times, and copies of both while edits are applied
ENCRYPTED = 200  # bytes of what an encrypted sample has besides
PART = 112  # of a fragment, for each track
REFERENCE = 128  # of a reference to another file
COUNTED = {b"trun": SAMPLE, b"senc": ENCRYPTED, b"dref": REFERENCE, b"keys": 8}
DEPTH = 12  # FFmpeg stops after 10
META = 16 << 20  # bytes of metadata in which the first box is looked for
PARENTS = frozenset(
    b"moov trak mdia minf stbl edts moof traf mvex udta dinf mfra meta tref sinf schi wave ilst".split()
)
TABLES = re.compile(rb"stsz|stz2|trun|elst|sgpd|dref|keys|senc|saiz|cmov|hdlr|stts")
# Sound of these codecs has an index entry for each chunk, not each sample, if every sample lasts one unit of time.
PCM = frozenset(b"twos sowt NONE in24 in32 fl32 fl64 ulaw alaw lpcm ipcm fpcm".split()) | {b"raw "}


class _Box(NamedTuple):
    tag: bytes
    start: int  # of its payload
    end: int


def check_tables(path: Path) -> None:
    """NotAVideoError if FFmpeg would need much more memory for the tables of a file than its size explains."""
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        limit = FLOOR + size // SHARE
        needed = _Tables(file, size, limit).needed()
    if needed > limit:
        claim = f"its headers claim tables of {needed >> 20} MB, which do not fit a file of {size} bytes"
        raise NotAVideoError(path, f"{claim}: it is damaged, or made to exhaust the memory")


class _Tables:
    """The tables of a file. FFmpeg reads them wherever they are, so that a parent does not matter."""

    def __init__(self, file: BinaryIO, size: int, limit: int, depth: int = 0) -> None:
        self.file, self.size, self.limit, self.depth = file, size, limit, depth
        self.tracks = self.fragments = self.total = self.samples = 0
        self.edits = 1
        self._start_track()

    def needed(self) -> int:
        """Bytes that FFmpeg allocates."""
        for box in self._boxes(0, self.size, self.depth):
            self._read(box)
        self._end_track()
        return self.total + self.fragments * self.tracks * PART

    def _boxes(self, at: int, end: int, depth: int) -> Iterator[_Box]:
        """All boxes up to `end`, each before those inside of it."""
        while at + 8 <= min(end, self.size):
            head = self._bytes(at, 16)
            size, tag = struct.unpack_from(">I4s", head)
            start = at + 8
            if size == 1:
                size, start = int.from_bytes(head[8:], "big"), at + 16
            elif size == 0:
                size = end - at
            if size < start - at:
                return
            inside = min(at + size, end)
            yield _Box(tag, start, inside)
            if tag == b"stsd":  # headers of several lengths precede its boxes
                for found in TABLES.finditer(self._bytes(start, inside - start)):
                    yield _Box(found[0], start + found.end(), inside)
            elif depth < DEPTH and (first := self._first_box(tag, start, inside)) is not None:
                yield from self._boxes(first, inside, depth + 1)
            at += size

    def _first_box(self, tag: bytes, start: int, end: int) -> int | None:
        """Where the boxes inside of a box begin; None if it has none."""
        if tag == b"meta":
            found = self._bytes(start, min(end - start, META)).find(b"hdlr")
            return start + found - 4 if found >= 4 else None
        if tag in (b"free", b"hoov"):  # a header that was written where there was room
            return start if self._bytes(start + 4, 4) in (b"mvhd", b"cmov") else None
        return start if tag in PARENTS else None

    def _read(self, box: _Box) -> None:
        tag, start, length = box.tag, box.start, box.end - box.start
        if tag == b"trak":
            self._end_track()
            self.tracks += 1
        elif tag in (b"stsz", b"stz2"):
            constant, samples = self._numbers(start + 4, 2)
            self.constant, self.samples = tag == b"stsz" and constant > 0, max(self.samples, samples)
        elif tag == b"stsd":
            self.codecs.append(self._bytes(start + 12, 4) if self._numbers(start + 4) == (1,) else b"")
        elif tag == b"hdlr":
            self.handlers.append(self._bytes(start + 8, 4))
        elif tag == b"stts":
            self.times.append(self._numbers(start + 4, 3))
        elif tag == b"elst":
            self.edits = max(self.edits, length // 12)
        elif tag in (b"moof", b"sidx", b"tfra"):
            self.fragments += 1 if tag == b"moof" else length // 11
        elif tag == b"cmov":
            self._decompress(self._bytes(start + 24, length - 24))
        elif tag == b"saiz":
            place = 13 if self._numbers(start)[0] & 1 else 5
            self.total += self._numbers(start + place)[0] * ENCRYPTED
        elif tag == b"sgpd" and self._bytes(start + 4, 4) == b"sync":
            version = min(2, self._bytes(start, 1)[0])
            self.total += self._numbers(start + 8 + 4 * version)[0]
        elif tag in COUNTED:
            self.total += self._numbers(start + 4)[0] * COUNTED[tag]

    def _end_track(self) -> None:
        """Add the samples of a track. In the worst case each edit repeats all of them."""
        if not self._counts_chunks():
            self.total += self.samples * self.edits * SAMPLE
        self._start_track()

    def _start_track(self) -> None:
        self.samples, self.edits, self.constant = 0, 1, False
        self.handlers: list[bytes] = []
        self.codecs: list[bytes] = []
        self.times: list[tuple[int, ...]] = []

    def _counts_chunks(self) -> bool:
        pcm = len(self.codecs) == 1 and self.codecs[0] in PCM and self.handlers[:1] == [b"soun"]
        return self.constant and pcm and [(entries, lasts) for entries, _, lasts in self.times] == [(1, 1)]

    def _decompress(self, data: bytes) -> None:
        """Read a compressed header."""
        try:
            inner = zlib.decompressobj().decompress(data, self.limit + 1)
        except zlib.error:
            return  # FFmpeg rejects it
        self.total += len(inner)
        if self.depth < DEPTH:
            self.total += _Tables(io.BytesIO(inner), len(inner), self.limit, self.depth + 1).needed()

    def _numbers(self, at: int, count: int = 1) -> tuple[int, ...]:
        return struct.unpack(f">{count}I", self._bytes(at, 4 * count).ljust(4 * count, b"\0"))

    def _bytes(self, at: int, count: int) -> bytes:
        self.file.seek(at)
        return self.file.read(max(0, min(count, self.size - at)))
