"""Files are written whole or not at all: under a temporary name first, then renamed."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from saferank.errors import InputError, require


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A temporary path in the same folder that becomes `path` if the block ends well."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        temporary.chmod(0o644)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """A temporary folder beside `path` that takes its place if the block ends well."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    old = temporary.with_name(f"{temporary.name}.old")
    try:
        yield temporary
        temporary.chmod(0o755)
        if path.exists():
            path.replace(old)
        temporary.replace(path)
    finally:
        if old.exists() and not path.exists():
            old.replace(path)
        for left in (temporary, old):
            shutil.rmtree(left, ignore_errors=True)


def write_json(path: Path, record: Any) -> None:
    """Write a record as readable JSON, keys sorted, NaN refused."""
    text = json.dumps(record, indent=2, sort_keys=True, allow_nan=False, ensure_ascii=False)
    with whole_file(path) as temporary:
        temporary.write_text(text + "\n", encoding="utf-8")


def read_json(path: Path, *, limit: int = 1 << 26) -> Any:
    """Read JSON from an untrusted file of at most `limit` bytes."""
    require(path.is_file(), "path", "a file that exists", str(path))
    size = path.stat().st_size
    require(size <= limit, str(path), f"at most {limit} bytes", size)
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise InputError(f"`{path}` must be JSON; {error}.") from error
