"""The live files of a snapshot, for compaction and row changes, and the columns to read of them."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icectl.checks.file_identity import STATED, StatedFile, stated_files
from icectl.checks.schemas import mapping_problem
from icectl.entries.columns import Integers, Mask, mask_of
from icectl.entries.conditions import Predicate
from icectl.entries.deletes import (
    DeleteIndex,
    DeleteMatches,
    DeleteScopes,
    NamedFiles,
    NamedPositionDeletes,
    dangling_rows,
    match,
    names_of,
    per_delete_file,
    resolve_names,
)
from icectl.entries.file_verdicts import of_specs
from icectl.entries.partition_key import UNKNOWN_KEY
from icectl.entries.rows import (
    EMPTY,
    Entries,
    at_places,
    by_row,
    concat,
    data_files,
    delete_files,
    in_manifests,
    live,
    location_keys,
    numbers,
    renumbered,
    take,
    where,
    with_manifests_moved,
)
from icectl.errors import CorruptTable, Unsupported
from icectl.files.parquet.schema import NameMapping
from icectl.format.json_members import parse_json
from icectl.format.layout import Layout, layout_of_table
from icectl.format.locations import scheme_of_entries, with_scheme
from icectl.format.manifest import Content, FileFormat, ManifestContent, ManifestFile, Status
from icectl.format.metadata import TableMetadata
from icectl.format.partition import result_types
from icectl.format.properties import NAME_MAPPING
from icectl.format.schema import POSITION_FIELD, Schema
from icectl.format.snapshot import Snapshot
from icectl.format.types import NestedField, StructType
from icectl.storage.location import comparison_key, loosest_key, loosest_keys
from icectl.table.context import TableContext
from icectl.table.dangling import check_dangling
from icectl.table.guard import check_head_list, check_live
from icectl.table.known_locations import KnownLocations
from icectl.table.live_parts import MOST_WHOLE, LiveParts
from icectl.table.manifest_lists import divided, read_snapshot_manifests, snapshot_reader
from icectl.table.manifests import SharedValues, load_entries, scan_entries, scan_manifests
from icectl.table.rewrite_tasks import LOADED_COLUMNS, Task
from icectl.units import read_count

_OTHER_DELETES = (
    "`--where` without these files, or rewrite the deletes with the engine that made them"
)


@dataclass(frozen=True)
class LiveFiles:
    """A snapshot's manifests and live entries, whose `manifest` indexes them.

    `entries` are those of load_entries, to be matched, with LOADED_COLUMNS. `named_files` are
    position delete files that were read; `spelling` has the locations of data files that they spell
    differently. Only manifests of `known_spec_ids` can be rewritten. `unread` are data manifests in
    which no file has a row `within` a condition; deletes may be of their files too. `needless` are
    those of deletes for these alone that were not read. So many data files may be `settled`, and
    not among the entries: no delete applies to them. Those of sfc-1 have `vectors_by_name`.
    """

    manifests: tuple[ManifestFile, ...]
    entries: Entries
    known_spec_ids: frozenset[int]
    unpartitioned_spec_ids: frozenset[int]
    vectors_by_name: bool = False
    named_files: NamedFiles = field(default_factory=dict)
    spelling: Mapping[str, str] = field(default_factory=dict)
    unread: tuple[ManifestFile, ...] = ()
    needless: tuple[ManifestFile, ...] = ()
    within: Predicate | None = None
    settled: int = 0

    @property
    def listed(self) -> tuple[ManifestFile, ...]:
        """All manifests of the snapshot, those that were read first."""
        return (*self.manifests, *self.unread, *self.needless)

    @property
    def unread_file_count(self) -> int:
        """The number of live files in manifests that were not read, as their list says."""
        return _live_count(self.unread)

    @cached_property
    def data(self) -> Entries:
        return data_files(live(self.entries))

    @cached_property
    def deletes(self) -> Entries:
        return delete_files(live(self.entries))

    @cached_property
    def matches(self) -> DeleteMatches:
        """The deletes that apply to data files, with rows of `data` and `deletes`."""
        return match(
            self.entries, self.unpartitioned_spec_ids, vectors_by_name=self.vectors_by_name
        )

    @cached_property
    def named(self) -> NamedPositionDeletes:
        """The position delete files that were read, and the data files that they name."""
        return resolve_names(self.matches, self.named_files, self.spelling)

    @cached_property
    def index(self) -> DeleteIndex:
        return DeleteIndex(self.matches, self.named)

    @cached_property
    def unused(self) -> Integers:
        """Rows of `deletes` that apply to no file of `data`, in manifests that can be rewritten."""
        rows = dangling_rows(self.matches, self.named)
        return rows[of_specs(self.deletes, self.known_spec_ids)[rows]]

    @property
    def dangling(self) -> Integers:
        """Rows of `deletes` that apply to no live data file, as far as that is known."""
        return self.unused[:0] if self.unread else self.unused

    def unused_without(self, replaced: Collection[str]) -> Integers:
        """Rows of `deletes` that apply to no live data file now that some were `replaced`.

        If manifests are unread, these are deletes by position that name nothing but replaced files.
        """
        if not self.unread:
            return self.unused
        return self.unused[self.name_only(self.unused, replaced)]

    def name_only(self, rows: Integers, locations: Collection[str]) -> Mask:
        """Whether some deletes are by position, and known to name none but these data files."""
        columns = ("location", "referenced_data_file")
        named = (
            self.named_files.get(place, ()) if referenced is None else (referenced,)
            for place, referenced in by_row(take(self.deletes, rows), *columns)
        )
        only = [
            len(names) > 0 and all(self.spelling.get(name, name) in locations for name in names)
            for names in named
        ]
        return np.array(only, np.bool_)


def _live_count(manifests: Iterable[ManifestFile]) -> int:
    return sum(
        (manifest.added_files_count or 0)
        + (manifest.existing_files_count or 0)
        - manifest.dead_count
        for manifest in manifests
    )


def files_of_snapshot(
    metadata: TableMetadata, manifests: Sequence[ManifestFile], entries: Entries
) -> LiveFiles:
    """Return the files of a snapshot for a plan, as far as no delete file was read."""
    specs = metadata.partition_specs
    known_specs = (  # all transforms and source columns are known
        spec
        for spec in specs
        if None not in result_types(spec, metadata.schemas)
    )
    return LiveFiles(
        tuple(manifests),
        entries,
        known_spec_ids=frozenset(spec.spec_id for spec in known_specs),
        unpartitioned_spec_ids=frozenset(spec.spec_id for spec in specs if spec.is_unpartitioned),
        vectors_by_name=layout_of_table(metadata) is Layout.SFC_1,
    )


def check_deletes(files: LiveFiles, rows: Sequence[int] | Integers) -> None:
    """Refuse to rewrite data files if readers disagree on their deleted rows.

    Raises: Unsupported; CorruptTable R-114.
    """
    rows = np.asarray(rows, np.int64)
    misspelt = int(files.named.misspelt[rows].sum())
    if misspelt:
        message = (
            f"position deletes of {misspelt:,} rows name their data file in another form "
            "than its manifest entry: not all readers apply them"
        )
        raise Unsupported(message, hint=_OTHER_DELETES)
    if (files.matches.vectors.counts[rows] > 1).any():
        message = "a data file has more than one deletion vector"
        raise CorruptTable(message, rule="R-114")
    named = files.named.misplaced[1]
    misplaced = len(np.intersect1d(named, rows)) if len(named) else 0
    if misplaced:
        message = (
            f"position deletes or vectors of {misplaced:,} data files lie in another partition "
            "than these: not all readers apply them (R-211)"
        )
        raise Unsupported(message, hint=_OTHER_DELETES)


def load_stated(
    context: TableContext,
    metadata: TableMetadata,
    manifests: Sequence[ManifestFile],
    entry_tables: Sequence[Entries],
) -> Mapping[str, StatedFile]:
    """Read the statistics of some live files' entries, by location.

    `entry_tables` have `location` and `manifest`, which indexes `manifests`. Of position deletes
    only bounds of positions count: tools that move tables may leave those of paths.
    Raises: as scan_manifests.
    Cost: their manifests, a few MiB at a time.
    """
    wanted_locations = pa.chunked_array(
        [chunk for entries in entry_tables for chunk in entries.table["location"].chunks],
        pa.string(),
    )
    places = np.unique(np.concatenate([numbers(entries, "manifest") for entries in entry_tables]))
    stated: dict[str, StatedFile] = {}
    read = scan_entries(context, metadata, [manifests[place] for place in places.tolist()], STATED)
    columns = every_column(metadata).fields
    for part in map(live, read):
        needed = where(part, pc.is_in(part.table["location"], value_set=wanted_locations))
        by_position = pc.equal(needed.table["content"], Content.POSITION_DELETES)
        stated.update(stated_files(where(needed, pc.invert(by_position)), columns))
        stated.update(stated_files(where(needed, by_position), [POSITION_FIELD]))
    return stated


def with_stated(tasks: Sequence[Task], stated: Mapping[str, StatedFile]) -> list[Task]:
    """Return tasks with the statistics of their files' entries."""
    return [
        replace(
            task,
            inputs=tuple(replace(file, stated=stated.get(file.location)) for file in task.inputs),
            delete_files=tuple(
                replace(file, stated=stated.get(file.location)) for file in task.delete_files
            ),
        )
        for task in tasks
    ]


ReadNames = Callable[[Entries, Mapping[str, StatedFile]], NamedFiles]
"""Reads the data files that position delete files name; takes their entries and statistics."""


def load_live_files(
    context: TableContext,
    metadata: TableMetadata,
    snapshot: Snapshot | None,
    known: NamedFiles,
    read_names: ReadNames,
    *,
    columns: frozenset[str] = frozenset(),
    within: Predicate | None = None,
    all_deletes: bool = False,
) -> LiveFiles:
    """Load the entries of a snapshot, and read the position delete files of whole partitions.

    `known` are position delete files that were read before, by location; `columns` are loaded
    beside LOADED_COLUMNS. Data manifests in which no file has a row `within` a condition stay
    unread; so do manifests of deletes for these alone, unless `all_deletes` are wanted.
    Raises: StorageError, for a missing file; CorruptTable; Unsupported.
    """
    if snapshot is None:
        return files_of_snapshot(metadata, (), EMPTY)
    manifests, unread, needless = _manifests(context, metadata, snapshot, within)
    if all_deletes:
        manifests, needless = (*manifests, *needless), ()
    entries = load_entries(context, metadata, manifests, LOADED_COLUMNS | columns, to_match=True)
    files = replace(
        files_of_snapshot(metadata, manifests, entries),
        unread=unread,
        needless=needless,
        within=within,
    )
    return _checked(context, metadata, snapshot, files, read_names, known)


def load_unsettled(
    context: TableContext,
    metadata: TableMetadata,
    snapshot: Snapshot | None,
    are_settled: Callable[[Entries], Mask],
    read_names: ReadNames,
    most_whole: int = MOST_WHOLE,
) -> LiveFiles | None:
    """Load all deletes of a snapshot, and its data files but for those that are settled.

    These are of known specs, no delete applies to them, and none names them. All files are checked.
    None if there are no more than `most_whole` data files by the snapshot's own account, or
    something is doubtful: then load_live_files is to load and to judge all of them.
    Order: deletes first.
    Raises: as load_live_files.
    Cost: memory for each delete and each data file that is not settled; 8 bytes on disk for each
    file.
    """
    if snapshot is None:
        return None
    stated = read_count((snapshot.summary or {}).get("total-data-files"))
    if stated is not None and stated <= most_whole:
        return None
    manifests = read_snapshot_manifests(context.store, metadata, snapshot)
    if _live_count(manifests) <= most_whole:
        return None
    of_data = [
        at for at, item in enumerate(manifests) if item.content is not ManifestContent.DELETES
    ]
    of_deletes = sorted({*range(len(manifests))} - {*of_data})
    listed = [manifests[at] for at in of_deletes]
    deletes = load_entries(context, metadata, listed, LOADED_COLUMNS, to_match=True)
    deletes = at_places(deletes, of_deletes) if listed else deletes
    check, shared = LiveParts(metadata, snapshot, manifests), SharedValues()
    files = files_of_snapshot(metadata, manifests, deletes)
    if len(files.data):
        return None
    touched = None
    if len(deletes):
        check.add(deletes)
        files = replace(files, named_files=_named(context, metadata, files, {}, read_names))
        touched = _Touched(files)
    parts, settled = [], 0
    listed = [manifests[at] for at in of_data]
    for part in scan_manifests(context, metadata, listed, LOADED_COLUMNS):
        entries = at_places(part.entries(), of_data)
        if len(data_files(entries)) < len(entries):
            return None
        is_live = numbers(entries, "status") != Status.DELETED
        alive = where(entries, is_live)
        check.add(alive)
        mask = are_settled(alive) & of_specs(alive, files.known_spec_ids)
        if touched is not None:
            mask &= ~touched.contains(alive)
        settled += int(np.count_nonzero(mask))
        is_needed = np.zeros(len(entries), np.bool_)
        is_needed[is_live] = ~mask
        if touched is not None:  # the removal of a file that a delete names proves it left over
            is_needed[~is_live] = touched.names(where(entries, ~is_live))
        parts.append(shared.shared(where(entries, is_needed)))
    every = concat([deletes, *parts] if len(deletes) else parts)
    files = replace(files, entries=every, settled=settled)
    if check.is_doubtful:
        return None
    check_head_list(context, metadata, snapshot, manifests)
    files = with_names(context, metadata, files, read_names, files.named_files)
    check_unused_deletes(context, metadata, snapshot, files, read_names)
    return files


class _Touched:
    """The data files that deletes may apply to, or name, by entry or in their rows; some others."""

    def __init__(self, files: LiveFiles) -> None:
        self._scopes = DeleteScopes(files.deletes, files.unpartitioned_spec_ids)
        self._named = KnownLocations()
        self._named.add(pa.array(sorted(names_of(files.deletes, files.named_files)), pa.string()))

    def contains(self, data: Entries) -> Mask:
        unknown = pa.scalar(UNKNOWN_KEY, pa.binary())
        is_unknown = mask_of(pc.equal(data.table["partition_key"], unknown))
        return self._scopes.may_apply(data) | is_unknown | self.names(data)

    def names(self, data: Entries) -> Mask:
        return mask_of(self._named.contains(data.table["location"]))


def _are_vectors(entries: Entries) -> Mask:
    is_vector = numbers(entries, "content") == Content.POSITION_DELETES
    is_vector &= numbers(entries, "file_format") == FileFormat.PUFFIN
    return np.asarray(is_vector, np.bool_)


def with_whole_manifests(
    context: TableContext, metadata: TableMetadata, files: LiveFiles, rows: Sequence[int]
) -> LiveFiles:
    """Return all files of the manifests that some data files are in, for a change of these.

    The other manifests are unread, if nothing needs their rows. Raises: as scan_manifests.
    """
    chosen = set(numbers(take(files.data, rows), "manifest").tolist())
    read, unread = divided(
        files.manifests,
        [at in chosen or _is_numbered(metadata, item) for at, item in enumerate(files.manifests)],
    )
    entries = load_entries(context, metadata, read, LOADED_COLUMNS, to_match=True)
    return replace(files_of_snapshot(metadata, read, entries), unread=unread)


def _is_numbered(metadata: TableMetadata, manifest: ManifestFile) -> bool:
    """Return whether the next commit numbers a manifest's rows, by their count (R-102)."""
    return metadata.format_version >= 3 and manifest.first_row_id is None


def load_since(
    context: TableContext,
    metadata: TableMetadata,
    snapshot: Snapshot | None,
    read_names: ReadNames,
    earlier: LiveFiles,
) -> LiveFiles:
    """Load the same of another snapshot than `earlier`, within its condition, with all deletes.

    Order: manifests that both list come first, and are not read again.
    Raises: as load_live_files.
    """
    if snapshot is None:
        return files_of_snapshot(metadata, (), EMPTY)
    needed, unread, needless = _manifests(context, metadata, snapshot, earlier.within)
    listed = (*needed, *needless)
    by_identity = {manifest.identity: manifest for manifest in (*listed, *unread)}
    before = enumerate(earlier.manifests)
    common = [at for at, manifest in before if by_identity.get(manifest.identity) == manifest]
    entries = renumbered(in_manifests(earlier.entries, common), common)
    manifests = tuple(earlier.manifests[at] for at in common)
    identities = {manifest.identity for manifest in manifests}
    new_manifests = tuple(manifest for manifest in listed if manifest.identity not in identities)
    if new_manifests:
        read = load_entries(context, metadata, new_manifests, LOADED_COLUMNS, to_match=True)
        selected = Entries(entries.table.select(read.table.column_names))
        entries = concat([selected, with_manifests_moved(read, len(manifests))])
    files = replace(
        files_of_snapshot(metadata, (*manifests, *new_manifests), entries),
        unread=tuple(manifest for manifest in unread if manifest.identity not in identities),
        within=earlier.within,
    )
    return _checked(context, metadata, snapshot, files, read_names, earlier.named_files)


def _checked(
    context: TableContext,
    metadata: TableMetadata,
    snapshot: Snapshot,
    files: LiveFiles,
    read_names: ReadNames,
    known: NamedFiles,
) -> LiveFiles:
    """Check the files of a snapshot as far as they were read, and read what deletes name."""
    checked = _with_own_vectors(files) if files.unread else files.entries
    check_live(metadata, snapshot, files.manifests, checked)
    check_head_list(context, metadata, snapshot, files.listed)
    files = with_names(context, metadata, files, read_names, known)
    if not files.unread:  # else deletes that seem unused may be of files in these
        check_unused_deletes(context, metadata, snapshot, files, read_names)
    return files


def check_unused_deletes(
    context: TableContext,
    metadata: TableMetadata,
    snapshot: Snapshot,
    files: LiveFiles,
    read_names: ReadNames,
) -> None:
    """Check that deletes which apply to nothing are left over, by proof. Raises: as check_dangling.

    Cost: nothing without such deletes.
    """
    if len(files.deletes):
        read = partial(_read_unread, context, metadata, files.manifests, read_names)
        matches, named = files.matches, files.named_files
        check_dangling(context, metadata, snapshot, files.entries, matches, named, read)


def with_names(
    context: TableContext,
    metadata: TableMetadata,
    files: LiveFiles,
    read_names: ReadNames,
    known: NamedFiles | None = None,
) -> LiveFiles:
    """Return files whose position deletes of whole partitions are read; `known` were before.

    Raises: StorageError, for a missing file; CorruptTable; Unsupported.
    """
    named = _named(context, metadata, files, known or {}, read_names)
    return replace(files, named_files=named, spelling=_spelling(files, named))


def _manifests(
    context: TableContext,
    metadata: TableMetadata,
    snapshot: Snapshot,
    within: Predicate | None,
) -> tuple[tuple[ManifestFile, ...], tuple[ManifestFile, ...], tuple[ManifestFile, ...]]:
    """Return the manifests of a snapshot to read, and those of data and deletes that need not be.

    The next commit numbers the rows of manifests without row ids by their count, so that these are
    read too.
    """
    if within is None:
        return read_snapshot_manifests(context.store, metadata, snapshot), (), ()
    reader = snapshot_reader(metadata, snapshot)
    needed, others = reader.manifests_of(context.store, snapshot, within)
    of_data, of_deletes = divided(
        others, [manifest.content is ManifestContent.DATA for manifest in others]
    )
    unread, unnumbered = divided(
        of_data, [not _is_numbered(metadata, manifest) for manifest in of_data]
    )
    return (*needed, *unnumbered), unread, of_deletes


def _named(
    context: TableContext,
    metadata: TableMetadata,
    files: LiveFiles,
    known: NamedFiles,
    read_names: ReadNames,
) -> NamedFiles:
    of_partitions = sorted(files.matches.position_deletes[0].order.tolist())
    if files.unread:  # what applies to no file that was read is not looked into
        applied = per_delete_file(files.matches)
        of_partitions = [row for row in of_partitions if applied[row]]
    locations = take(files.deletes, of_partitions).table["location"]
    rows = zip(of_partitions, locations.to_pylist(), strict=True)
    unread = [row for row, location in rows if location not in known]
    if not unread:
        return known
    deletes = take(files.deletes, unread)
    return {**known, **_read_unread(context, metadata, files.manifests, read_names, deletes)}


def _read_unread(
    context: TableContext,
    metadata: TableMetadata,
    manifests: Sequence[ManifestFile],
    read_names: ReadNames,
    deletes: Entries,
) -> NamedFiles:
    """Read the data files that position delete files name, as locations of the table are."""
    stated = load_stated(context, metadata, manifests, [deletes])
    read: dict[str, Mapping[str, int]] = dict(read_names(deletes, stated))
    scheme = scheme_of_entries(metadata)
    if scheme:
        for place, names in read.items():  # of an older version (sfc-1 L2)
            counts = Counter[str]()
            for name, count in names.items():
                counts[with_scheme(scheme, name)] += count
            read[place] = counts
    return read


def _with_own_vectors(files: LiveFiles) -> Entries:
    """Return entries without the vectors of data files in manifests that were not read.

    A delete leaf of a data leaf that was read keeps all of its vectors.
    """
    entries = files.entries
    data_keys = location_keys(files.data.table["location"])
    named = location_keys(entries.table["referenced_data_file"])
    is_known = pc.is_in(named, pc.unique(data_keys)).to_numpy()
    read = {comparison_key(manifest.manifest_path) for manifest in files.manifests}
    leaves = [comparison_key(manifest.affiliated_to or "") for manifest in files.manifests]
    is_own = np.array([leaf in read for leaf in leaves], bool)[numbers(entries, "manifest")]
    return where(entries, pa.array(~_are_vectors(entries) | is_known | is_own))


def _spelling(files: LiveFiles, named: NamedFiles) -> Mapping[str, str]:
    """Return the live data files that deletes spell differently, by that spelling."""
    names = names_of(files.deletes, named)
    locations = files.data.table["location"]
    # Without names the memory of locations as texts is saved.
    other_names = names.difference(locations.to_pylist()) if names else names
    if not other_names:
        return {}
    by_key = dict(zip(loosest_keys(locations).to_pylist(), locations.to_pylist(), strict=True))
    spelling = {name: by_key.get(loosest_key(name)) for name in other_names}
    return {name: location for name, location in spelling.items() if location is not None}


def every_column(metadata: TableMetadata) -> Schema:
    """Return the current schema with the fields that only older schemas have, in structs too."""
    current = metadata.current_schema
    fields = current.fields
    for schema in reversed(metadata.schemas):
        fields = _with_dropped(fields, schema.fields)
    return Schema(current.schema_id, fields)


def with_dropped_columns(metadata: TableMetadata) -> TableMetadata:
    """Return metadata whose current schema has dropped columns, too: only to look for their values.

    Where another column has the name now, a dropped one is `name@7`, by its field id. Those with a
    default are left out: rows that never had such a column would seem to have that value.
    """
    current = metadata.current_schema
    fields = _told_apart(every_column(metadata).fields, current.fields)
    searched = Schema(current.schema_id, fields)
    schemas = (searched if item == current else item for item in metadata.schemas)
    return replace(metadata, schemas=tuple(schemas))


def _told_apart(
    fields: Sequence[NestedField], current: Sequence[NestedField]
) -> tuple[NestedField, ...]:
    known, names = {item.id: item for item in current}, {item.name for item in current}
    found = []
    for item in fields:
        now = known.get(item.id)
        if now is None and item.initial_default is None:
            name = f"{item.name}@{item.id}" if item.name in names else item.name
            names.add(name)
            found.append(replace(item, name=name, required=False))
        elif now is not None:
            if isinstance(item.type, StructType) and isinstance(now.type, StructType):
                now = replace(now, type=StructType(_told_apart(item.type.fields, now.type.fields)))
            found.append(now)
    return tuple(found)


def _with_dropped(
    fields: Sequence[NestedField], older: Sequence[NestedField]
) -> tuple[NestedField, ...]:
    remaining = {item.id: item for item in older}
    dropped = []
    for item in fields:
        before = remaining.pop(item.id, item)
        if isinstance(item.type, StructType) and isinstance(before.type, StructType):
            inner = _with_dropped(item.type.fields, before.type.fields)
            dropped.append(replace(item, type=StructType(inner)))
        else:
            dropped.append(item)
    return (*dropped, *remaining.values())


def name_mapping(metadata: TableMetadata) -> NameMapping:
    """Return the table's mapping of names to ids; empty without a valid one (R-181)."""
    text = metadata.properties.get(NAME_MAPPING.name)
    try:
        parsed: NameMapping = parse_json(text) if text else ()
        return parsed if mapping_problem(parsed) is None else ()
    except (ValueError, RecursionError):
        return ()  # level metadata reports it
