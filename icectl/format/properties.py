"""The table properties that icectl reads, with their types and defaults."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from icectl.errors import Refused, UsageError
from icectl.units import parse_duration, parse_instant

T = TypeVar("T")

_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,19}")
_METRICS_MODE = re.compile(r"none|counts|full|truncate\((?!0+\))[0-9]{1,9}\)")


@dataclass(frozen=True, slots=True)
class TableProperty(Generic[T]):
    """One property: its name, parser and default, and a clause for manuals and for `-v`."""

    name: str
    parse: Callable[[str], T]
    default: T
    description: str


MALFORMED = "malformed-property"
"""The id of the error of a table property whose text is no value of it."""


def read(properties: Mapping[str, str], wanted: TableProperty[T]) -> T:
    """Return a property, or its default. Raises: Refused, when the text is no value of it."""
    text = properties.get(wanted.name)
    if text is None:
        return wanted.default
    try:
        return wanted.parse(text)
    except ValueError as error:
        raise Refused(
            f"table property `{wanted.name}` is `{text}`: {error}",
            hint=f"`icectl properties TABLE unset {wanted.name}` restores its default",
            id=MALFORMED,
        ) from error


def read_or_default(properties: Mapping[str, str], wanted: TableProperty[T]) -> T:
    """Return a property that nothing depends on; its default when the text is no value of it."""
    try:
        return read(properties, wanted)
    except Refused:
        return wanted.default


def _boolean(text: str) -> bool:
    if text.strip().lower() not in ("true", "false"):
        raise ValueError("not true or false")
    return text.strip().lower() == "true"


def _number(minimum: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not _WHOLE_NUMBER.fullmatch(text.strip()):
            raise ValueError("not a whole number")
        if int(text) < minimum:
            raise ValueError(f"less than {minimum}")
        return int(text)

    return parse


def _ratio(text: str) -> float:
    try:
        ratio = float(text)
    except ValueError:
        ratio = -1.0
    if not 0 <= ratio <= 1:
        raise ValueError("not a number from 0 to 1")
    return ratio


def _false_positives(text: str) -> float:
    ratio = _ratio(text)
    if not 0 < ratio < 1:
        raise ValueError("not between 0 and 1")
    return ratio


def _at_least_one(text: str) -> int:
    """Return a count of which the reference implementation takes 0 for 1."""
    return max(1, _number(0)(text))


def _choice(*choices: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text.strip().lower() not in choices:
            raise ValueError(f"not one of {', '.join(choices)}")
        return text.strip().lower()

    return parse


def _metrics_mode(text: str) -> str:
    if not _METRICS_MODE.fullmatch(text.strip().lower()):
        raise ValueError("not none, counts, truncate(LENGTH) or full")
    return text.strip().lower()


def _optional(text: str) -> str | None:
    return text or None


def _duration(text: str) -> int | None:
    try:
        return parse_duration(text)
    except UsageError as error:
        raise ValueError(error.message) from error


FOREVER_MS = 2**63 - 1

MAX_SNAPSHOT_AGE_MS = TableProperty(
    "history.expire.max-snapshot-age-ms", _number(0), 432_000_000, "age at which snapshots expire"
)
MIN_SNAPSHOTS_TO_KEEP = TableProperty(
    "history.expire.min-snapshots-to-keep",
    _at_least_one,
    1,
    "fewest snapshots that each branch keeps",
)
MAX_REF_AGE_MS = TableProperty(
    "history.expire.max-ref-age-ms", _number(0), FOREVER_MS, "age at which refs expire"
)
GC_ENABLED = TableProperty("gc.enabled", _boolean, True, "whether files may be deleted")  # noqa: FBT003  # R-193
PREVIOUS_VERSIONS_MAX = TableProperty(
    "write.metadata.previous-versions-max", _at_least_one, 100, "most entries of the metadata log"
)
DELETE_AFTER_COMMIT = TableProperty(
    "write.metadata.delete-after-commit.enabled", _boolean, False,  # noqa: FBT003
    "whether metadata files that leave the log are deleted",
)  # fmt: skip  # R-024
METADATA_COMPRESSION = TableProperty(
    "write.metadata.compression-codec", _choice("none", "gzip"), "none",
    "compression of metadata files",
)  # fmt: skip
METADATA_PATH = TableProperty(
    "write.metadata.path", _optional, None, "folder of metadata files"
)
DATA_PATH = TableProperty("write.data.path", _optional, None, "folder of data files")
TARGET_FILE_SIZE_BYTES = TableProperty(
    "write.target-file-size-bytes", _number(1), 536_870_912, "target size of data files"
)
DISTRIBUTION_MODE = TableProperty(
    "write.distribution-mode", _choice("none", "hash", "range"), "hash",
    "how rows are distributed to writers",
)  # fmt: skip
DELETE_TARGET_FILE_SIZE_BYTES = TableProperty(
    "write.delete.target-file-size-bytes", _number(1), 67_108_864,
    "target size of delete files",
)  # fmt: skip
TARGET_MANIFEST_SIZE_BYTES = TableProperty(
    "commit.manifest.target-size-bytes", _number(1), 8_388_608, "target size of manifests"
)
COMMIT_RETRIES = TableProperty(
    "commit.retry.num-retries", _number(0), 4, "retries of a commit after a conflict"
)
COMMIT_MIN_WAIT_MS = TableProperty(
    "commit.retry.min-wait-ms", _number(0), 100, "shortest wait between two attempts"
)
COMMIT_MAX_WAIT_MS = TableProperty(
    "commit.retry.max-wait-ms", _number(0), 60_000, "longest wait between two attempts"
)
COMMIT_TOTAL_TIMEOUT_MS = TableProperty(
    "commit.retry.total-timeout-ms", _number(0), 1_800_000, "time after which no attempt is made"
)
NAME_MAPPING = TableProperty(
    "schema.name-mapping.default", _optional, None, "names for files without field ids"
)
FORMAT_DEFAULT = TableProperty(
    "write.format.default", _choice("parquet", "orc", "avro"), "parquet", "format of data files"
)
PARQUET_COMPRESSION = TableProperty(
    "write.parquet.compression-codec",
    _choice("zstd", "snappy", "gzip", "lz4", "brotli", "uncompressed"), "zstd",
    "compression of Parquet files",
)  # fmt: skip
PARQUET_COMPRESSION_LEVEL: TableProperty[int | None] = TableProperty(
    "write.parquet.compression-level", _number(-(2**31)), None, "compression level of Parquet files"
)
PARQUET_ROW_GROUP_SIZE_BYTES = TableProperty(
    "write.parquet.row-group-size-bytes", _number(1), 134_217_728, "largest size of row groups"
)
PARQUET_PAGE_SIZE_BYTES = TableProperty(
    "write.parquet.page-size-bytes", _number(1), 1_048_576, "target size of pages"
)
PARQUET_PAGE_ROW_LIMIT = TableProperty(
    "write.parquet.page-row-limit", _number(1), 20_000, "most rows of a page"
)
PARQUET_DICTIONARY_SIZE_BYTES = TableProperty(
    "write.parquet.dict-size-bytes", _number(1), 2_097_152, "largest size of dictionaries"
)
BLOOM_FILTER_MAX_BYTES = TableProperty(
    "write.parquet.bloom-filter-max-bytes", _number(32), 1_048_576, "largest size of a Bloom filter"
)
BLOOM_FILTER_RATIO = 0.01
BLOOM_FILTER_OF_COLUMN = "write.parquet.bloom-filter-enabled.column."
BLOOM_FILTER_RATIO_OF_COLUMN = "write.parquet.bloom-filter-fpp.column."
"""Begin the names of properties of a column: whether it gets a Bloom filter, and the share of false
positives."""
METRICS_DEFAULT: TableProperty[str | None] = TableProperty(
    "write.metadata.metrics.default", _metrics_mode, None, "which metrics columns have"
)
METRICS_OF_COLUMN = "write.metadata.metrics.column."
"""Begins the names of properties that have values as METRICS_DEFAULT, each of a column."""

MAX_INFERRED_METRICS = TableProperty(
    "write.metadata.metrics.max-inferred-column-defaults", _number(0), 100,
    "columns that have metrics if the table does not say which",
)  # fmt: skip
OBJECT_STORAGE = TableProperty(
    "write.object-storage.enabled", _boolean, False,  # noqa: FBT003
    "whether data files are spread over prefixes",
)  # fmt: skip
OBJECT_STORAGE_PARTITIONED_PATHS = TableProperty(
    "write.object-storage.partitioned-paths", _boolean, True,  # noqa: FBT003
    "whether spread data files are under their partition",
)  # fmt: skip
OBJECT_STORAGE_PATH = TableProperty(
    "write.object-storage.path", _optional, None, "former folder of spread data files"
)
FOLDER_STORAGE_PATH = TableProperty(
    "write.folder-storage.path", _optional, None, "former folder of data files"
)
LOCATION_PROVIDER = TableProperty(
    "write.location-provider.impl", _optional, None, "Java class that places data files"
)
TREE_MAX_DATA_FILES = TableProperty(
    "icectl.v4.root.max-data-files", _number(0), 1_000, "live data files that a root may list"
)
TREE_MAX_DELETE_ENTRIES = TableProperty(
    "icectl.v4.root.max-delete-entries", _number(0), 5_000, "live delete entries a root may list"
)
VECTOR_INLINE_MAX_BYTES = TableProperty(
    "icectl.v4.mdv.inline-max-bytes", _number(0), 16_384, "largest bitmap kept in a root"
)
VECTOR_INLINE_TOTAL_MAX_BYTES = TableProperty(
    "icectl.v4.mdv.inline-total-max-bytes", _number(0), 1_048_576, "bytes of bitmaps in one root"
)
VECTOR_REWRITE_RATIO = TableProperty(
    "icectl.v4.mdv.rewrite-ratio", _ratio, 0.25,
    "share of dead entries above which a leaf is rewritten",
)  # fmt: skip
LEGACY_REWRITE_RATIO = TableProperty(
    "icectl.v4.legacy-leaves.rewrite-ratio", _ratio, 0.25,
    "share of entries in leaves of older versions above which these are rewritten",
)  # fmt: skip
LEAF_MAX_ENTRIES = TableProperty(
    "icectl.v4.leaf.max-entries", _number(1), 1_000_000, "entries of a new leaf"
)
AFFINITY_ENABLED = TableProperty(
    "icectl.v4.affinity.enabled", _boolean, True,  # noqa: FBT003
    "whether delete leaves are kept to one data leaf each",
)  # fmt: skip
RELATIVE_LOCATIONS = TableProperty(
    "icectl.v4.relative-locations", _boolean, False,  # noqa: FBT003
    "whether locations under the table's are stored relative to it",
)  # fmt: skip
KEEP_STATISTICS = TableProperty(
    "icectl.statistics.keep", _boolean, True,  # noqa: FBT003
    "whether a snapshot with the same rows keeps the previous one's statistics",
)  # fmt: skip
TTL_COLUMN = TableProperty(
    "icectl.ttl.column",
    _optional,
    None,
    "date or timestamp column that `icectl expire-rows` compares",
)
TTL_AGE = TableProperty(
    "icectl.ttl.age", _duration, None, "age above which `icectl expire-rows` deletes rows"
)
MAINTAIN_ENABLED = TableProperty(
    "icectl.maintain.enabled", _boolean, True,  # noqa: FBT003
    "whether `icectl maintain` may change the table",
)  # fmt: skip
LAST_ORPHAN_SCAN = TableProperty(
    "icectl.maintain.last-orphan-scan", _optional, None,
    "when `icectl maintain` last searched for orphans",
)  # fmt: skip

KNOWN: Mapping[str, TableProperty[Any]] = {
    value.name: value for value in tuple(globals().values()) if isinstance(value, TableProperty)
}
"""The properties that icectl reads, by name."""


_OF_COLUMNS: Mapping[str, TableProperty[Any]] = {
    METRICS_OF_COLUMN: METRICS_DEFAULT,
    BLOOM_FILTER_OF_COLUMN: TableProperty(
        "",
        _boolean,
        False,  # noqa: FBT003
        "whether the column gets a Bloom filter",
    ),
    BLOOM_FILTER_RATIO_OF_COLUMN: TableProperty(
        "", _false_positives, BLOOM_FILTER_RATIO, "share of false positives of its Bloom filter"
    ),
}
"""Properties of single columns, by what their names begin with."""


def known_property(name: str) -> TableProperty[Any] | None:
    """Return a property that icectl reads, those of single columns too; None for any other."""
    for beginning, of_column in _OF_COLUMNS.items():
        if name.startswith(beginning):
            return replace(of_column, name=name)
    return KNOWN.get(name)


def bloom_filters(properties: Mapping[str, str]) -> Mapping[str, float]:
    """Return the share of false positives by column name, 0 for columns without a Bloom filter.

    Raises: Refused, for a value that makes no sense.
    """

    def of(beginning: str, column: str) -> Any:
        return read(properties, replace(_OF_COLUMNS[beginning], name=f"{beginning}{column}"))

    columns = (
        name.removeprefix(BLOOM_FILTER_OF_COLUMN)
        for name in properties
        if name.startswith(BLOOM_FILTER_OF_COLUMN)
    )
    enabled = {column: of(BLOOM_FILTER_OF_COLUMN, column) for column in columns}
    return {
        column: of(BLOOM_FILTER_RATIO_OF_COLUMN, column) if is_enabled else 0
        for column, is_enabled in enabled.items()
    }


def last_orphan_scan_ms(properties: Mapping[str, str], now_ms: int) -> int | None:
    """Return when maintenance last searched for orphans; None for never, or an odd property."""
    text = read(properties, LAST_ORPHAN_SCAN) or properties.get(_FORMER_LAST_SCAN)
    try:
        return None if text is None else parse_instant(text, now_ms)
    except UsageError:
        return None


_FORMER_LAST_SCAN = "icectl.maintain.orphans-looked-for"
"""The former name of the property, read if the table has no newer one."""
