"""The plan of a change of table properties: pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from icectl.errors import CommitConflict, UsageError
from icectl.format.metadata import TableMetadata
from icectl.format.properties import KNOWN, known_property
from icectl.format.updates import RemoveProperties, SetProperties, Update

RESERVED: Mapping[str, str] = {
    "format-version": "`icectl upgrade-to-v3 TABLE` upgrades to version 3, "
    "`icectl migrate-v1-v2 TABLE` to 2, `icectl upgrade-to-v4 TABLE --layout iceberg-1.12` to 4",
    "uuid": "the uuid of a table never changes",
    "snapshot-count": "`icectl inspect TABLE` shows it",
    "current-snapshot-id": "`icectl refs TABLE rollback --to SNAPSHOT` changes it",
    "current-snapshot-summary": "`icectl inspect TABLE snapshots` shows it",
    "current-snapshot-timestamp-ms": "`icectl inspect TABLE snapshots` shows it",
    "current-schema": "`icectl inspect TABLE schemas` shows it",
    "default-partition-spec": "`icectl inspect TABLE specs` shows it",
    "default-sort-order": "`icectl inspect TABLE sort-orders` shows it",
}
"""Names that engines show as properties and that are fields of the metadata, with a hint."""


@dataclass(frozen=True, slots=True)
class PropertyChange:
    """A property before and after; None where it is not set."""

    key: str
    before: str | None
    after: str | None


def parse_pairs(texts: Sequence[str]) -> Mapping[str, str]:
    """Return properties to set, from KEY=VALUE. Raises: UsageError."""
    pairs: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise UsageError(f"`{text}` is not KEY=VALUE")
        if key in pairs:
            raise UsageError(f"`{key}` is set twice")
        if key in RESERVED:
            raise UsageError(f"`{key}` is not a table property", hint=RESERVED[key])
        known = known_property(key)
        if known is not None:
            try:
                known.parse(value)
            except ValueError as error:
                raise UsageError(
                    f"`{value}` is not a value of `{key}`: {error}",
                    hint=f"it is the {known.description}; without it: {known.default}",
                ) from error
        pairs[key] = value
    return pairs


def plan_set(current: Mapping[str, str], pairs: Mapping[str, str]) -> Sequence[PropertyChange]:
    """Return the changes that set properties; those that have their value already are left out."""
    return [
        PropertyChange(key, current.get(key), value)
        for key, value in pairs.items()
        if current.get(key) != value
    ]


def plan_unset(current: Mapping[str, str], keys: Sequence[str]) -> Sequence[PropertyChange]:
    """Return the changes that unset properties; those that are not set are left out."""
    return [
        PropertyChange(key, current[key], None) for key in dict.fromkeys(keys) if key in current
    ]


def likely_slips(
    current: Mapping[str, str], verb: str, names: Sequence[str]
) -> Sequence[tuple[str, str | None]]:
    """Return names that look like slips, each with the property that may be meant, if any.

    Names to unset must be set; names to set are looked at only beside those that icectl reads.
    """
    slips: list[tuple[str, str | None]] = []
    for name in names:
        if verb == "unset":
            if name not in current:
                near = get_close_matches(name, current, n=1)
                slips.append((name, near[0] if near else None))
        elif name not in KNOWN and name not in current:
            near = get_close_matches(name, KNOWN, n=1, cutoff=0.9)
            if near:
                slips.append((name, near[0]))
    return slips


def updates(metadata: TableMetadata, changes: Sequence[PropertyChange]) -> Sequence[Update]:
    """Return the updates of the metadata. Raises: CommitConflict, if a property has changed."""
    for change in changes:
        now = metadata.properties.get(change.key)
        if now != change.before:
            raise CommitConflict(
                f"another writer has changed property `{change.key}`",
                hint="check it with `icectl properties TABLE`, then run the command again",
            )
    pairs = {change.key: change.after for change in changes if change.after is not None}
    keys = tuple(change.key for change in changes if change.after is None)
    setting = (SetProperties(pairs),) if pairs else ()
    return (*setting, RemoveProperties(keys)) if keys else setting
