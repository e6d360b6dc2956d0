"""Marks in files that saferank writes, by which it knows them again before it replaces one.

A mark in Parquet and JSON also says what the file is (counts, rankings, a click model...), so that
one kind never takes the place of another.

Parquet carries the mark in its metadata, JSON under a key, ONNX as its producer, pages and pictures
where their format has room for a remark. Formats without room (CSV, LETOR text, lists in JSON) get
an extended attribute with the hash of their content; where the file system has none, they are taken
for the user's own, as they are once they were changed.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import struct
import zlib
from pathlib import Path
from typing import Any, Final

NAME: Final = "saferank"
JSON_KEY: Final = "written_by"
_HTML: Final = f'<meta name="generator" content="{NAME}">'.encode()
_REMARK: Final = f"<!-- {NAME} -->\n".encode()
_LAST_LINE: Final = {"svg": _REMARK, "md": _REMARK, "pdf": f"%{NAME}\n".encode()}
_ONNX: Final = b"\x12\x08" + NAME.encode()  # the producer, after the version of the format
_ATTRIBUTE: Final = "user.saferank"
_PNG_START: Final = 33  # signature and IHDR, which always comes first
_LARGEST_JSON: Final = 1 << 26


def parquet_mark(kind: str) -> dict[str, str]:
    """The mark of a Parquet file, for its metadata."""
    return {NAME: kind}


def marked_record(record: Any, kind: str = "") -> Any:
    """A JSON object with the mark; anything else as it is.

    >>> marked_record({"a": 1}, "click model")
    {'a': 1, 'written_by': 'saferank: click model'}
    """
    said = f"{NAME}: {kind}" if kind else NAME
    return {**record, JSON_KEY: said} if isinstance(record, dict) else record


def without_mark(record: Any) -> Any:
    """A JSON record as it was before it was marked."""
    if isinstance(record, dict) and _is_mark(record.get(JSON_KEY)):
        return {key: value for key, value in record.items() if key != JSON_KEY}
    return record


def _is_mark(said: Any) -> bool:
    return isinstance(said, str) and (said == NAME or said.startswith(f"{NAME}: "))


def kind_of(path: Path) -> str | None:
    """What a file says that it is; nothing where its mark does not tell."""
    try:
        with path.open("rb") as file:
            start = file.read(4)
        if start == b"PAR1":
            said = (_metadata(path).get(NAME.encode()) or b"").decode()
            return said if said != NAME else None
        if start[:1] == b"{":
            said = str(_record(path).get(JSON_KEY, ""))
            return said.partition(": ")[2] or None
    except (OSError, ValueError, RecursionError, MemoryError):
        pass
    return None


def mark(path: Path, form: str) -> None:
    """Add the mark to a page, a picture or Markdown: `html`, `svg`, `png`, `pdf` or `md`."""
    data = path.read_bytes()
    if form == "html":
        data = data.replace(b"<head>", b"<head>\n" + _HTML, 1)
    elif form == "png":
        data = data[:_PNG_START] + _png_chunk() + data[_PNG_START:]
    else:
        data = data + (b"" if data.endswith(b"\n") else b"\n") + _LAST_LINE[form]
    path.write_bytes(data)


def is_marked(path: Path) -> bool:
    """Whether saferank wrote a file, by its mark; the file's content tells its format."""
    try:
        return path.is_file() and (_is_marked_inside(path) or _is_labelled(path))
    except (OSError, ValueError, RecursionError, MemoryError):
        return False


def ensure_mark(path: Path) -> None:
    """Label a file whose format has no room for a mark, where the file system can."""
    if not is_marked(path) and hasattr(os, "setxattr"):
        with contextlib.suppress(OSError):
            os.setxattr(path, _ATTRIBUTE, _digest(path))


def _is_marked_inside(path: Path) -> bool:
    with path.open("rb") as file:
        start = file.read(4096)
    if start.startswith(b"PAR1"):
        return NAME.encode() in _metadata(path)
    if start.startswith(b"{"):
        return _is_mark(_record(path).get(JSON_KEY))
    if start.startswith(b"\x89PNG"):
        return start[_PNG_START:].startswith(_png_chunk())
    if start[2:].startswith(_ONNX):
        return True
    return _HTML in start or _last_line(path) in _LAST_LINE.values()


def _is_labelled(path: Path) -> bool:
    if not hasattr(os, "getxattr"):
        return False
    return os.getxattr(path, _ATTRIBUTE) == _digest(path)


def _digest(path: Path) -> bytes:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "blake2b").hexdigest()[:32].encode()


def _png_chunk() -> bytes:
    body = b"tEXtSoftware\0" + NAME.encode()
    return struct.pack(">I", len(body) - 4) + body + struct.pack(">I", zlib.crc32(body))


def _last_line(path: Path) -> bytes:
    longest = max(map(len, _LAST_LINE.values()))
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - longest - 1))
        return b"\n".join(file.read().rsplit(b"\n", 2)[-2:])


def _record(path: Path) -> dict[str, Any]:
    if path.stat().st_size > _LARGEST_JSON:
        return {}
    record = json.loads(path.read_text(encoding="utf-8"))
    return record if isinstance(record, dict) else {}


def _metadata(path: Path) -> dict[bytes, bytes]:
    import pyarrow.parquet as pq  # its errors are ValueErrors and OSErrors

    return pq.read_metadata(path).metadata or {}
