"""Names and fingerprints of parts that users bring."""

from __future__ import annotations

import hashlib
from types import CodeType
from typing import Any


def part_name(part: Any) -> str:
    """What a part of a user's is called: a function, or a value that holds one.

    >>> part_name(len)
    'len'
    """
    inner = _function(part)
    return str(getattr(inner, "__qualname__", type(inner).__qualname__))


def code_fingerprint(part: Any) -> str:
    """A name for what a function does: its code, its constants, defaults and what it encloses.

    Functions that it calls by name are not looked into.
    """
    inner = _function(part)
    digest = hashlib.blake2b(digest_size=16)
    call = inner if hasattr(inner, "__code__") else vars(type(inner)).get("__call__")
    code = getattr(call, "__code__", None)
    if code is None:
        digest.update(repr(inner).encode())
    else:
        _add(digest, code)
        cells = getattr(call, "__closure__", None) or ()
        captured = [getattr(call, "__defaults__", None), *(cell.cell_contents for cell in cells)]
        digest.update(repr([captured, getattr(inner, "__dict__", {})]).encode())
    return digest.hexdigest()


def _add(digest: Any, code: CodeType) -> None:
    digest.update(code.co_code)
    digest.update(repr(code.co_names).encode())
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            _add(digest, constant)
        else:
            digest.update(repr(constant).encode())


def _function(part: Any) -> Any:
    for name in ("documents", "build"):
        part = getattr(part, name, part)
    return part
