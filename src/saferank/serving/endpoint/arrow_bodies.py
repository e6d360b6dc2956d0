"""Arrow IPC streams from elsewhere: sizes are known before memory is taken."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pyarrow as pa

from saferank.errors import InputError, require

_RECORD_BATCH = 3
_COMPRESSION = 3  # the field of a record batch's table


def read_arrow(body: bytes, most: int) -> dict[str, pa.Array]:
    """The columns of an IPC stream, of at most so many rows and not compressed."""
    try:
        batches = list(_batches(body, most))
    except (
        pa.ArrowException, OSError, EOFError, struct.error, IndexError, UnicodeDecodeError
    ) as error:  # fmt: skip
        reason = (str(error).strip() or type(error).__name__).splitlines()[0][:120]
        raise InputError(f"the body must be an Arrow IPC stream; {reason}.") from error
    rows = sum(len(batch) for batch in batches)
    require(rows > 0, "body", f"a table of 1 to {most:,} rows", rows)
    names = batches[0].schema.names
    require(len(set(names)) == len(names), "body", "a table of different column names", names)
    if len(batches) == 1:
        return dict(zip(names, batches[0].columns, strict=True))
    columns = zip(*(batch.columns for batch in batches), strict=True)
    return {name: pa.concat_arrays(parts) for name, parts in zip(names, columns, strict=True)}


def _batches(body: bytes, most: int) -> Iterator[pa.RecordBatch]:
    """Batches one by one; what would grow when it is read is refused before it is.

    That is compressed buffers, dictionaries, and columns without buffers.
    """
    messages = iter(pa.ipc.MessageReader.open_stream(body))
    first = next(messages, None)
    if first is None or first.type != "schema":
        raise pa.ArrowInvalid("it does not begin with a schema")
    schema = pa.ipc.read_schema(first)
    rows = 0
    for message in messages:
        if message.type == "dictionary":
            raise InputError("the body must be an Arrow IPC stream without dictionaries.")
        length, compressed = _record_batch(message.metadata.to_pybytes())
        require(not compressed, "body", "an Arrow IPC stream without compression", "one with")
        rows += length
        require(0 <= length <= rows <= most, "body", f"a table of 1 to {most:,} rows", rows)
        batch = pa.ipc.read_record_batch(message, schema)
        batch.validate(full=True)
        yield batch


def _record_batch(metadata: bytes) -> tuple[int, bool]:
    """Rows of a batch and whether it is compressed, from its Flatbuffers message."""
    (root,) = struct.unpack_from("<I", metadata, 0)
    kind = _field(metadata, root, 1)
    header = _field(metadata, root, 2)
    if kind is None or header is None or metadata[kind] != _RECORD_BATCH:
        raise pa.ArrowInvalid("a record batch without a header")
    batch = header + struct.unpack_from("<I", metadata, header)[0]
    at = _field(metadata, batch, 0)
    length = 0 if at is None else struct.unpack_from("<q", metadata, at)[0]
    return int(length), _field(metadata, batch, _COMPRESSION) is not None


def _field(metadata: bytes, table: int, number: int) -> int | None:
    """Where a field of a Flatbuffers table is; None where it has its default."""
    (back,) = struct.unpack_from("<i", metadata, table)
    offsets = table - back
    (size,) = struct.unpack_from("<H", metadata, offsets)
    if 4 + 2 * number + 2 > size:
        return None
    (offset,) = struct.unpack_from("<H", metadata, offsets + 4 + 2 * number)
    return table + offset if offset else None
