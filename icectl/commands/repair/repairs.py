"""The repairs of the head of a branch, and why other things cannot be repaired."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from icectl.checks.file_identity import is_outside
from icectl.checks.objects import Columns, StoredManifest
from icectl.checks.partitions import misplaced
from icectl.checks.rule import Finding
from icectl.checks.rules import RULES
from icectl.commands.repair.head import HeadFix, ManifestChange, ReadHead, counted_manifest
from icectl.commands.repair.lost import entries_by_footers, proven_entries
from icectl.commands.repair.plan import (
    OF_DANGLING_VECTORS,
    OF_LIST_ROWS,
    OF_LISTS,
    OF_METRICS,
    Fix,
    Kind,
    RemainingFinding,
)
from icectl.entries.partition_key import PartitionValue, decode_key, sort_key
from icectl.entries.rows import (
    ALL_COLUMNS,
    RawEntries,
    by_row,
    concat,
    data_files,
    deletion_vectors,
    live,
    numbers,
    where,
    with_manifest_number,
)
from icectl.errors import CorruptTable, MissingFile, OtherFile
from icectl.files.data_file import open_data_file
from icectl.files.parquet.metrics import FileMetrics
from icectl.format import single_value
from icectl.format.manifest import Content, FileFormat, ManifestContent, ManifestFile
from icectl.format.metadata import TableMetadata
from icectl.format.partition import result_types
from icectl.format.schema import Schema
from icectl.format.transforms import Transform, accepts, apply
from icectl.format.types import NestedField, PrimitiveType
from icectl.storage.location import loosest_key, loosest_keys, name
from icectl.table.guard import check_head_list, check_live
from icectl.table.live_files import name_mapping
from icectl.table.manifest_lists import distinct_manifests, try_manifest_lists
from icectl.table.manifests import load_entries, try_manifests
from icectl.table.reader import Reader
from icectl.table.reading import read_or_none
from icectl.table.recovery import NOTHING, Loss
from icectl.units import print_count

_OF_OTHER_SPECS = frozenset({"R-061", "R-068"})
"""Rules of manifests whose partitions may be those of another spec: they cannot be counted."""

_DESTROYED = "R-008"
"""The rule of an unreadable manifest: it is no whole Avro file."""

_FIELDS_LOST = "its manifest has fields that a rewrite would lose"

_OF_HEADS = ("manifest-list", "dangling-deletes")
"""Kinds of repairs of which there is one at most."""

COUNTS = ("value_counts", "null_value_counts")

BOUNDS = ("lower_bounds", "upper_bounds")

_UUID = PrimitiveType("uuid")
"""Java compares halves of these as signed numbers: what bounds them for it does for no other."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """The losses that the caller accepts: entries of lost files go, deleted rows may come back."""

    drop_missing: bool
    accept_undeleted: bool


def find_head_fixes(
    reader: Reader, head: ReadHead, findings: Sequence[Finding], asked: Accepted
) -> tuple[list[HeadFix], list[RemainingFinding]]:
    """Find what can be set right of the head of a branch, and why other things cannot.

    Raises: StorageError of the store; Incomplete.
    """
    search = _Search(reader, head, findings, asked)
    lists = {location for location, _ in head.listed.problems}
    unsure = search.unsure()
    if lists and (not head.is_proven or unsure is not None):
        reason = "nothing else shows what it listed; `--to-snapshot latest-complete` rolls back"
        return [], [
            RemainingFinding(finding, reason) for finding in findings if finding.subject in lists
        ]
    if unsure is not None:
        return [], [
            RemainingFinding(finding, unsure) for finding in findings if finding.rule in unsure
        ]
    if lists:
        search.lost_list()
        return search.head_fixes, []
    search.lost_manifests()
    search.lost_files()
    search.metrics()
    search.list_rows()
    search.dangling()
    search.whole_list()
    if not search.lists_all and all(fix.fix.loss == NOTHING for fix in search.head_fixes):
        return [], [  # new totals would hide it, unless the caller accepts a loss
            RemainingFinding(finding, _MAY_LACK)
            for finding in findings
            if finding.rule in _MAY_LACK
        ]
    return search.head_fixes, search.left


_MAY_LACK = "the list may have lost a manifest, nothing shows that it has not (R-031)"


@dataclass(slots=True)
class _Search:
    """A walk through what is wrong with the head of a branch.

    `lists_all` is false where its list may lack files, as far as is known.
    """

    reader: Reader
    head: ReadHead
    findings: Sequence[Finding]
    asked: Accepted
    head_fixes: list[HeadFix] = field(default_factory=list)
    left: list[RemainingFinding] = field(default_factory=list)
    lists_all: bool = True

    def of(self, subject: str | None, rules: Collection[str] | None = None) -> frozenset[Finding]:
        """Return the findings on an object, or on any, of some rules, or of any."""
        return frozenset(
            finding
            for finding in self.findings
            if subject in (None, finding.subject) and (rules is None or finding.rule in rules)
        )

    def _offer(
        self,
        kind: Kind,
        subject: str,
        what: str,
        proof: str,
        answers: frozenset[Finding],
        *changes: ManifestChange,
        loss: Loss = NOTHING,
    ) -> None:
        name_ = None if kind in _OF_HEADS else name(subject)
        fix = Fix(kind, name_, subject, what, proof, loss, answers)
        self.head_fixes.append(HeadFix(fix, changes))

    def unsure(self) -> str | None:
        """Tell why nothing may be built on the head: what its live entries mean is not sure."""
        manifests = self.head.listed.manifests
        known = {  # one that is listed twice is repaired
            manifests[place].manifest_path: (place, entry)
            for place, entry in enumerate(self.head.entries)
            if entry is not None
        }
        entries = concat(with_manifest_number(part, place) for place, part in known.values())
        try:
            check_live(self.reader.metadata, self.head.snapshot, manifests, entries)
            if not self.head.listed.problems:  # else others stand in for it
                self.lists_all = self._lists_all()
        except CorruptTable as error:
            return f"until this is repaired, it is unclear which rows are live ({error.rule})"
        return None

    def _lists_all(self) -> bool:
        """Return whether the head is proved to list all its files, as its manifests have them.

        Raises: CorruptTable R-031.
        """
        head, reader = self.head, self.reader
        manifests = [
            manifest
            if entries is None or manifest.dead
            else replace(manifest, added_files_count=len(live(entries)), existing_files_count=0)
            for manifest, entries in zip(head.listed.manifests, head.entries, strict=True)
        ]
        return check_head_list(reader.context, reader.metadata, head.snapshot, manifests)

    def lost_list(self) -> None:
        """Find the list itself, where what it named is proved."""
        ((location, _),) = self.head.listed.problems
        count = sum(len(entry) for entry in self.head.entries if entry is not None)
        what = f"commit a snapshot of the same {print_count(count, 'file')}, with its own list"
        proof = (
            "the snapshot before it and its own manifests have exactly the files and rows that "
            "its summary counts"
        )
        self._offer("manifest-list", location, what, proof, self.of(location), *self.head.changes)

    def lost_manifests(self) -> None:
        """Manifests that are missing, or cannot be read."""
        for place, manifest in enumerate(self.head.listed.manifests):
            problem = self.head.read[place].problem
            if not isinstance(problem, CorruptTable):
                continue
            subject = manifest.manifest_path
            answers = self.of(subject)
            rebuilt = proven_entries(self.reader, manifest)
            proof = "other snapshots list these files, with the same number of files and rows"
            if rebuilt is None:
                rebuilt = entries_by_footers(self.reader, manifest)
                proof = (
                    "no other manifest lists these files, which have the rows and bytes that its "
                    "snapshot added"
                )
            if rebuilt is not None:
                what = f"rewrite it, with {print_count(len(rebuilt), 'file')}"
                change = ManifestChange(place, rebuilt=rebuilt)
                self._offer("manifest", subject, what, proof, answers, change)
                continue
            if not isinstance(problem, MissingFile | OtherFile) and problem.rule != _DESTROYED:
                continue  # what is in it may be read by others
            counts = (manifest.added_rows_count, manifest.existing_rows_count)
            known = [count for count in counts if count is not None]
            rows = sum(known) if len(known) == len(counts) else None
            is_data = manifest.content is ManifestContent.DATA
            change = ManifestChange(place, gone=True)
            self._offer_loss(subject, rows, answers, change, is_data=is_data)

    def lost_files(self) -> None:
        """Files that live entries name and that are not there."""
        named = {finding.subject for finding in self.findings if finding.rule == "R-034"}
        columns = ("location", "content", "manifest_pos", "record_count")
        for place, entries in enumerate(self.head.entries if named else ()):
            if entries is None:
                continue
            lost = [
                row
                for row in by_row(live(entries), *columns)
                if row[0] in named and self.reader.context.store.stat(row[0]) is None
            ]
            without = self._answered_without(place, {position for _, _, position, _ in lost})
            for location, content, position, rows in lost:
                answers, is_data = self.of(location, {"R-034"}) | without, content == Content.DATA
                change = ManifestChange(place, dropped=frozenset({position}))
                changes = [change, *self._vectors_of(location)]
                if self._would_lose(changes):
                    self._leave(answers, _FIELDS_LOST)
                else:
                    needed = changes if is_data else [change]
                    self._offer_loss(location, rows, answers, *needed, is_data=is_data)

    def _answered_without(self, place: int, dropped: Collection[int]) -> frozenset[Finding]:
        """Return findings on partitions beside bounds that no entry is left of."""
        reader, manifest = self.reader, self.head.listed.manifests[place]
        wrong = self.of(manifest.manifest_path, {"R-071"})
        if not (wrong and dropped):
            return frozenset()
        entries = load_entries(
            reader.context, reader.metadata, [manifest], ALL_COLUMNS, trust="own"
        )
        is_kept = ~np.isin(numbers(entries, "manifest_pos"), list(dropped))
        before, after = (
            sum(1 for _ in misplaced(reader.metadata, RawEntries(one.table), ("identity",)))
            for one in (entries, where(entries, is_kept))
        )
        return wrong if after == 0 and before == len(wrong) else frozenset()

    def _would_lose(self, changes: Collection[ManifestChange]) -> bool:
        # unknown fields of a changed manifest, which a rewrite leaves out
        return any(self.head.read[change.place].content[0].unknown_field_ids for change in changes)

    def _vectors_of(self, location: str) -> Iterator[ManifestChange]:
        """Yield changes that drop the vectors of a data file."""
        key = loosest_key(location)
        for place, entries in enumerate(self.head.entries):
            if entries is not None:
                vectors = deletion_vectors(live(entries))
                rows = by_row(vectors, "manifest_pos", "referenced_data_file")
                at = {row for row, file in rows if file is not None and loosest_key(file) == key}
                if at:
                    yield ManifestChange(place, dropped=frozenset(at))

    def _offer_loss(
        self,
        subject: str,
        rows: int | None,
        answers: frozenset[Finding],
        *changes: ManifestChange,
        is_data: bool,
    ) -> None:
        what = "remove it from the table"
        if is_data and self.asked.drop_missing:
            proof = "`--drop-missing` accepts that its rows are lost"
            self._offer("lost-data", subject, what, proof, answers, *changes, loss=Loss(rows))
        elif is_data:
            its_rows = "rows" if rows is None else print_count(rows, "row")
            reason = f"nothing else has its {its_rows}: restore the file, or "
            self._leave(answers, reason + "`--drop-missing` removes it from the table")
        elif self.asked.accept_undeleted:
            proof = "`--accept-undeleted` accepts that rows it deleted come back"
            loss = Loss(rows_back=rows)
            self._offer("lost-deletes", subject, what, proof, answers, *changes, loss=loss)
        else:
            reason = (
                "without it deleted rows would come back: restore the file, roll back with "
                "`--to-snapshot`, or accept these rows with `--accept-undeleted`"
            )
            self._leave(answers, reason)

    def _leave(self, findings: Collection[Finding], reason: str) -> None:
        self.left += [RemainingFinding(finding, reason) for finding in findings]

    def metrics(self) -> None:
        """Find fixes where manifests say of data files what the footers of these do not."""
        flagged = {finding.subject for finding in self.findings if finding.rule in OF_METRICS}
        for place, manifest in enumerate(self.head.listed.manifests):
            entries = self.head.entries[place]
            if entries is None or manifest.content is not ManifestContent.DATA:
                continue
            named = flagged & set(entries.table["location"].to_pylist())
            if manifest.manifest_path not in flagged and not named:
                continue
            if self._would_lose([ManifestChange(place)]):
                continue
            everywhere = manifest.manifest_path in flagged
            new = dict(self._restated(manifest, None if everywhere else named))
            if new:
                subject = manifest.manifest_path
                answers = frozenset[Finding]().union(
                    *(self.of(location, OF_METRICS) for location in (subject, *named))
                )
                names = sorted({column for columns in new.values() for column in columns})
                what = (
                    f"rewrite it with {', '.join(names)} of {print_count(len(new), 'file')} as "
                    "their footers have them"
                )
                change = ManifestChange(place, restated=new)
                proof = "the footers of the files say so"
                self._offer("metrics", subject, what, proof, answers, change)

    def _restated(
        self, manifest: ManifestFile, named: Collection[str] | None
    ) -> Iterator[tuple[int, Mapping[str, Any]]]:
        """Return corrected entries by position, for some locations or all (None)."""
        reader = self.reader
        loaded = load_entries(reader.context, reader.metadata, [manifest], ALL_COLUMNS, trust="own")
        for entry in live(loaded).table.to_pylist():
            reader.context.deadline.check()
            if named is not None and entry["location"] not in named:
                continue
            if entry["file_format"] == FileFormat.PARQUET:
                columns = restated_metrics(reader, entry)
                if columns:
                    yield entry["manifest_pos"], columns

    def list_rows(self) -> None:
        """Find fixes where the list says of manifests what these do not."""
        seen: dict[str, ManifestFile] = {}
        for place, manifest in enumerate(self.head.listed.manifests):
            subject = manifest.manifest_path
            if subject in seen:
                if manifest == seen[subject]:
                    answers = self.of(None, {"R-050", "R-066", "R-103", "R-114"})
                    proof = "both rows of the list are the same, and a file lives once"
                    change = ManifestChange(place, gone=True)
                    self._offer("list-row", subject, "list it once", proof, answers, change)
                continue
            seen[subject] = manifest
            answers = self.of(subject, OF_LIST_ROWS)
            if answers and self._has_wrong_row(place):
                what = "correct its length, counts and ranges"
                proof = "the manifest is complete, and counted again"
                change = ManifestChange(place, described=True)
                self._offer("list-row", subject, what, proof, answers, change)

    def _has_wrong_row(self, place: int) -> bool:
        """Return whether a manifest is whole, and a new row would agree with it."""
        read = self.head.read[place]
        if self.head.entries[place] is None or read.size_bytes is None:
            return False
        header, rows = read.content
        try:
            new = counted_manifest(self.reader, self.head, place)
        except CorruptTable:
            return False
        stored = StoredManifest(self.reader.metadata, [new], header, read.size_bytes, Columns(rows))
        return not any(RULES.findings(stored, only=OF_LIST_ROWS | _OF_OTHER_SPECS))

    def dangling(self) -> None:
        """Vectors whose data file the table once had, and has no more: they apply to nothing.

        One that names a file which no manifest knows may well be that of a live one.
        """
        answers = self.of(None, OF_DANGLING_VECTORS)
        if not answers or not self.head.is_whole:
            return
        orphaned = dict(self._orphaned_deletes())
        named = {key for keys in orphaned.values() for key in keys.values()}
        if not named or named - self._known_data_files():
            reason = "no snapshot has the data file that it names: rows of another may be back"
            self._leave(answers, reason)
            return
        changes = [
            ManifestChange(place, dropped=frozenset(keys)) for place, keys in orphaned.items()
        ]
        if self._would_lose(changes):
            self._leave(answers, _FIELDS_LOST)
            return
        subject = f"snapshot {self.head.snapshot.snapshot_id}"
        count = print_count(sum(map(len, orphaned.values())), "deletion vector")
        what = f"remove {count} from the table"
        proof = "their data files were removed, as other entries show"
        self._offer("dangling-deletes", subject, what, proof, answers, *changes)

    def _orphaned_deletes(self) -> Iterator[tuple[int, Mapping[int, str]]]:
        """Vectors of data files that do not live, by place of the manifest and position in it.

        Shape: for each its data file, as a key.
        """
        known = [live(entry) for entry in self.head.entries if entry is not None]
        living = set[str]().union(
            *(loosest_keys(data_files(part).table["location"]).to_pylist() for part in known)
        )
        for place, entries in enumerate(self.head.entries):
            assert entries is not None  # is_whole
            vectors = deletion_vectors(live(entries))
            rows = by_row(vectors, "manifest_pos", "referenced_data_file")
            keys = {at: loosest_key(file) for at, file in rows if file is not None}
            lost = {at: key for at, key in keys.items() if key not in living}
            if lost:
                yield place, lost

    def _known_data_files(self) -> set[str]:
        """Return keys of the data files that any snapshot lists, live or removed."""
        reader = self.reader
        lists = try_manifest_lists(reader.context, reader.metadata, reader.metadata.snapshots)
        with closing(lists):
            manifests = distinct_manifests([listed.manifests for listed in lists])
        reads = try_manifests(
            reader.context,
            reader.metadata,
            [manifest for manifest in manifests if manifest.content is ManifestContent.DATA],
            frozenset({"location"}),
        )
        with closing(reads):
            rows = [read.rows for read in reads if read.rows is not None]
        return set[str]().union(
            *(loosest_keys(data_files(row).table["location"]).to_pylist() for row in rows)
        )

    def whole_list(self) -> None:
        """Find the fix that a new snapshot is by itself: right totals, and a right list header."""
        answers = self.of(None, OF_LISTS)
        answered = answers.union(*(head_fix.fix.answers for head_fix in self.head_fixes))
        unanswered = {finding.severity for finding in self.findings if finding not in answered}
        if answers and self.head.is_whole and "error" not in unanswered:
            subject = f"snapshot {self.head.snapshot.snapshot_id}"
            what = "commit a snapshot of the same files, with its own list and totals"
            proof = "all that it lists can be read, and was counted"
            self._offer("manifest-list", subject, what, proof, answers)


# -- metrics, as the footer of a data file proves them --------------------------------------------


def restated_metrics(reader: Reader, entry: Mapping[str, Any]) -> Mapping[str, Any]:
    """Columns of an entry of a Parquet data file as they should be; none where they are right, or
    nothing proves what is.

    `entry` has every column of an entries table. A file whose size or count of rows differs may be
    another file where a bound leaves rows out too, or both differ. So may one where bounds of two
    columns do, and one of another partition: nothing is proved then. From version 3 on row ids hang
    on the count of rows, which is left alone there.
    Raises: StorageError of the store.
    """
    footer = read_or_none(partial(_footer, reader, entry["location"]))
    if footer is None:
        return {}
    size_bytes, metrics = footer
    bounds = _bounds(entry, metrics, reader.metadata.current_schema)
    if _may_be_another_file(reader.metadata, entry, size_bytes, metrics, has_bounds=not bounds):
        return {}
    columns: dict[str, Any] = {}
    if entry["record_count"] != metrics.record_count:
        columns["record_count"] = metrics.record_count
    if entry["file_size_in_bytes"] != size_bytes:
        columns["file_size_in_bytes"] = size_bytes
    offsets = entry["split_offsets"]
    if offsets is not None and sorted(set(offsets)) != list(offsets):
        columns["split_offsets"] = list(metrics.split_offsets)
    for name_ in COUNTS:  # then NaN are not counted
        stated, counted = dict(entry[name_] or ()), getattr(metrics, name_)
        if any(counted.get(id_, count) != count for id_, count in stated.items()):
            columns[name_] = [(id_, counted[id_]) for id_ in stated if id_ in counted]
    return {**columns, **bounds}


def _may_be_another_file(
    metadata: TableMetadata,
    entry: Mapping[str, Any],
    size_bytes: int,
    metrics: FileMetrics,
    *,
    has_bounds: bool,
) -> bool:
    """Return whether a file may not be that of the entry; `has_bounds`: all of its bounds hold."""
    has_size = size_bytes == entry["file_size_in_bytes"]
    has_count = metrics.record_count == entry["record_count"]
    values, nulls = (dict(entry[name] or ()) for name in ("value_counts", "null_value_counts"))
    has_counts = (
        bool(values)
        and all(metrics.value_counts.get(id_) == count for id_, count in values.items())
        and all(metrics.null_value_counts.get(id_) == count for id_, count in nulls.items())
    )
    lower, upper = (dict(entry[name] or ()) for name in BOUNDS)
    stated = FileMetrics(entry["record_count"], lower_bounds=lower, upper_bounds=upper)
    columns = metadata.current_schema.fields
    return (
        _is_of_another_partition(metadata, entry, metrics)
        or not (has_count or (has_size and metadata.format_version <= 2))
        or not (has_size or has_counts)
        or not (has_bounds or (has_size and has_count))
        or sum(is_outside(column, stated, metrics) for column in columns) > 1
    )


def _footer(reader: Reader, location: str) -> tuple[int, FileMetrics] | None:
    status = reader.context.store.stat(location)
    if status is None:
        return None
    with reader.context.store.open(location) as file:
        opened = open_data_file(file, "parquet", name_mapping(reader.metadata))
        return status.size_bytes, opened.metrics(reader.metadata.current_schema)


def _is_of_another_partition(
    metadata: TableMetadata, entry: Mapping[str, Any], metrics: FileMetrics
) -> bool:
    """Return whether all values of a footer are outside of the entry's partition."""
    spec, schema = metadata.spec(entry["spec_id"]), metadata.current_schema
    if spec is None:
        return False
    values = decode_key(entry["partition_key"], result_types(spec, metadata.schemas))
    for item, value in zip(spec.fields, values, strict=True):
        column = schema.field(item.source_ids[0]) if len(item.source_ids) == 1 else None
        if column is None or not accepts(item.transform, column.type):
            continue
        if _excludes(metrics, item.transform, column, value):
            return True
    return False


def _excludes(
    metrics: FileMetrics, transform: Transform, column: NestedField, value: PartitionValue
) -> bool:
    """Return whether no row of a file, or not every one, can have a partition value."""
    if transform.name == "void":
        return False
    nulls = metrics.null_value_counts.get(column.id)
    if nulls is not None and (nulls < metrics.record_count if value is None else nulls > 0):
        return True
    bounds = [of.get(column.id) for of in (metrics.lower_bounds, metrics.upper_bounds)]
    stored = [bound for bound in bounds if bound is not None]
    if value is None or len(stored) < 2:
        return False
    least, greatest = (
        sort_key(apply(transform, column.type, single_value.decode(column.type, bound)))
        for bound in stored
    )
    if transform.name == "bucket":  # its order is not that of the column
        return stored[0] == stored[1] and least != sort_key(value)
    return not least <= sort_key(value) <= greatest


def _bounds(entry: Mapping[str, Any], metrics: FileMetrics, schema: Schema) -> Mapping[str, Any]:
    """Bounds, where one of them excludes a value or is none of its column's type.

    Those that only are wider than need be stay as they are, and those of UUIDs go.
    """
    columns: dict[str, Any] = {}
    for side in BOUNDS:
        stated, measured = dict(entry[side] or ()), getattr(metrics, side)
        bounds = {
            id_: bound
            for id_, bound in stated.items()
            if _holds(schema, id_, bound, measured.get(id_), is_lower=side == "lower_bounds")
        }
        if len(bounds) < len(stated):
            exact = {
                id_: measured[id_]
                for id_ in stated.keys() & measured.keys() - bounds.keys()
                if schema.all_fields[id_].type != _UUID
            }
            columns[side] = sorted({**bounds, **exact}.items())
    return columns


def _holds(
    schema: Schema, id_: int, bound: bytes, stored_bound: bytes | None, *, is_lower: bool
) -> bool:
    """Return whether a bound can be read, and is no narrower than the footer's."""
    column = schema.field(id_)
    if column is None:
        return True
    try:
        value = single_value.decode(column.type, bound)
        if stored_bound is None:
            return True
        exact = single_value.decode(column.type, stored_bound)
        return bool(value <= exact if is_lower else value >= exact)
    except (CorruptTable, ValueError, TypeError):
        return False
