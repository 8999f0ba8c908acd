"""From where to where a table is relocated, new names of its files, and its metadata: pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from icectl.errors import Refused, UsageError
from icectl.format import properties
from icectl.format.layout import Layout, layout_of_table
from icectl.format.locations import (
    absolute_location,
    is_relative,
    relative_location,
    scheme_of,
    with_locations,
)
from icectl.format.metadata import TableMetadata
from icectl.format.snapshot import Snapshot
from icectl.storage import location as locations
from icectl.units import read_count

_PATHS = (
    properties.METADATA_PATH.name,
    properties.DATA_PATH.name,
    properties.OBJECT_STORAGE_PATH.name,
    properties.FOLDER_STORAGE_PATH.name,
)
TOTAL_SIZE, ADDED_SIZE, REMOVED_SIZE = "total-files-size", "added-files-size", "removed-files-size"
"""Counters of bytes in the summaries of snapshots (R-031)."""

_S3 = ("s3://", "s3a://", "s3n://")


@dataclass(frozen=True, slots=True)
class Move:
    """A change of place: locations below one of `sources` become those below `target`.

    `location` and `new_location` are the table's. With `is_done` there is nothing to do.
    """

    sources: tuple[str, ...]
    target: str
    location: str
    new_location: str
    is_done: bool = False

    @property
    def path_map(self) -> tuple[tuple[str, str], ...]:
        """The pairs of FROM and TO; S3 has three schemes for one store."""
        pairs = []
        for source in self.sources:
            scheme = next((prefix for prefix in _S3 if source.lower().startswith(prefix)), "")
            prefixes = _S3 if scheme else ("",)
            pairs += [(prefix + source[len(scheme) :], self.target) for prefix in prefixes]
        return tuple(pairs)

    def of(self, location: str) -> str:
        """Return the new location of a file. Raises: Refused, where it is below no source."""
        moved = locations.moved(location, self.path_map)
        if moved is None or "/../" in moved:
            raise outside(self, location)
        return moved


def outside(move: Move, location: str) -> Refused:
    """Return the error for a location that is not to be moved."""
    places = " or ".join(map(locations.redacted, move.sources))
    return Refused(
        f"`{locations.redacted(location)}` is not under {places}, and the table would still use it",
        hint="give `--from` for each prefix of the table's locations, or a shorter one; one `--to` "
        "applies to all",
        id="location-outside",
    )


def spelled_like(recorded: str, target: str, format_version: int) -> str:
    """Return a path of this machine with the scheme that a table's locations have.

    From version 4 on every location has one.
    """
    if locations.scheme(target) or not target.startswith("/"):
        return target
    return f"file://{target}" if locations.scheme(recorded) or format_version >= 4 else target


def decide_move(
    recorded: str, place: str, *, is_home: bool, sources: Sequence[str], target: str | None
) -> Move:
    """Decide from where to where, by what the metadata say (`recorded`) and where they lie.

    `is_home`: both are one place.
    Raises: UsageError; Refused, where the places overlap.
    """
    target = None if target is None else target.rstrip("/") or target
    if is_home and _is_done(recorded, sources, target):
        return Move((recorded,), target or place, recorded, recorded, is_done=True)
    sources = tuple(source.rstrip("/") or source for source in sources) or (recorded,)
    rest = _rest(recorded, sources)
    if rest is None:
        raise UsageError(
            f"the table's metadata gives its location as {locations.redacted(recorded)}, which "
            f"is not under `--from` {' or '.join(map(locations.redacted, sources))}",
            hint="set `--from` to the prefix of the locations in the table's metadata; repeat it "
            "for several prefixes",
        )
    if target is None:
        target = _target(recorded, place, rest, is_home=is_home)
    new_location = locations.join(target, rest) if rest else target
    if locations.is_within(new_location, recorded) or locations.is_within(recorded, new_location):
        raise Refused(
            f"the new location, {locations.redacted(new_location)}, and the old one, "
            f"{locations.redacted(recorded)}, overlap",
            hint="give the table its own folder",
        )
    return Move(sources, target, recorded, new_location)


def _target(recorded: str, place: str, rest: str, *, is_home: bool) -> str:
    """Return the default of `--to`: the place of the table, without the path that stays."""
    if is_home:
        raise UsageError(
            "`--to` is missing",
            hint="give the table's new location, or a prefix of it to match `--from`",
        )
    if not rest:
        return place
    if not place.endswith(f"/{rest}"):
        raise UsageError(
            f"`--to` is missing: {locations.redacted(place)} does not end with `{rest}`, as "
            f"{locations.redacted(recorded)} does"
        )
    return place.removesuffix(rest).rstrip("/")


def _is_done(recorded: str, sources: Sequence[str], target: str | None) -> bool:
    """Return whether a table at its place has been relocated this way before."""
    is_below = _rest(recorded, sources) is not None
    if target is None:
        return not is_below
    if not sources:
        return locations.comparison_key(recorded) == locations.comparison_key(target)
    is_there = locations.is_within(recorded, target)
    return is_there and (
        not is_below or any(locations.is_within(target, source) for source in sources)
    )


def _rest(location: str, sources: Sequence[str]) -> str | None:
    """Return the path of a location below one of the sources; None outside of them."""
    rest = locations.moved(location, Move(tuple(sources), "/", location, "/").path_map)
    return None if rest is None else rest.strip("/")


def new_metadata(
    metadata: TableMetadata,
    move: Move,
    written: Mapping[str, str],
    *,
    size_changes: Mapping[int, Mapping[str, int]] = MappingProxyType({}),
    uuid: str | None,
    now_ms: int,
) -> TableMetadata:
    """Return the metadata for the new place; `written` are new names of lists and manifests.

    The metadata log begins again. `size_changes` are what counters of bytes in summaries change by,
    by snapshot id. `uuid` is the table's from now on, None to keep it.
    Raises: Refused, for a location that is not to be moved.
    """

    def of(location: str) -> str:
        return written.get(location) or move.of(location)

    moved = with_locations(replace(metadata, metadata_log=()), of)
    return replace(
        moved,
        location=move.new_location,
        snapshots=tuple(
            _recounted(snapshot, size_changes.get(snapshot.snapshot_id, {}))
            for snapshot in moved.snapshots
        ),
        table_uuid=uuid or metadata.table_uuid,
        properties={key: _property(key, value, move) for key, value in metadata.properties.items()},
        last_updated_ms=max(now_ms, metadata.last_updated_ms),
    )


def _recounted(snapshot: Snapshot, changes: Mapping[str, int]) -> Snapshot:
    """Return a snapshot with changed counters, if its summary has them as numbers."""
    summary = dict(snapshot.summary or {})
    counters = {
        key: str(count + change)
        for key, change in changes.items()
        if change and (count := read_count(summary.get(key))) is not None and count + change >= 0
    }
    return replace(snapshot, summary={**summary, **counters}) if counters else snapshot


def _property(key: str, value: str, move: Move) -> str:
    """Return the value of a property; a location below `--from` is moved."""
    moved = locations.moved(value, move.path_map) if value else None
    if moved is not None:
        return moved
    if key in _PATHS and value and not is_relative(value):
        refused = outside(move, value)
        refused.hint = f"unset `{key}` at the old place, or give a `--from` that covers it, too"
        raise refused
    return value


def is_same_table(moved: TableMetadata, other: TableMetadata, *, new_uuid: bool) -> bool:
    """Return whether `other` is the state that a relocation would write again.

    Names of files that relocations choose are not compared; nor is the uuid, where it is new.
    """

    def without_sizes(summary: Mapping[str, str]) -> Mapping[str, str]:
        counters = (TOTAL_SIZE, ADDED_SIZE, REMOVED_SIZE)
        return {key: value for key, value in summary.items() if key not in counters}

    def plain(metadata: TableMetadata) -> TableMetadata:
        nameless = with_locations(replace(metadata, metadata_log=()), lambda _: "")
        return replace(
            nameless,
            snapshots=tuple(
                replace(one, summary=one.summary and without_sizes(one.summary))
                for one in nameless.snapshots
            ),
            last_updated_ms=0,
            table_uuid=None if new_uuid else metadata.table_uuid,
        )

    return plain(moved) == plain(other)


@dataclass(frozen=True, slots=True)
class FileToCopy:
    """A file that is not at the new place as the table says; `found_bytes` None is not there."""

    source: str
    target: str
    size_bytes: int | None
    found_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class RelocatePlan:
    """The plan of a relocation.

    `metadata` is as it will be; None where nothing is to do. `written` counts new files by kind,
    `written_bytes` their bytes; `data_files` are those that the table keeps, `missing` those that
    are not at the new place. `set_aside` are metadata files of the original that are renamed.
    """

    move: Move
    metadata: TableMetadata | None = None
    snapshot_count: int = 0
    written: Mapping[str, int] | None = None
    written_bytes: int = 0
    kept_files: int = 0
    kept_bytes: int = 0
    missing: tuple[FileToCopy, ...] = ()
    copy_list: str | None = None
    needs_registering: bool = False
    set_aside: tuple[str, ...] = ()
    metadata_file: str | None = None
    done: bool = False

    @property
    def has_work(self) -> bool:
        """Whether a run would change anything."""
        return self.metadata is not None or bool(self.set_aside)

    @property
    def missing_bytes(self) -> int:
        """Bytes of the files that are to be copied, as far as they are known."""
        return sum(file.size_bytes or 0 for file in self.missing)


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A rewritten file: where, its size, and of position deletes what they name.

    `file_format` is the new one where that differs; `paths` are the least and the greatest path.
    """

    location: str
    size_bytes: int
    file_format: str | None = None
    paths: tuple[str, str] | None = None


@dataclass(slots=True)
class Renames:
    """New names by old ones; `written` are rewritten files, by their `key`."""

    move: Move
    metadata: TableMetadata
    written: dict[str, Rewritten] = field(default_factory=dict)
    data_files: frozenset[str] = frozenset()
    """Names of data files, without their folders."""

    def key(self, stored: str) -> str:
        """Return the key of a location as a file of the table spells it."""
        return locations.comparison_key(self.whole(stored))

    def whole(self, stored: str) -> str:
        """Return the location as a whole one; from version 4 on it may be below the table's."""
        if self.metadata.format_version < 4 or locations.scheme(stored):
            return stored
        if stored.startswith("/"):
            return f"{scheme_of(self.metadata)}{stored}"
        return absolute_location(self.metadata.location, stored)

    def add(self, old: str, new: Rewritten) -> None:
        """Note a rewritten file."""
        self.written[self.key(old)] = new

    def file(self, stored: str) -> Rewritten | None:
        """Return what was written in the place of a file, if anything was."""
        return self.written.get(self.key(stored))

    def of(self, stored: str) -> str:
        """Return the new name of a file, spelled as the old one: whole, or below the table's.

        Raises: Refused, where it is not below `--from`.
        """
        new = self.file(stored)
        location = self.move.of(self.whole(stored)) if new is None else new.location
        if self.metadata.format_version < 4 or not is_relative(stored):
            return location
        relative = relative_location(self.move.new_location, location)
        if layout_of_table(self.metadata) is Layout.SFC_1 or relative != location:
            return relative
        raise Refused(f"`{stored}` would no longer be under the table's location")

    def of_deleted(self, path: str) -> str:
        """Return the new name of a data file in a position delete file.

        One of no data file of the table stays as it is: it deletes nothing, as before.
        Raises: Refused, where it may be another spelling of a data file's location.
        """
        moved = locations.moved(path, self.move.path_map)
        if moved is not None:
            return moved
        if locations.name(path) in self.data_files:
            raise outside(self.move, path)
        return path
