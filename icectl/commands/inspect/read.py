"""Reading for `inspect`: the summary, and whether anything of a view could not be read."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from icectl.commands.inspect.summary import SUMMARY_COLUMNS
from icectl.commands.inspect.summary import summary as summary_view
from icectl.commands.inspect.views import Row, View
from icectl.entries.rows import Entries, concat, live
from icectl.entries.summary import Totals, summarise
from icectl.errors import CorruptTable, StorageError
from icectl.format.names import lost_versions
from icectl.table.reader import Reader, SnapshotChoice, chosen_snapshot

_BATCH_ROWS = 50_000


_OF_METADATA: Mapping[str, frozenset[str]] = {
    "snapshots": frozenset({"snapshots", "refs"}),
    "history": frozenset({"snapshot-log", "snapshots", "current-snapshot-id"}),
    "refs": frozenset({"refs"}),
    "schemas": frozenset({"schemas", "schema", "current-schema-id"}),
    "specs": frozenset({"partition-specs", "partition-spec", "expressions", "schemas", "schema"}),
    "sort-orders": frozenset({"sort-orders", "schemas", "schema"}),
    "properties": frozenset({"properties"}),
    "metadata-log": frozenset({"metadata-log"}),
    "statistics": frozenset({"statistics", "partition-statistics"}),
}
"""Members of the metadata that a view shows."""
_OF_FILES = frozenset(
    {"current-snapshot-id", "schemas", "schema", "partition-specs", "partition-spec", "expressions"}
)
"""Members that rows of manifests are shown by."""


def is_incomplete(
    reader: Reader, view: View, choice: SnapshotChoice, *, all_snapshots: bool
) -> bool:
    """Return whether part of what a view shows could not be read.

    Raises: the first problem, where nothing of it could.
    """
    lost = {oddity.member for oddity in reader.metadata.oddities if oddity.lost}
    if view.rows:
        shown = _OF_METADATA.get(view.name, _OF_FILES)
        lost &= shown | {"snapshots"} if all_snapshots else shown
        if view.of_snapshot and not all_snapshots and not choice.count:
            _check_current(reader)
    if reader.gaps is None or not reader.gaps.problems:
        return bool(lost)
    has_shown = reader.gaps.has_listed if view.name == "manifests" else reader.gaps.has_read
    if view.rows and not has_shown:
        raise next(iter(reader.gaps.problems.values()))
    return True


def oddities_of(reader: Reader) -> Sequence[str]:
    """List what of the table breaks a rule and was read all the same, or left out: each once."""
    messages = [f"{oddity.message} ({oddity.rule})" for oddity in reader.metadata.oddities]
    messages += [*reader.gaps.odd, *reader.gaps.problems] if reader.gaps is not None else ()
    return (*dict.fromkeys(messages), *_lost_versions(reader))


def _lost_versions(reader: Reader) -> Iterator[str]:
    """Tell that newer metadata than what is shown was lost, if the version hint knows of some."""
    version = reader.loaded.version
    if version is None or not reader.loaded.capabilities.numbers_versions:
        return
    try:
        hint = reader.hinted_version()
    except (FileNotFoundError, StorageError):  # nothing depends on it
        return
    if isinstance(hint, int) and hint > version:
        message, advice = lost_versions(hint, version, reader.metadata.location)
        yield f"{message} (R-163); {advice}"


def _check_current(reader: Reader) -> None:
    """Check that it can be read which snapshot is current. Raises: CorruptTable R-015."""
    for oddity in reader.metadata.oddities:
        if oddity.member == "current-snapshot-id" and oddity.lost:
            raise CorruptTable(oddity.message, rule=oddity.rule)


def summary(reader: Reader, choice: SnapshotChoice) -> Row:
    """Describe the table and its chosen snapshot.

    Raises: UsageError for a snapshot that is not there; what reading manifests raises.
    """
    snapshot = chosen_snapshot(reader.metadata, choice)
    manifests = reader.manifests(snapshot)
    totals = Totals()
    for entries in _in_batches(reader.scan(manifests, SUMMARY_COLUMNS)):
        totals += summarise(live(entries))
    location = reader.loaded.metadata_location
    unknown = reader.gaps is not None and snapshot is not None and not reader.gaps.has_listed
    return summary_view(reader.metadata, location, snapshot, manifests, None if unknown else totals)


def _in_batches(parts: Iterable[Entries]) -> Iterator[Entries]:
    """The same entries in fewer tables: adding up one table costs the same for one row as many."""
    batch: list[Entries] = []
    row_count = 0
    for part in parts:
        batch.append(part)
        row_count += len(part)
        if row_count >= _BATCH_ROWS:
            yield concat(batch)
            batch, row_count = [], 0
    if batch:
        yield concat(batch)
