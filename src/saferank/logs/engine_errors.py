"""What engines raise, as one sentence: bad input, or a fault of the machine."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator

from saferank.errors import EngineError, InputError, SaferankError


@contextlib.contextmanager
def one_sentence() -> Iterator[None]:
    """Turn what an engine raises into one sentence: bad input, or a fault of the machine."""
    try:
        yield
    except SaferankError:
        raise
    except Exception as error:
        translated = _translated(error)
        if translated is None:
            raise
        raise translated from error


_INPUT_FAULTS = (
    "ConversionException",
    "InvalidInputException",
    "BinderException",
    "CatalogException",
    "TableNotFound",
    "AnalysisException",
)
_FULL_DISK = ("no space left", "file too large", "disk full", "max_temp_directory_size")


def _first_sentence(message: str) -> str:
    """The first paragraph of an engine's message on one line; some come wrapped in JSON."""
    wrapped = re.search(r'"exception_message":"((?:[^"\\]|\\.)*)"', message)
    text = json.loads(f'"{wrapped[1]}"') if wrapped else message
    return " ".join(text.strip().split("\n\n")[0].split())[:300].rstrip(".")


def _translated(error: Exception) -> SaferankError | None:
    from pyarrow import ArrowException

    kind = type(error)
    home = kind.__module__.split(".")[0]
    known = home in {"duckdb", "_duckdb", "pyspark", "py4j", "ibis", "sqlalchemy"}
    if not known and not isinstance(error, ArrowException | OSError):
        return None
    text = _first_sentence(str(error))
    if any(sign in text.lower() for sign in _FULL_DISK):
        return EngineError(f"the disk is full: {text}.")
    if kind.__name__ == "OutOfMemoryException":
        return EngineError(f"the memory limit is too small for this log; raise --memory ({text}).")
    if "JAVA_GATEWAY" in text:
        return EngineError("Spark needs Java 17 or newer, and could not start it.")
    if kind.__name__ in _INPUT_FAULTS:
        return InputError(f"the log cannot be read: {text}.")
    return EngineError(f"the engine failed: {text}.")
