"""The live files of a snapshot, for compactions and changes of rows; the columns they may have."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icectl.checks.file_identity import STATED, StatedFile, stated_files
from icectl.checks.schemas import mapping_problem
from icectl.entries.columns import Integers
from icectl.entries.conditions import Predicate
from icectl.entries.deletes import (
    DeleteIndex,
    Matches,
    NamedFiles,
    NamedPositionDeletes,
    dangling_rows,
    match,
    names_of,
    resolve_names,
)
from icectl.entries.file_verdicts import of_specs
from icectl.entries.rows import (
    EMPTY,
    Entries,
    concat,
    data_files,
    delete_files,
    deletion_vectors,
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
from icectl.format.locations import scheme_of_entries, with_scheme
from icectl.format.manifest import Content, ManifestFile
from icectl.format.metadata import TableMetadata
from icectl.format.partition import result_types
from icectl.format.properties import NAME_MAPPING
from icectl.format.schema import POSITION_FIELD, Schema
from icectl.format.snapshot import Snapshot
from icectl.format.types import NestedField, StructType
from icectl.storage.location import loosest_key, loosest_keys
from icectl.table.context import TableContext
from icectl.table.dangling import check_dangling
from icectl.table.guard import check_head_list, check_live
from icectl.table.manifest_lists import read_snapshot_manifests, snapshot_reader
from icectl.table.manifests import load_entries, scan_entries
from icectl.table.rewrite_tasks import LOADED_COLUMNS, Task

_OTHER_DELETES = (
    "`--where` without these files, or rewrite the deletes with the engine that made them"
)


@dataclass(frozen=True)
class LiveFiles:
    """A snapshot's manifests and live entries, whose `manifest` indexes them.

    `entries` are those of load_entries, to be matched, with LOADED_COLUMNS. `named_files` are
    position delete files that were read; `spelling` has the locations of data files that they spell
    differently. Only manifests of `known_spec_ids` can be rewritten.
    """

    manifests: tuple[ManifestFile, ...]
    entries: Entries
    known_spec_ids: frozenset[int]
    unpartitioned_spec_ids: frozenset[int]
    named_files: NamedFiles = field(default_factory=dict)
    spelling: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def data(self) -> Entries:
        return data_files(live(self.entries))

    @cached_property
    def deletes(self) -> Entries:
        return delete_files(live(self.entries))

    @cached_property
    def matches(self) -> Matches:
        """The deletes that apply to data files, with rows of `data` and `deletes`."""
        return match(self.entries, self.unpartitioned_spec_ids)

    @cached_property
    def named(self) -> NamedPositionDeletes:
        """The position delete files that were read, and the data files that they name."""
        return resolve_names(self.matches, self.named_files, self.spelling)

    @cached_property
    def index(self) -> DeleteIndex:
        return DeleteIndex(self.matches, self.named)

    @cached_property
    def dangling(self) -> Integers:
        """Rows of `deletes` that apply to no live data file, in manifests that can be rewritten."""
        rows = dangling_rows(self.matches, self.named)
        return rows[of_specs(self.deletes, self.known_spec_ids)[rows]]


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
    )


def check_deletes(files: LiveFiles, rows: Sequence[int] | Integers) -> None:
    """Refuse to rewrite data files if readers disagree on their deleted rows.

    Raises: Unsupported; CorruptTable R-114.
    """
    rows = np.asarray(rows, np.int64)
    misspelt = int(files.named.misspelt[rows].sum())
    if misspelt:
        message = (
            f"position deletes of {misspelt:,} rows name their data file in another spelling "
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
    earlier: LiveFiles | None = None,
) -> LiveFiles:
    """Load the entries of a snapshot, and read the position delete files of whole partitions.

    `known` are position delete files that were read before, by location; `columns` are loaded
    beside LOADED_COLUMNS. A condition (`within`) may leave out data files without a matching row,
    each with all of its deletes. `earlier` are the files of another snapshot with the same columns:
    manifests that both list come first, and are not read again.
    Raises: StorageError, for a missing file; CorruptTable; Unsupported.
    """
    if snapshot is None:
        return files_of_snapshot(metadata, (), EMPTY)
    loaded = LOADED_COLUMNS | columns
    if earlier is None:
        manifests, entries = _listed(context, metadata, snapshot, loaded, within)
    else:
        manifests, entries = _listed_since(context, metadata, snapshot, loaded, earlier)
    check_live(metadata, snapshot, manifests, entries)
    if within is None:
        check_head_list(context, metadata, snapshot, manifests)
    files = files_of_snapshot(metadata, manifests, entries)
    files = with_names(context, metadata, files, read_names, known)
    if within is None:  # conditions leave out data files
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


def _listed(
    context: TableContext,
    metadata: TableMetadata,
    snapshot: Snapshot,
    columns: frozenset[str],
    within: Predicate | None,
) -> tuple[tuple[ManifestFile, ...], Entries]:
    if within is not None:
        reader = snapshot_reader(metadata, snapshot)
        manifests, is_part = reader.manifests_of(context.store, snapshot, within)
        entries = load_entries(context, metadata, manifests, columns, to_match=True)
        if not is_part:
            return manifests, entries
        deletes = delete_files(live(entries))
        if len(deletion_vectors(deletes)) == len(deletes):
            return manifests, _with_own_vectors(manifests, entries)
        # Other deletes may also apply to files that were left out.
    manifests = read_snapshot_manifests(context.store, metadata, snapshot)
    return manifests, load_entries(context, metadata, manifests, columns, to_match=True)


def _listed_since(
    context: TableContext,
    metadata: TableMetadata,
    snapshot: Snapshot,
    columns: frozenset[str],
    earlier: LiveFiles,
) -> tuple[tuple[ManifestFile, ...], Entries]:
    """Read the manifests that `earlier` does not have. Order: the common ones first, as there."""
    listed = read_snapshot_manifests(context.store, metadata, snapshot)
    by_identity = {manifest.identity: manifest for manifest in listed}
    before = enumerate(earlier.manifests)
    common = [at for at, manifest in before if by_identity.get(manifest.identity) == manifest]
    earlier_entries = renumbered(in_manifests(earlier.entries, common), common)
    earlier_manifests = tuple(earlier.manifests[at] for at in common)
    identities = {manifest.identity for manifest in earlier_manifests}
    new_manifests = tuple(manifest for manifest in listed if manifest.identity not in identities)
    if not new_manifests:
        return earlier_manifests, earlier_entries
    read = load_entries(context, metadata, new_manifests, columns, to_match=True)
    selected = Entries(earlier_entries.table.select(read.table.column_names))
    moved = with_manifests_moved(read, len(earlier_manifests))
    return (*earlier_manifests, *new_manifests), concat([selected, moved])


def _named(
    context: TableContext,
    metadata: TableMetadata,
    files: LiveFiles,
    known: NamedFiles,
    read_names: ReadNames,
) -> NamedFiles:
    of_partitions = sorted(files.matches.position_deletes[0].order.tolist())
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


def _with_own_vectors(manifests: Sequence[ManifestFile], entries: Entries) -> Entries:
    """Return entries without the vectors of data files that were left out.

    A delete leaf of a data leaf keeps all of its vectors: that leaf was read.
    """
    data_keys = location_keys(data_files(live(entries)).table["location"])
    named = location_keys(entries.table["referenced_data_file"])
    is_known = pc.is_in(named, pc.unique(data_keys)).to_numpy()
    is_shared = np.array([manifest.affiliated_to is None for manifest in manifests], bool)
    is_delete = numbers(entries, "content") != Content.DATA
    is_kept = ~is_delete | is_known | ~is_shared[numbers(entries, "manifest")]
    return where(entries, pa.array(is_kept))


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
