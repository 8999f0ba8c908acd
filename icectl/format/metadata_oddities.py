"""Table metadata that breaks a rule, read as far as it can be: for showing, never for changing."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from icectl.errors import CorruptTable
from icectl.format.metadata import Oddity, TableMetadata
from icectl.format.metadata_json import MEMBERS, parse_metadata

_LISTS = (
    "schemas", "expressions", "partition-specs", "sort-orders", "snapshots", "snapshot-log",
    "metadata-log", "statistics", "partition-statistics", "encryption-keys",
)  # fmt: skip
"""Members that are read entry by entry; partition specs need the schemas and expressions."""

_SHORTENED = frozenset({"snapshots", "statistics", "partition-statistics"})
"""Lists whose entries can do without one of their members; a schema or spec would be another."""

_STAND_INS: Mapping[str, Mapping[str, Any]] = {"snapshots": {"timestamp-ms": 0}}
"""What stands for members that no entry can do without."""

_CURRENT = {"schemas": ("current-schema-id", "schema-id"),
            "partition-specs": ("default-spec-id", "spec-id")}  # fmt: skip
"""The member that names one entry of a list, and the member of the entry that it names."""

_NUMBERS = (
    "last-sequence-number", "last-updated-ms", "last-column-id", "last-partition-id",
    "default-sort-order-id", "next-row-id",
)  # fmt: skip
_FIRST_VERSION = {"next-row-id": 3, "expressions": 4}


def parse_generously(members: Mapping[str, Any], location: str) -> TableMetadata:
    """Return the table that a metadata JSON object describes, as far as it makes sense.

    What does not is left out, or stands at a value of no meaning, and is named in `oddities`;
    `location` is the table's where the object does not tell.

    Raises: Unsupported, for a newer format version (R-001); CorruptTable, where nothing can be
    shown: without a format version it is unknown what the members mean.
    Cost: that of parse_metadata, unless it fails.
    """
    try:
        return parse_metadata(members)
    except CorruptTable as error:
        version = members.get("format-version")
        if not isinstance(version, int) or isinstance(version, bool) or version < 1:
            raise
        try:
            return _Reading(members, _skeleton(version, location)).metadata()
        except CorruptTable:  # not by one member alone
            raise error from None


def _skeleton(version: int, location: str) -> dict[str, Any]:
    """Return the least that describes a table."""
    empty = {"type": "struct", "schema-id": 0, "fields": []}
    return {
        "format-version": version,
        "table-uuid": "",
        "location": location,
        "last-sequence-number": 0,
        "last-updated-ms": 0,
        "last-column-id": 0,
        "schemas": [empty],
        "current-schema-id": 0,
        "partition-specs": [{"spec-id": 0, "fields": []}],
        "default-spec-id": 0,
        "expressions": [],
        "last-partition-id": 999,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "default-sort-order-id": 0,
        "next-row-id": 0,
    }


@dataclass(slots=True)
class _Reading:
    """A reading of members one by one, added to what describes a table if that stays readable."""

    members: Mapping[str, Any]
    read: dict[str, Any]
    oddities: list[Oddity] = field(default_factory=list)

    def metadata(self) -> TableMetadata:
        """Return the table, with what was left out. Raises: CorruptTable."""
        for name in ("table-uuid", "location", "properties"):
            self._single(name)
        for name in _LISTS:
            self._list(name)
        self._old_schema()
        for name, _ in _CURRENT.values():
            self._single(name)
        self._derived()
        for name in _NUMBERS:
            self._single(name)
        self._current_snapshot()
        self._refs()
        unknown = {key: value for key, value in self.members.items() if key not in MEMBERS}
        metadata = parse_metadata({**self.read, **unknown})
        if self.members.get("table-uuid") is None:
            metadata = replace(metadata, table_uuid=None)
        if self.members.get("next-row-id") is None:
            metadata = replace(metadata, next_row_id=None)
        return replace(metadata, oddities=tuple(self.oddities))

    def _try(self, changed: Mapping[str, Any]) -> CorruptTable | None:
        """Tell why what was read so far would be unreadable with these members, if it would."""
        try:
            parse_metadata({**self.read, **changed})
        except CorruptTable as error:
            return error
        return None

    def _tell(self, name: str, error: CorruptTable, *, lost: bool, message: str = "") -> None:
        reason = message or error.what
        self.oddities.append(Oddity(error.rule, reason, name, lost))

    def _is_due(self, name: str) -> bool:
        return _FIRST_VERSION.get(name, 1) <= int(self.read["format-version"])

    def _single(self, name: str) -> None:
        """Take a member as it is, or not at all."""
        if not self._is_due(name):
            return
        value = self.members.get(name)
        error = self._try({name: value})
        if error is not None:
            self._tell(name, error, lost=value is not None)
        else:
            self.read[name] = value

    def _list(self, name: str) -> None:
        """Take those entries of a list that can be read."""
        items = self.members.get(name)
        if not self._is_due(name):
            return
        if not isinstance(items, list) or not items:
            error = self._try({name: items})
            if error is not None and not (name == "schemas" and "schema" in self.members):
                self._tell(name, error, lost=items is not None or name in _CURRENT)
            return
        if readable := list(self._readable(name, items)):
            self.read |= self._with_items(name, readable)

    def _with_items(self, name: str, items: Sequence[Any]) -> dict[str, Any]:
        """Return a list, and what names one of its entries, so that it can be judged."""
        changed: dict[str, Any] = {name: list(items)}
        if name in _CURRENT:
            current, own_id = _CURRENT[name]
            last = items[-1]
            changed[current] = (last.get(own_id) if isinstance(last, dict) else None) or 0
        return changed

    def _readable(self, name: str, items: Sequence[Any], start: int = 0) -> Iterator[Any]:
        """Yield the entries that can be read, halving down to single ones. Cost: n log n."""
        error = self._try(self._with_items(name, items))
        if error is None:
            yield from items
        elif len(items) > 1:
            half = len(items) // 2
            yield from self._readable(name, items[:half], start)
            yield from self._readable(name, items[half:], start + half)
        else:
            reason = error.what
            reason = reason.replace("entry 0 ", f"entry {start} ", 1)
            self._tell(name, error, lost=True, message=reason)
            parts = _shorter(name, items[0])
            yield from islice(
                (part for part in parts if self._try(self._with_items(name, [part])) is None), 1
            )

    def _old_schema(self) -> None:
        """Take the members by which version 1 tells of its schema and its partitioning."""
        for old, new in (("schema", "schemas"), ("partition-spec", "partition-specs")):
            value = self.members.get(old)
            if self.read["format-version"] > 1 or value is None or self.members.get(new):
                continue
            without = {key: item for key, item in self.read.items() if key != new}
            current, _ = _CURRENT[new]
            try:
                parse_metadata({**without, old: value, current: 0})
            except CorruptTable as error:
                self._tell(old, error, lost=True)
            else:
                self.read = {**without, old: value, current: 0}

    def _derived(self) -> None:
        """Let counters that cannot be read stand at what is in use."""
        metadata = parse_metadata(self.read)
        snapshots = metadata.snapshots
        columns = (id_ for schema in metadata.schemas for id_ in schema.all_fields)
        self.read |= {
            "last-sequence-number": max(
                (snapshot.sequence_number for snapshot in snapshots), default=0
            ),
            "last-updated-ms": max((snapshot.timestamp_ms for snapshot in snapshots), default=0),
            "last-column-id": max(columns, default=0),
        }

    def _current_snapshot(self) -> None:
        name = "current-snapshot-id"
        value = self.members.get(name)
        error = self._try({name: value})
        if error is not None:  # the head of branch main is the current one too
            refs = self.members.get("refs")
            main = refs.get("main") if isinstance(refs, dict) else None
            head = main.get("snapshot-id") if isinstance(main, dict) else None
            value = head if self._try({name: head}) is None else None
            self._tell(name, error, lost=value is None)
        self.read[name] = value

    def _refs(self) -> None:
        refs = self.members.get("refs")
        if refs is None:
            return
        if not isinstance(refs, dict):
            error = self._try({"refs": refs})
            if error is not None:
                self._tell("refs", error, lost=True)
            return
        kept: dict[str, Any] = {}
        for key, ref in refs.items():
            error = self._try({"refs": {key: ref}})
            if error is not None:
                self._tell("refs", error, lost=True)
                left = (
                    shorter
                    for shorter in _shorter("refs", ref)
                    if not self._try({"refs": {key: shorter}})
                )
                ref = next(left, None)  # noqa: PLW2901
            if ref is not None:
                kept[key] = ref
        self.read["refs"] = kept


def _shorter(name: str, item: Any) -> Iterator[dict[str, Any]]:
    """Yield an entry without each of its members in turn, or with what can stand for one."""
    if (name not in _SHORTENED and name != "refs") or not isinstance(item, dict):
        return
    for left_out in item:
        yield {key: value for key, value in item.items() if key != left_out}
    for member, value in _STAND_INS.get(name, {}).items():
        yield item | {member: value}
