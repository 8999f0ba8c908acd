"""Names and folders of a table's files: data files, delete files, metadata files."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from shlex import quote
from typing import Literal

import mmh3

from icectl.format.locations import absolute_location
from icectl.format.properties import (
    DATA_PATH,
    FOLDER_STORAGE_PATH,
    METADATA_PATH,
    OBJECT_STORAGE,
    OBJECT_STORAGE_PARTITIONED_PATHS,
    OBJECT_STORAGE_PATH,
    read,
)

_HASH_BITS = 20
_PREFIXES = (slice(0, 4), slice(4, 8), slice(8, 12), slice(12, None))
_FILE_SYSTEM = re.compile(r"v([0-9]{1,18})(\.gz)?\.metadata\.json(\.gz)?")
_CATALOG = re.compile(r"([0-9]{1,18})-(.+?)(\.gz)?\.metadata\.json(\.gz)?")
VERSION_HINT = "version-hint.text"
"""Where file-system tables name their newest version, which may be late (R-163)."""


def data_file_name(number: int, task_id: int, operation_id: str, count: int, mark: str = "") -> str:
    """Make a name such as `00003-17-<uuid>-00001.parquet`, as Spark names files of tasks.

    `number` is that of the group or partition of work; `count` begins at 1 in each task; a `mark`
    stands at the end.
    """
    return f"{number:05}-{task_id}-{operation_id}-{count:05}{marked_end(mark)}"


def mark_of(options: str) -> str:
    """Return the mark of files that were made by some options: `c` and eight digits."""
    return f"c{mmh3.hash(options, signed=False):08x}"


def marked_end(mark: str) -> str:
    """Return the end of the names of data files that have a mark, or of those without."""
    return f"-{mark}.parquet" if mark else ".parquet"


def delete_file_name(
    number: int, task_id: int, operation_id: str, count: int, *, is_vector: bool
) -> str:
    """Make a name such as `00003-17-<uuid>-00001-deletes.parquet`, as Spark does, or `.puffin`."""
    stem = data_file_name(number, task_id, operation_id, count).removesuffix(".parquet")
    return f"{stem}-deletes.{'puffin' if is_vector else 'parquet'}"


def data_location(
    table_location: str, properties: Mapping[str, str], partition: str, file_name: str
) -> str:
    """Return the location of a data file; the partition's path may be empty (R-161)."""
    table_location = table_location.rstrip("/")
    is_spread = read(properties, OBJECT_STORAGE)
    below = _below(table_location, properties, is_spread=is_spread)
    in_partition = f"{partition}/{file_name}" if partition else file_name
    if not is_spread:
        return f"{below}/{in_partition}"
    is_partitioned = read(properties, OBJECT_STORAGE_PARTITIONED_PATHS)
    name = in_partition if is_partitioned else file_name
    # Four levels of folders of the name's hash: files spread over an object store.
    bits = f"{mmh3.hash(name, signed=False) & ((1 << _HASH_BITS) - 1):0{_HASH_BITS}b}"
    prefixes = "/".join(bits[part] for part in _PREFIXES)
    if not below.startswith(table_location):
        parent, _, folder = table_location.rpartition("/")
        return f"{below}/{prefixes}/{parent.rpartition('/')[2]}/{folder}/{name}"
    return f"{below}/{prefixes}{'/' if is_partitioned else '-'}{name}"


def data_folder(
    table_location: str, properties: Mapping[str, str], partition: str | None
) -> tuple[str, bool]:
    """Return the folder of new data files of a partition, and whether they are right in it.

    They are anywhere below it where files are spread, or the partition is not known.
    """
    is_spread = read(properties, OBJECT_STORAGE)
    below = _below(table_location.rstrip("/"), properties, is_spread=is_spread)
    if partition is None or is_spread:
        return below, False
    return f"{below}/{partition}" if partition else below, True


def named_folders(table_location: str, properties: Mapping[str, str]) -> Mapping[str, str]:
    """The folders of data and metadata files that properties name, by the properties (R-161)."""
    stored = (DATA_PATH, OBJECT_STORAGE_PATH, FOLDER_STORAGE_PATH, METADATA_PATH)
    named = {wanted.name: read(properties, wanted) for wanted in stored}
    return {
        name: _absolute(table_location, folder)
        for name, folder in named.items()
        if folder is not None
    }


def _below(table_location: str, properties: Mapping[str, str], *, is_spread: bool) -> str:
    """Return the folder of data files, which old properties and relative paths name too."""
    known = (DATA_PATH, *((OBJECT_STORAGE_PATH,) if is_spread else ()), FOLDER_STORAGE_PATH)
    named = (read(properties, wanted) for wanted in known)
    folder = next((value for value in named if value is not None), None)
    return f"{table_location}/data" if folder is None else _absolute(table_location, folder)


def _absolute(table_location: str, folder: str) -> str:
    is_whole = folder.startswith("/")
    return (folder if is_whole else absolute_location(table_location, folder)).rstrip("/")


@dataclass(frozen=True, slots=True)
class MetadataFileName:
    """The parts of a metadata file's name; `gzip` by its name, the content decides (R-006)."""

    kind: Literal["file-system", "catalog"]
    version: int
    uuid: str | None
    gzip: bool


def parse_metadata_file_name(name: str) -> MetadataFileName | None:
    """Return the parts of a metadata file's name; None for any other name (R-160, R-162)."""
    if match := _FILE_SYSTEM.fullmatch(name):
        return MetadataFileName("file-system", int(match[1]), None, bool(match[2] or match[3]))
    if match := _CATALOG.fullmatch(name):
        return MetadataFileName("catalog", int(match[1]), match[2], bool(match[3] or match[4]))
    return None


def metadata_file_name(version: int, *, gzip: bool) -> str:
    """Return the name of a file-system table's metadata file: `v7.metadata.json` (R-162)."""
    return f"v{version}{'.gz' if gzip else ''}.metadata.json"


def catalog_metadata_file_name(version: int, uuid: str, *, gzip: bool) -> str:
    """Return the name of a catalog table's metadata file: `00007-<uuid>.metadata.json` (R-160)."""
    return f"{version:05}-{uuid}{'.gz' if gzip else ''}.metadata.json"


def lost_versions(hint: int, newest: int, table: str) -> tuple[str, str]:
    """Tell of a hint that knows of a newer version than is there, and of the way out (R-163).

    Metadata was lost then, or never finished: what is newest need not be what was committed last.
    """
    message = (
        f"{VERSION_HINT} says version {hint}, the newest metadata file has version {newest}: "
        "newer ones are missing"
    )
    advice = (
        f"bring them back; if version {newest} is meant, `icectl repair {quote(table)}` corrects "
        f"{VERSION_HINT}"
    )
    return message, advice
