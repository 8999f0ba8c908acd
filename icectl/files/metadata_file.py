"""Read and write metadata files and version hints as bytes."""

import gzip
import json
import re
import zlib
from collections.abc import Mapping
from io import BytesIO
from typing import Any

from icectl.errors import CorruptTable
from icectl.files.inflate import most_inflated
from icectl.format.json_members import parse_json
from icectl.format.metadata import TableMetadata
from icectl.format.metadata_json import metadata_json, parse_metadata
from icectl.format.metadata_oddities import parse_generously
from icectl.units import read_count

GZIP_MAGIC = b"\x1f\x8b"
_SCALAR = rb'(?:"(?:[^"\\]|\\.)*"|[-+.0-9A-Za-z]+)'
_LEADING = rb'\s*\{(?:\s*"[^"\\]*"\s*:\s*' + _SCALAR + rb"\s*,)*?\s*"
_LEADING_UUID = re.compile(_LEADING + rb'"table-uuid"\s*:\s*"([^"\\]*)"')
_LEADING_TIME = re.compile(_LEADING + rb'"last-updated-ms"\s*:\s*([0-9]{1,18})\s*[,}]')
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]|\xed[\xa0-\xbf]")
_LEADING_NUMBER = re.compile(r"v?[0-9]+")
_BEGINNING = 2**20
_VALUES_ALWAYS = 2_000_000
"""Values of JSON that a compressed file may have beside one for each of its bytes."""


def is_gzip(content: bytes) -> bool:
    """Whether a metadata file is compressed, which its bytes decide, not its name (R-006)."""
    return content.startswith(GZIP_MAGIC)


def read_metadata_json(content: bytes) -> Mapping[str, Any]:
    """Return the JSON object of a metadata file. Raises: CorruptTable R-005 or R-006."""
    text = content
    if is_gzip(content):
        # No honest writer makes more of it; plain files are as large as they say.
        most_bytes, most_values = most_inflated(len(content)), _VALUES_ALWAYS + len(content)
        try:
            with gzip.GzipFile(fileobj=BytesIO(content)) as file:
                text = file.read(most_bytes + 1)
        except (OSError, EOFError, zlib.error) as error:
            message = f"the metadata file is not a complete gzip file: {error}"
            raise CorruptTable(message, rule="R-006") from error
        if len(text) > most_bytes or sum(map(text.count, (b",", b"[", b"{"))) > most_values:
            message = f"the metadata file inflates to too much, from {len(content):,} bytes"
            raise CorruptTable(message, rule="R-006")
    try:
        members = parse_json(text)
    except ValueError as error:
        raise CorruptTable(f"the metadata file is not JSON: {error}", rule="R-005") from error
    if not isinstance(members, dict):
        raise CorruptTable("the metadata file holds no JSON object", rule="R-005")
    if _SURROGATE.search(text):
        check_texts(members)
    return members


def check_texts(members: Mapping[str, Any]) -> None:
    """Raises: CorruptTable R-005, for half of a surrogate pair: no file and no column has it."""
    try:
        json.dumps(members, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        message = "the metadata file has a string that is not Unicode"
        raise CorruptTable(message, rule="R-005") from error


def find_table_uuid(beginning: bytes) -> str | None:
    """The table-uuid, where it stands in the beginning of a metadata file, behind scalars only."""
    uuid = _leading(_LEADING_UUID, beginning)
    return None if uuid is None else uuid.decode("utf-8", "replace")


def find_last_updated_ms(beginning: bytes) -> int | None:
    """Return the last-updated-ms, where it stands as `find_table_uuid` finds the table-uuid."""
    text = _leading(_LEADING_TIME, beginning)
    return None if text is None else int(text)


def _leading(pattern: re.Pattern[bytes], beginning: bytes) -> bytes | None:
    if is_gzip(beginning):
        try:
            beginning = zlib.decompressobj(wbits=31).decompress(beginning, _BEGINNING)
        except zlib.error:
            return None
    match = pattern.match(beginning)
    return match[1] if match else None


def read_metadata(content: bytes) -> TableMetadata:
    """Return the table that a metadata file describes. Raises: CorruptTable, Unsupported."""
    return parse_metadata(read_metadata_json(content))


def read_metadata_to_show(content: bytes, table_location: str) -> TableMetadata:
    """Return the table that a metadata file describes, as far as it makes sense, and what does not.

    `table_location` stands where the file names none. Raises: CorruptTable, where nothing does;
    Unsupported.
    """
    return parse_generously(read_metadata_json(content), table_location)


def write_metadata(metadata: TableMetadata, *, compressed: bool) -> bytes:
    """Return the bytes of a metadata file; equal metadata gives equal bytes."""
    text = json.dumps(metadata_json(metadata), ensure_ascii=False, separators=(",", ":")).encode()
    return gzip.compress(text, mtime=0) if compressed else text


def read_version_hint(content: bytes) -> int | str | None:
    """Read a version hint: a number, the stem of a file name, or nothing usable (R-163)."""
    text = content.decode("utf-8", "replace").strip()
    number = read_count(text)
    return text if number is None and _LEADING_NUMBER.match(text) else number
