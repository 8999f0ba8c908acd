"""The plan of `icectl expire-rows`: which rows are expired, and what is deleted with them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from icectl.commands.rows.deletion import FoundDeletion, WantedRows
from icectl.commands.rows.read import condition_ids
from icectl.entries.conditions import (
    DATED,
    And,
    Column,
    Compare,
    Or,
    Predicate,
    instant_of,
    leaves,
    parse_where,
)
from icectl.entries.rows import by_row, take
from icectl.errors import Refused, UsageError
from icectl.format.metadata import TableMetadata
from icectl.format.properties import MALFORMED, TTL_AGE, TTL_COLUMN, read
from icectl.format.single_value import encode
from icectl.format.snapshot import Snapshot
from icectl.format.types import type_text
from icectl.units import print_duration

MAX_FRACTION = 0.2
"""The part of the rows that may go at once."""


@dataclass(frozen=True, slots=True)
class RowFilter:
    """The filter of rows that go, in words too; `columns` are the dates and times it is about.

    No row with null in `needed` goes: it is the only one of these.
    """

    predicate: Predicate
    text: str
    columns: tuple[Column, ...]
    needed: Column | None

    @property
    def wanted(self) -> WantedRows:
        return WantedRows(self.predicate, self.predicate)


def filter_of(
    metadata: TableMetadata, where: str | None, now_ms: int, *, any_filter: bool
) -> RowFilter:
    """Return the filter of an option, or of the table's properties, at a time.

    Raises: UsageError, for neither, and text that is no condition; Refused, for a filter that may
    be true of rows that are not of the past, and malformed properties.
    """
    text = where
    if text is None:
        column, age_ms = read(metadata.properties, TTL_COLUMN), read(metadata.properties, TTL_AGE)
        if column is None or age_ms is None:
            missing = [item.name for item, value in ((TTL_COLUMN, column), (TTL_AGE, age_ms))
                       if value is None]  # fmt: skip
            raise UsageError(
                "unclear which rows are expired: no `--where` is given, and the table "
                f"has no property {' and '.join(f'`{name}`' for name in missing)}",
                hint="`icectl properties TABLE set icectl.ttl.column=at icectl.ttl.age=90d`",
            )
        field = metadata.current_schema.field_named(column)
        if field is None or field.type not in DATED:
            kind = "no column of the table" if field is None else type_text(field.type)
            raise Refused(
                f"table property `{TTL_COLUMN.name}` is `{column}`, which is {kind}",
                hint="set it to a date or timestamp column",
                id=MALFORMED,
            )
        if "`" in column:  # a filter would take what follows for conditions
            raise Refused(
                f"table property `{TTL_COLUMN.name}` has a backtick, which no filter can name",
                hint="rename the column, or set the property to another one",
                id=MALFORMED,
            )
        try:
            encode(field.type, instant_of(field.type, now_ms - age_ms))
        except ValueError as error:
            raise Refused(
                f"table property `{TTL_AGE.name}` is longer than `{column}`, "
                f"{type_text(field.type)}, reaches back",
                hint="`icectl properties TABLE set icectl.ttl.age=90d`",
                id=MALFORMED,
            ) from error
        name = ".".join(f"`{part}`" for part in column.split("."))
        text = f"{name} < 'now - {age_ms}ms'"
    predicate = parse_where(text, metadata, now_ms)
    condition_ids(predicate)
    is_about_past = is_of_past(predicate, now_ms)
    if not any_filter and not is_about_past:
        raise Refused(
            "the filter may match rows that are not in the past",
            hint="compare a date or timestamp with an instant before now, as in "
            "\"at < 'now - 90d'\"; `--yes-any-filter` deletes by any filter",
            id="any-filter",
        )
    dated = {leaf.column.name: leaf.column for leaf in leaves(predicate)
             if leaf.column.type in DATED}  # fmt: skip
    needed = next(iter(dated.values())) if is_about_past and len(dated) == 1 else None
    shown = where if where is not None else f"{column} older than {print_duration(age_ms or 0)}"
    return RowFilter(predicate, shown, tuple(dated.values()), needed)


def is_of_past(predicate: Predicate, now_ms: int) -> bool:
    """Return whether each row that matches provably has a date or timestamp up to now."""
    match predicate:
        case And(parts):
            return any(is_of_past(part, now_ms) for part in parts)
        case Or(parts):
            return all(is_of_past(part, now_ms) for part in parts)
        case Compare(column, _, value):  # <, <= and =
            return column.type in DATED and value <= instant_of(column.type, now_ms)
        case _:
            return False


@dataclass(frozen=True, slots=True)
class ExpiringFile:
    """A data file with rows that go: `record_count` of them live, of `live_count` so far."""

    path: str
    size_bytes: int
    record_count: int
    live_count: int


@dataclass(frozen=True, slots=True)
class ExpireRowsPlan:
    """What a deletion would do to a branch.

    `dropped` files go whole by metadata alone, `emptied` because all of their rows were read and
    match. `doubted_count` are files whose footers did not bear out their bounds. `other_refs` still
    have the rows. `null_count` are rows without a value of the column that the filter needs.
    """

    branch: str
    snapshot: Snapshot | None
    filter: RowFilter
    method: str
    verify: str
    max_fraction: float
    live_row_count: int = 0
    dropped: tuple[ExpiringFile, ...] = ()
    emptied: tuple[ExpiringFile, ...] = ()
    changed: tuple[ExpiringFile, ...] = ()
    doubted_count: int = 0
    null_count: int | None = None
    other_refs: tuple[str, ...] = ()

    @property
    def files(self) -> Sequence[ExpiringFile]:
        return (*self.dropped, *self.emptied, *self.changed)

    @property
    def deleted_row_count(self) -> int:
        return sum(file.record_count for file in self.files)

    @property
    def has_work(self) -> bool:
        return bool(self.files)

    @property
    def fraction(self) -> float:
        return self.deleted_row_count / max(self.live_row_count, 1)

    @property
    def refusal(self) -> Refused | None:
        return over_fraction(self.deleted_row_count, self.live_row_count, self.max_fraction)


def over_fraction(deleted: int, live: int, most: float) -> Refused | None:
    """Return the error of a deletion of too many rows; None if they are few enough."""
    if deleted <= most * live:
        return None
    return Refused(
        f"{deleted:,} of {live:,} rows would be deleted ({deleted / max(live, 1):.0%}), more than "
        f"`--max-fraction` {most:.0%}",
        hint="check the filter; if it is right, raise `--max-fraction`",
        id="too-many-rows",
    )


def expiring_files(
    looked: FoundDeletion, counted: Mapping[str, int]
) -> tuple[list[ExpiringFile], ...]:
    """Return the files that are dropped, emptied and changed. Order: of the entries.

    `counted` are live rows of files that were read for it.
    """
    columns = ("location", "file_size_in_bytes")
    whole = by_row(take(looked.files.data, looked.whole), *columns)
    counts = looked.whole_counts(counted)
    dropped = [
        ExpiringFile(path, size, live, live)
        for live, (path, size) in zip(counts, whole, strict=True)
    ]
    emptied: list[ExpiringFile] = []
    changed: list[ExpiringFile] = []
    rows = [looked.rows[found.location] for found in looked.found]
    sizes = by_row(take(looked.files.data, rows), *columns)
    for found, (path, size) in zip(looked.found, sizes, strict=True):
        file = ExpiringFile(path, size, found.count, found.count + found.live_count)
        (changed if found.live_count else emptied).append(file)
    return dropped, emptied, changed
