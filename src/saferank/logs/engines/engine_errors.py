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
_OVERFLOW = (
    "Failed to cast decimal value", "Overflow in addition", "CAST_OVERFLOW", "ARITHMETIC_OVERFLOW",
)  # fmt: skip
_DAMAGE = ("Could not read enough bytes from file", "FAILED_READ_FILE")
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
    engine = home in {"duckdb", "_duckdb", "pyspark", "py4j", "ibis", "sqlalchemy"}
    if isinstance(error, UnicodeError):
        return InputError(f"the log cannot be read: a name or a text in it is not UTF-8 ({error}).")
    if isinstance(error, MemoryError):
        return None
    if isinstance(error, NotImplementedError):
        return InputError(f"`engine` must be one that can do this; {_first_sentence(str(error))}.")
    if not engine and not isinstance(error, ArrowException | OSError):
        return None
    if not engine and isinstance(error, OSError) and error.errno is not None:
        return None
    text = _first_sentence(str(error))
    if any(sign in text.lower() for sign in _FULL_DISK):
        return EngineError(f"the disk is full: {text}.")
    if kind.__name__ == "OutOfMemoryException":
        return EngineError(f"the memory limit is too small for this log; raise --memory ({text}).")
    if "JAVA_GATEWAY" in text:
        return EngineError("Spark needs Java 17 or newer, and could not start it.")
    if "bad_alloc" in text:
        return EngineError("there is not enough memory for this log; lower --memory.")
    damaged = home in {"duckdb", "_duckdb"} and kind.__name__ == "Error"  # of its Parquet reader
    if damaged or any(sign in text for sign in _DAMAGE):
        return InputError(f"the log cannot be read, a file of it is damaged: {text}.")
    if any(sign in text for sign in _OVERFLOW):
        return InputError("sums of the log's counts must be below 2^63; they are not.")
    if kind.__name__ in _INPUT_FAULTS:
        return InputError(f"the log cannot be read: {text}.")
    return EngineError(f"the engine failed: {text}.")
