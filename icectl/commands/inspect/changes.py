"""Running the changes view of `inspect`: by the roots of version 4, or by comparing two states."""

from collections.abc import Sequence

from icectl.commands.inspect.changes_plan import (
    CHANGES_SOURCES,
    beyond,
    by_roots,
    compose_changes,
    ends,
    own_manifests,
)
from icectl.commands.inspect.changes_plan import changes as changes_view
from icectl.commands.inspect.views import Row
from icectl.entries.rows import (
    Entries,
    as_existing,
    concat,
    in_manifests,
    of_status,
    position_delete_files,
)
from icectl.errors import StorageError
from icectl.format.manifest import FileFormat, ManifestContent
from icectl.format.snapshot import Snapshot
from icectl.table.manifest_lists import snapshot_reader
from icectl.table.reader import Reader
from icectl.table.reading import of_one_file
from icectl.table.row_changes import RowChanges, first_vectors, row_changes


def changes(reader: Reader, from_id: int | None, to_id: int | None, limit: int | None) -> Row:
    """Compare two snapshots.

    Raises: UsageError for a snapshot that is not there; what reading manifests raises.
    Cost: from root to root of version 4 the manifests that roots mark are read; otherwise those
    that one snapshot lists and the other does not.
    """
    metadata = reader.metadata
    between = ends(metadata, from_id, to_id)
    steps = by_roots(metadata, between)
    if steps is None:
        old, new = reader.manifests(between.before), reader.manifests(between.after)
        before = reader.load(own_manifests(old, new), CHANGES_SOURCES)
        after = reader.load(own_manifests(new, old), CHANGES_SOURCES)
        return changes_view(metadata, between, before, after, limit)
    before, after = compose_changes([detect_changes(reader, snapshot) for snapshot in steps])
    found = changes_view(metadata, between, before, after, limit)
    counted = rows_between(reader, steps, before, after)
    if counted is None:
        return found
    rows = {"added_rows": counted.added_count, "removed_rows": counted.removed_count}
    return {**found, "row_changes": rows}


def detect_changes(reader: Reader, snapshot: Snapshot) -> tuple[Entries, Entries]:
    """Find what a version 4 snapshot removed and added, from its own root (sfc-1 9.2)."""
    marked = snapshot_reader(reader.metadata, snapshot).marked(reader.context.store, snapshot)
    entries = reader.load([each.manifest for each in marked], CHANGES_SOURCES)
    added: list[Entries] = []
    removed: list[Entries] = []
    for index, mark in enumerate(marked):
        here = in_manifests(entries, [index])
        added.append(as_existing(of_status(here, *mark.added)))
        gone = as_existing(of_status(here, *mark.removed))
        if mark.unless_live:
            gone = beyond(gone, reader.load(reader.manifests(snapshot), CHANGES_SOURCES))
        removed.append(gone)
    came, went = _together(added), _together(removed)
    return beyond(went, came), beyond(came, went)


def _together(parts: Sequence[Entries]) -> Entries:
    return concat([part for part in parts if len(part)])


def rows_between(
    reader: Reader, steps: Sequence[Snapshot], before: Entries, after: Entries
) -> RowChanges | None:
    """Return the rows that came and went; None where that cannot be told.

    It cannot where data was only rewritten (sfc-1 9.5), where a vector is gone with an expired
    snapshot, and where a first one may repeat what position delete files deleted (sfc-1 9.7).
    """
    if any(step.operation == "replace" for step in steps):
        return None
    if first_vectors(after, before) and _has_position_delete_files(reader, steps):
        return None
    try:
        return row_changes(reader.context.store, after, before)
    except FileNotFoundError as error:
        reader.context.progress.warn(f"rows are not counted: the vector `{error}` is missing")
        return None
    except StorageError as error:
        of_one_file(error)
        reader.context.progress.warn(f"rows are not counted: {error.message}")
        return None


def _has_position_delete_files(reader: Reader, steps: Sequence[Snapshot]) -> bool:
    """Tell whether there are position delete files: only leaves of older versions can have them."""
    legacy = [
        manifest
        for step in steps
        for manifest in reader.manifests(step)
        if manifest.content is ManifestContent.DELETES and manifest.file_format is FileFormat.AVRO
    ]
    return bool(len(position_delete_files(reader.load(legacy, CHANGES_SOURCES))))
