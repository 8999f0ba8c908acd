"""The repairs of the head of a branch, and why other things cannot be repaired."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from icectl.checks.file_identity import is_outside
from icectl.checks.objects import Columns, StoredManifest
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
    RemainingFinding,
)
from icectl.entries.partition_key import PartitionValue, decode_key, sort_key
from icectl.entries.rows import (
    ALL_COLUMNS,
    by_row,
    concat,
    data_files,
    deletion_vectors,
    live,
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
from icectl.format.types import NestedField
from icectl.storage.location import loosest_key, loosest_keys, name
from icectl.table.live_files import name_mapping
from icectl.table.manifest_lists import distinct_manifests, try_manifest_lists
from icectl.table.manifests import load_entries, try_manifests
from icectl.table.reader import Reader
from icectl.table.reading import read_or_none
from icectl.table.recovery import Loss
from icectl.table.row_safety import check_live
from icectl.units import print_count

_OF_OTHER_SPECS = frozenset({"R-061", "R-068"})
"""Rules of manifests whose partitions may be those of another spec: they cannot be counted."""

_DESTROYED = "R-008"
"""The rule of a manifest that nobody can read: it is no whole Avro file."""

_FIELDS_LOST = "its manifest has fields that a rewrite would lose"

COUNTS = ("value_counts", "null_value_counts")

BOUNDS = ("lower_bounds", "upper_bounds")


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
        reason = "nothing else shows what it listed; `--to-snapshot whole` goes back"
        return [], [
            RemainingFinding(finding, reason) for finding in findings if finding.subject in lists
        ]
    if unsure is not None:
        return [], [
            RemainingFinding(finding, unsure) for finding in findings if finding.rule in unsure
        ]
    if lists:
        return [search.lost_list()], []
    search.lost_manifests()
    search.lost_files()
    search.metrics()
    search.list_rows()
    search.dangling()
    search.whole_list()
    return search.head_fixes, search.left


@dataclass(slots=True)
class _Search:
    """A walk through what is wrong with the head of a branch."""

    reader: Reader
    head: ReadHead
    findings: Sequence[Finding]
    asked: Accepted
    head_fixes: list[HeadFix] = field(default_factory=list)
    left: list[RemainingFinding] = field(default_factory=list)

    def of(self, subject: str, rules: Collection[str] | None = None) -> frozenset[Finding]:
        """Return the findings on an object, of some rules or of any."""
        return frozenset(
            finding
            for finding in self.findings
            if finding.subject == subject and (rules is None or finding.rule in rules)
        )

    def unsure(self) -> str | None:
        """Tell why nothing may be built on the head: what its live entries mean is not sure."""
        known = [
            (place, entry) for place, entry in enumerate(self.head.entries) if entry is not None
        ]
        entries = concat(with_manifest_number(part, place) for place, part in known)
        manifests = self.head.listed.manifests
        try:
            check_live(self.reader.metadata, self.head.snapshot, manifests, entries)
        except CorruptTable as error:
            return f"until this is repaired, it is unclear which rows are live ({error.rule})"
        return None

    def lost_list(self) -> HeadFix:
        """Return the list itself, where what it named is proved."""
        ((location, _),) = self.head.listed.problems
        count = sum(len(entry) for entry in self.head.entries if entry is not None)
        fix = Fix(
            "manifest-list",
            None,
            location,
            f"commit a snapshot of the same {print_count(count, 'file')}, with a list of its own",
            "the snapshot before it and its own manifests have exactly the files and rows that "
            "its summary counts",
            answers=self.of(location),
        )
        return HeadFix(fix, self.head.changes)

    def lost_manifests(self) -> None:
        """Manifests that are missing, or cannot be read."""
        for place, manifest in enumerate(self.head.listed.manifests):
            problem = self.head.read[place].problem
            if isinstance(problem, CorruptTable):
                self._lost_manifest(place, manifest, problem)

    def _lost_manifest(self, place: int, manifest: ManifestFile, problem: CorruptTable) -> None:
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
            files = print_count(len(rebuilt), "file")
            fix = Fix(
                "manifest",
                name(subject),
                subject,
                f"rewrite it, with {files}",
                proof,
                answers=answers,
            )
            self.head_fixes.append(HeadFix(fix, (ManifestChange(place, rebuilt=rebuilt),)))
            return
        if not isinstance(problem, MissingFile | OtherFile) and problem.rule != _DESTROYED:
            return  # what is in it may be read by others
        counts = (manifest.added_rows_count, manifest.existing_rows_count)
        known = [count for count in counts if count is not None]
        rows = sum(known) if len(known) == len(counts) else None
        what = "remove it from the table"
        if manifest.content is ManifestContent.DELETES:
            self._offer_undeleted(subject, what, rows, answers, ManifestChange(place, gone=True))
        else:
            self._offer_lost(subject, what, rows, answers, ManifestChange(place, gone=True))

    def lost_files(self) -> None:
        """Files that live entries name and that are not there."""
        named = {finding.subject: finding for finding in self.findings if finding.rule == "R-034"}
        for place, location, content, position, rows in self._live(named):
            if self.reader.context.store.stat(location) is not None:
                continue
            what = "remove it from the table"
            answers = self.of(location, {"R-034"})
            change = ManifestChange(place, dropped=frozenset({position}))
            changes = [change, *self._vectors_of(location)]
            if self._would_lose(changes):
                self._leave(answers, _FIELDS_LOST)
            elif content == Content.DATA:
                self._offer_lost(location, what, rows, answers, *changes)
            else:
                self._offer_undeleted(location, what, rows, answers, change)

    def _would_lose(self, changes: Collection[ManifestChange]) -> bool:
        """Return whether a rewrite would lose unknown fields of a changed manifest."""
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

    def _live(self, locations: Collection[str]) -> Iterator[tuple[int, str, int, int, int]]:
        """Yield live entries of some locations.

        Shape: place of the manifest, location, content, position, rows.
        """
        if not locations:
            return
        for place, entries in enumerate(self.head.entries):
            if entries is None:
                continue
            columns = ("location", "content", "manifest_pos", "record_count")
            for location, *others in by_row(live(entries), *columns):
                if location in locations:
                    yield place, location, *others

    def _offer_lost(
        self,
        subject: str,
        what: str,
        rows: int | None,
        answers: frozenset[Finding],
        *changes: ManifestChange,
    ) -> None:
        if not self.asked.drop_missing:
            its_rows = "rows" if rows is None else print_count(rows, "row")
            reason = f"nothing else has its {its_rows}: restore the file, or "
            self._leave(answers, reason + "`--drop-missing` removes it from the table")
            return
        proof = "`--drop-missing` accepts that its rows are lost"
        fix = Fix("lost-data", name(subject), subject, what, proof, Loss(rows), answers=answers)
        self.head_fixes.append(HeadFix(fix, changes))

    def _offer_undeleted(
        self,
        subject: str,
        what: str,
        rows: int | None,
        answers: frozenset[Finding],
        change: ManifestChange,
    ) -> None:
        if not self.asked.accept_undeleted:
            reason = (
                "without it deleted rows would come back: restore the file, go back with "
                "`--to-snapshot`, or accept these rows with `--accept-undeleted`"
            )
            self._leave(answers, reason)
            return
        proof = "`--accept-undeleted` accepts that rows it deleted come back"
        fix = Fix(
            "lost-deletes",
            name(subject),
            subject,
            what,
            proof,
            Loss(rows_back=rows),
            answers=answers,
        )
        self.head_fixes.append(HeadFix(fix, (change,)))

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
                self._offer_metrics(place, manifest, new, named)

    def _restated(
        self, manifest: ManifestFile, named: Collection[str] | None
    ) -> Iterator[tuple[int, Mapping[str, Any]]]:
        """Return corrected entries by position, for some locations or all (None)."""
        reader = self.reader
        loaded = load_entries(reader.context, reader.metadata, [manifest], ALL_COLUMNS)
        for entry in live(loaded).table.to_pylist():
            reader.context.deadline.check()
            if named is not None and entry["location"] not in named:
                continue
            if entry["file_format"] == FileFormat.PARQUET:
                columns = restated_metrics(reader, entry)
                if columns:
                    yield entry["manifest_pos"], columns

    def _offer_metrics(
        self,
        place: int,
        manifest: ManifestFile,
        new: Mapping[int, Mapping[str, Any]],
        named: Collection[str],
    ) -> None:
        subject = manifest.manifest_path
        answers = frozenset[Finding]().union(
            *(self.of(location, OF_METRICS) for location in (subject, *named))
        )
        names = sorted({column for columns in new.values() for column in columns})
        fix = Fix(
            "metrics",
            name(subject),
            subject,
            f"rewrite it with {', '.join(names)} of {print_count(len(new), 'file')} as their "
            "footers have them",
            "the footers of the files say so",
            answers=answers,
        )
        self.head_fixes.append(HeadFix(fix, (ManifestChange(place, restated=new),)))

    def list_rows(self) -> None:
        """Find fixes where the list says of manifests what these do not."""
        seen: dict[str, int] = {}
        for place, manifest in enumerate(self.head.listed.manifests):
            subject = manifest.manifest_path
            first = seen.setdefault(subject, place)
            if first != place:
                self._listed_again(place, first)
                continue
            answers = self.of(subject, OF_LIST_ROWS)
            if answers and self._has_wrong_row(place):
                fix = Fix(
                    "list-row",
                    name(subject),
                    subject,
                    "list its length, counts and ranges as they are",
                    "the manifest is complete, and counted again",
                    answers=answers,
                )
                self.head_fixes.append(HeadFix(fix, (ManifestChange(place, described=True),)))

    def _listed_again(self, place: int, first: int) -> None:
        manifests = self.head.listed.manifests
        subject = manifests[place].manifest_path
        if manifests[place] != manifests[first]:
            return
        of_twice = {"R-050", "R-066", "R-103", "R-114"}
        answers = frozenset(finding for finding in self.findings if finding.rule in of_twice)
        fix = Fix(
            "list-row",
            name(subject),
            subject,
            "list it once",
            "both rows of the list are the same, and a file lives once",
            answers=answers,
        )
        self.head_fixes.append(HeadFix(fix, (ManifestChange(place, gone=True),)))

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
        answers = frozenset(
            finding for finding in self.findings if finding.rule in OF_DANGLING_VECTORS
        )
        if not answers or not self.head.is_whole:
            return
        homeless = dict(self._homeless())
        named = {key for keys in homeless.values() for key in keys.values()}
        if not named or named - self._known_data_files():
            reason = "no snapshot has the data file that it names: rows of another may be back"
            self._leave(answers, reason)
            return
        changes = [
            ManifestChange(place, dropped=frozenset(keys)) for place, keys in homeless.items()
        ]
        if self._would_lose(changes):
            self._leave(answers, _FIELDS_LOST)
            return
        count = sum(map(len, homeless.values()))
        fix = Fix(
            "dangling-deletes",
            None,
            f"snapshot {self.head.snapshot.snapshot_id}",
            f"remove {print_count(count, 'deletion vector')} from the table",
            "their data files were removed, as other entries show",
            answers=answers,
        )
        self.head_fixes.append(HeadFix(fix, tuple(changes)))

    def _homeless(self) -> Iterator[tuple[int, Mapping[int, str]]]:
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
        answers = frozenset(finding for finding in self.findings if finding.rule in OF_LISTS)
        answered = answers.union(*(head_fix.fix.answers for head_fix in self.head_fixes))
        unanswered = {finding.severity for finding in self.findings if finding not in answered}
        if answers and self.head.is_whole and "error" not in unanswered:
            fix = Fix(
                "manifest-list",
                None,
                f"snapshot {self.head.snapshot.snapshot_id}",
                "commit a snapshot of the same files, with a list and totals of its own",
                "all that it lists can be read, and was counted",
                answers=answers,
            )
            self.head_fixes.append(HeadFix(fix))


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
    if _is_of_another_partition(reader.metadata, entry, metrics):
        return {}
    columns: dict[str, Any] = {}
    if entry["record_count"] != metrics.record_count:
        if size_bytes != entry["file_size_in_bytes"] or reader.metadata.format_version > 2:
            return {}
        columns["record_count"] = metrics.record_count
    if size_bytes != entry["file_size_in_bytes"]:
        if not _tells_the_same(entry, metrics):
            return {}
        columns["file_size_in_bytes"] = size_bytes
    offsets = entry["split_offsets"]
    if offsets is not None and sorted(set(offsets)) != list(offsets):
        columns["split_offsets"] = list(metrics.split_offsets)
    columns |= _counts(entry, metrics)
    bounds = _bounds(entry, metrics, reader.metadata.current_schema)
    if bounds and {"file_size_in_bytes", "record_count"} & columns.keys():
        return {}
    if _columns_outside(entry, metrics, reader.metadata.current_schema) > 1:
        return {}
    return {**columns, **bounds}


def _footer(reader: Reader, location: str) -> tuple[int, FileMetrics] | None:
    """Return size and footer of a file; None without the file."""
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
        is_told = column is not None and accepts(item.transform, column.type)
        if column is not None and is_told and _excludes(metrics, item.transform, column, value):
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


def _tells_the_same(entry: Mapping[str, Any], metrics: FileMetrics) -> bool:
    """Return whether an entry has counts of the footer's columns, all equal to the footer's."""
    values = dict(entry["value_counts"] or ())
    nulls = dict(entry["null_value_counts"] or ())
    return (
        bool(values)
        and all(metrics.value_counts.get(id_) == count for id_, count in values.items())
        and all(metrics.null_value_counts.get(id_) == count for id_, count in nulls.items())
    )


def _counts(entry: Mapping[str, Any], metrics: FileMetrics) -> Mapping[str, Any]:
    """Return value and null counts if one differs from the footer's; then NaN are not counted."""
    columns: dict[str, Any] = {}
    for counts in COUNTS:
        stated, counted = dict(entry[counts] or ()), getattr(metrics, counts)
        if any(counted.get(id_, count) != count for id_, count in stated.items()):
            columns[counts] = [(id_, counted[id_]) for id_ in stated if id_ in counted]
    return columns


def _bounds(entry: Mapping[str, Any], metrics: FileMetrics, schema: Schema) -> Mapping[str, Any]:
    """Bounds, where one of them excludes a value or is none of its column's type.

    Those that only are wider than need be stay as they are.
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
            exact = {id_: measured[id_] for id_ in stated if id_ in measured and id_ not in bounds}
            columns[side] = sorted({**bounds, **exact}.items())
    return columns


def _columns_outside(entry: Mapping[str, Any], metrics: FileMetrics, schema: Schema) -> int:
    """Count the columns whose values are outside of the entry's bounds."""
    lower, upper = (dict(entry[name] or ()) for name in BOUNDS)
    stated = FileMetrics(entry["record_count"], lower_bounds=lower, upper_bounds=upper)
    return sum(is_outside(column, stated, metrics) for column in schema.fields)


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
