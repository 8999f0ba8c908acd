"""Records of Avro files changed in place of their values: everything else stays as it was written.

The header is copied byte for byte, so that schema, codec and key-value metadata survive, and each
record is encoded by the writer's own schema, with fields that nobody here knows.
"""

from collections.abc import Callable
from io import BytesIO
from typing import Any

from icectl.errors import Unsupported
from icectl.files.avro.container import (
    Block,
    decode_as_stored,
    encode_as_stored,
    in_batches,
    read_blocks,
    read_header,
    write_block,
)
from icectl.files.avro.schema import AvroType

Record = dict[str, Any]
"""A record by position: `"0"` is its first field; logical types as stored."""

Change = Callable[[Record], None]
"""Changes values of a record in place."""


def rewrite_records(content: bytes, change: Callable[[AvroType], Change]) -> bytes:
    """Return an Avro file with each record changed; `change` is told the writer's schema.

    Order: kept.
    Raises: CorruptTable R-008; Unsupported, for a union of several types, whose branch is not told
    after decoding; what `change` raises.
    Cost: a batch of records in memory.
    """
    file = read_header(content)
    _check_unions(file.schema)
    changed = change(file.schema)
    out = BytesIO()
    out.write(content[: file.first_block])
    for batch in in_batches(file.schema, read_blocks(file)):
        if not batch:
            continue
        records = decode_as_stored(file.schema, batch)
        for record in records:
            changed(record)
        block = Block(len(records), encode_as_stored(file.schema, records))
        out.write(write_block(block, codec=file.codec, sync_marker=file.sync_marker))
    return out.getvalue()


def _check_unions(schema: AvroType) -> None:
    if schema.kind == "union" and len(schema.parts) > 1 and schema.null_branch is None:
        kinds = ", ".join(part.kind for part in schema.parts)
        raise Unsupported(f"an Avro file has a union of {kinds}, which a rewrite could change")
    for part in (*schema.parts, *(field.type for field in schema.fields)):
        _check_unions(part)
