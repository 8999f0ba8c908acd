"""A loaded table: find the requested snapshot, and read manifests and entries."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from icectl.catalog.metadata_files import list_versions
from icectl.catalog.protocol import LoadedTable
from icectl.entries.locations import listed_with_scheme
from icectl.entries.rows import EMPTY, Entries, concat, with_manifests_moved
from icectl.errors import CorruptTable, OtherFile, StorageError, Unsupported, UsageError
from icectl.files.metadata_file import read_version_hint
from icectl.format.file_names import VERSION_HINT
from icectl.format.layout import Layout, layout_of
from icectl.format.manifest import ManifestFile
from icectl.format.metadata import TableMetadata
from icectl.format.snapshot import Snapshot
from icectl.storage.location import join
from icectl.table.context import TableContext
from icectl.table.manifest_lists import (
    ManifestListRead,
    read_snapshot_manifests,
    snapshot_reader,
    try_manifest_lists,
)
from icectl.table.manifests import Heed, heed_not, load_entries, scan_entries
from icectl.table.reading import Problem, of_one_file
from icectl.units import print_instant

if TYPE_CHECKING:  # a view without a condition does not load them
    from icectl.entries.conditions import Predicate


@dataclass(slots=True)
class Gaps:
    """The parts of a view that could not be read and were left out, and `odd` ones that were not.

    `has_listed` says that anything was read of what snapshots list, `has_read` that anything was
    of what manifests do.
    """

    problems: dict[str, Problem] = field(default_factory=dict)
    odd: dict[str, Problem] = field(default_factory=dict)
    has_listed: bool = False
    has_read: bool = False


@dataclass(frozen=True, slots=True)
class Reader:
    """A loaded table and the means to read its files.

    Without `gaps` what cannot be read is raised; with them it is left out.
    """

    context: TableContext
    loaded: LoadedTable
    gaps: Gaps | None = None

    @property
    def metadata(self) -> TableMetadata:
        return self.loaded.metadata

    def manifests(
        self, snapshot: Snapshot | None, within: "Predicate | None" = None
    ) -> tuple[ManifestFile, ...]:
        """Return the manifests of a snapshot, to be shown; none without one.

        Those of data files without a row `within` a condition may be left out.
        """
        self.context.deadline.check()
        if snapshot is None:
            return ()
        if within is not None and layout_of(snapshot) is not Layout.MANIFEST_LISTS:
            with suppress(CorruptTable, Unsupported, StorageError):  # which reading all tells
                reader = snapshot_reader(self.metadata, snapshot)
                return reader.manifests_of(self.context.store, snapshot, within)[0]
        if self.gaps is None:
            return read_snapshot_manifests(self.context.store, self.metadata, snapshot, sound=False)
        return self.manifests_by_snapshot([snapshot])[snapshot.snapshot_id]

    def manifests_by_snapshot(
        self, snapshots: Sequence[Snapshot]
    ) -> Mapping[int, tuple[ManifestFile, ...]]:
        """Return the manifests of snapshots by snapshot id, to be shown.

        Order: that of `snapshots`.
        """
        read = try_manifest_lists(self.context, self.metadata, snapshots)
        by_snapshot: dict[int, tuple[ManifestFile, ...]] = {}
        with closing(read):
            for listed in read:
                self.context.deadline.check()
                manifests, is_shown = listed.manifests, listed.is_odd
                if self.gaps is not None and _is_another_s(listed):  # which engines read
                    with suppress(CorruptTable, Unsupported, StorageError):
                        manifests = read_snapshot_manifests(
                            self.context.store, self.metadata, listed.snapshot, sound=False
                        )
                        is_shown = True
                for _, problem in listed.problems:
                    self._leave_out(problem, is_shown=is_shown)
                if self.gaps is not None and (manifests or not listed.problems):
                    self.gaps.has_listed = True
                if listed.properties is not None:
                    manifests = tuple(
                        listed_with_scheme(self.metadata, manifest) for manifest in manifests
                    )
                by_snapshot[listed.snapshot.snapshot_id] = manifests
        return by_snapshot

    def hinted_version(self) -> int | str | None:
        """Read the version hint of a file-system table; None where it names nothing (R-163).

        One of a newer version is as right as the loaded version.
        Raises: FileNotFoundError; StorageError.
        """
        folder, version = self.loaded.metadata_folder, self.loaded.version
        hint = read_version_hint(self.context.store.read(join(folder, VERSION_HINT)))
        if isinstance(hint, int) and version is not None and hint > version:
            numbers = {item.version for item in list_versions(self.context.store, folder)}
            return version if hint in numbers else hint
        return hint

    def _leave_out(self, problem: Problem, *, is_shown: bool = False) -> None:
        if self.gaps is None:
            raise problem
        (self.gaps.odd if is_shown else self.gaps.problems).setdefault(problem.message, problem)

    @property
    def _show_odd(self) -> Callable[[Problem], None] | None:
        """What gets the problems of files that are shown all the same; None if they are raised."""
        return None if self.gaps is None else partial(self._leave_out, is_shown=True)

    def scan(self, manifests: Sequence[ManifestFile], columns: frozenset[str]) -> Iterator[Entries]:
        """Yield the entries of manifests, a few MiB at a time.

        What cannot be read is passed over.
        """
        scanned = scan_entries(
            self.context, self.metadata, manifests, columns, self._leave_out, self._show_odd
        )
        for entries in scanned:
            self.context.deadline.check()
            if self.gaps is not None:
                self.gaps.has_read = True
            yield entries

    def load(
        self,
        manifests: Sequence[ManifestFile],
        columns: frozenset[str],
        *,
        to_match: bool = False,
        heed: Heed = heed_not,
    ) -> Entries:
        """Return the entries of manifests in one table, as load_entries does, all that can be read.

        Halves are tried where that is not all: `heed` then takes them for all.
        """
        self.context.deadline.check()
        try:
            return load_entries(
                self.context,
                self.metadata,
                manifests,
                columns,
                to_match=to_match,
                show_odd=self._show_odd,
                heed=heed,
            )
        except (CorruptTable, Unsupported, StorageError) as error:
            of_one_file(error)
            if len(manifests) <= 1 or self.gaps is None:
                self._leave_out(error)
                return EMPTY
        half = len(manifests) // 2
        first = self.load(manifests[:half], columns, to_match=to_match, heed=heed)
        second = self.load(manifests[half:], columns, to_match=to_match, heed=heed)
        return concat([part for part in (first, with_manifests_moved(second, half)) if len(part)])


def _is_another_s(listed: ManifestListRead) -> bool:
    return any(isinstance(problem, OtherFile) for _, problem in listed.problems)


@dataclass(frozen=True, slots=True)
class SnapshotChoice:
    """The snapshot a caller asks for; at most one member is set, none means the current one."""

    snapshot_id: int | None = None
    ref: str | None = None
    as_of_ms: int | None = None

    @property
    def count(self) -> int:
        chosen = (self.snapshot_id, self.ref, self.as_of_ms)
        return sum(member is not None for member in chosen)


def chosen_snapshot(metadata: TableMetadata, choice: SnapshotChoice) -> Snapshot | None:
    """Find the chosen snapshot; None where the table has no current one.

    Raises: UsageError for more than one choice, and for a snapshot or ref that is not there.
    Spec: time travel goes by the snapshot log (R-029).
    """
    if choice.count > 1:
        raise UsageError("`--snapshot`, `--ref` and `--as-of` cannot be used together")
    if choice.snapshot_id is not None:
        return snapshot_by_id(metadata, choice.snapshot_id)
    if choice.ref is not None:
        ref = metadata.refs.get(choice.ref)
        if ref is not None:
            return snapshot_by_id(metadata, ref.snapshot_id)
        if choice.ref != "main":
            message = f"the table has no branch or tag `{choice.ref}`"
            raise UsageError(message, hint="`icectl inspect TABLE refs` lists them")
    if choice.as_of_ms is None:
        return metadata.current_snapshot
    snapshot_id = logged_snapshot_id(metadata, choice.as_of_ms)
    if snapshot_id is None:
        message = f"the snapshot log does not reach back to {print_instant(choice.as_of_ms)}"
        raise UsageError(message, hint="`icectl inspect TABLE history` shows the log")
    snapshot = metadata.snapshot(snapshot_id)
    if snapshot is None:
        instant = print_instant(choice.as_of_ms)
        message = f"snapshot {snapshot_id}, current at {instant}, has expired"
        raise UsageError(message, hint="`icectl inspect TABLE snapshots` lists the remaining ones")
    return snapshot


def snapshot_by_id(metadata: TableMetadata, snapshot_id: int) -> Snapshot:
    """Find a snapshot by its id. Raises: UsageError."""
    snapshot = metadata.snapshot(snapshot_id)
    if snapshot is None:
        message = f"the table has no snapshot {snapshot_id}"
        raise UsageError(message, hint="`icectl inspect TABLE snapshots` lists them")
    return snapshot


def logged_snapshot_id(metadata: TableMetadata, at_ms: int) -> int | None:
    """Id of the snapshot that was current at an instant; None before the log begins.

    Spec: the snapshot log decides, not parent links (R-029).
    """
    logged = [entry.snapshot_id for entry in metadata.snapshot_log if entry.timestamp_ms <= at_ms]
    return logged[-1] if logged else None


def parse_snapshot_id(option: str, text: str | None) -> int | None:
    """Return the snapshot id that an option was given. Raises: UsageError."""
    if text is None:
        return None
    try:
        return int(text)
    except ValueError as error:
        message = f"`{option}` takes the id of a snapshot, not `{text}`"
        hint = "`--ref NAME` takes a branch or tag" if option == "--snapshot" else None
        raise UsageError(message, hint=hint) from error
