"""What a repair would change of the head of a branch, and why it leaves the rest."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from icectl.checks.rule import Finding
from icectl.commands.repair.head import HeadFix, ManifestChange, ReadHead, read_head
from icectl.commands.repair.plan import RemainingFinding
from icectl.commands.repair.repairs import Accepted, find_head_fixes
from icectl.entries.rows import with_values
from icectl.errors import Incomplete, MissingFile, StorageError
from icectl.format.manifest import ManifestContent, ManifestFile
from icectl.storage.failures import ACCESS_DENIED
from icectl.storage.store import Store
from icectl.table.recovery import Loss
from tests.builders.broken import (
    Broken,
    in_first,
    r042_an_entry_without_any_snapshot_id,
    r068_partitions_with_the_ids_of_another_spec,
)
from tests.builders.lost_manifests import (
    Failing,
    date_files,
    listed,
    lose,
    reader_of,
    relist,
    snapshot_of,
)
from tests.builders.table_builder import TableBuilder, filled_table

NOTHING = Accepted(drop_missing=False, accept_undeleted=False)
DROP = Accepted(drop_missing=True, accept_undeleted=False)
UNDELETE = Accepted(drop_missing=False, accept_undeleted=True)
ALL = Accepted(drop_missing=True, accept_undeleted=True)

NOTHING_ELSE = (
    "nothing else has its {} rows: restore the file, or `--drop-missing` removes it from the table"
)
BRING_DELETES_BACK = (
    "without it deleted rows would come back: restore the file, roll back with `--to-snapshot`, or "
    "accept these rows with `--accept-undeleted`"
)


@pytest.fixture
def table(tmp_path: Path) -> TableBuilder:
    """Appends of 4 and 3 rows and deletes of two of these, a manifest each."""
    built = filled_table(tmp_path / "t", range(4), range(4, 7))
    built.delete_rows([1, 5])
    return built


@pytest.fixture
def vectors(tmp_path: Path) -> TableBuilder:
    """The same in version 3: a vector for each data file, in one manifest."""
    built = filled_table(tmp_path / "t", range(4), range(4, 7), format_version=3)
    built.delete_rows([1, 5])
    return built


def last(table: TableBuilder) -> int:
    return table.metadata.snapshots[-1].snapshot_id


def manifests(table: TableBuilder) -> list[ManifestFile]:
    return listed(table, last(table))


def place(table: TableBuilder, rows: int, content: ManifestContent = ManifestContent.DATA) -> int:
    """Where the list has the manifest that added so many rows."""
    (found,) = [
        at
        for at, one in enumerate(manifests(table))
        if one.added_rows_count == rows and one.content is content
    ]
    return found


def file_of(table: TableBuilder, rows: int, content: int = 0) -> str:
    (found,) = [
        str(row["location"])
        for row in table.live()
        if (row["record_count"], row["content"]) == (rows, content)
    ]
    return found


def head_of(table: TableBuilder, store: Store | None = None) -> ReadHead:
    return read_head(reader_of(table, store=store), snapshot_of(table, last(table)))


def head_fixes(
    table: TableBuilder,
    *findings: Finding,
    asked: Accepted = NOTHING,
    head: ReadHead | None = None,
    store: Store | None = None,
) -> tuple[list[HeadFix], list[RemainingFinding]]:
    reader = reader_of(table, store=store)
    return find_head_fixes(reader, head or head_of(table, store), findings, asked)


def wrong(rule: str, subject: str, severity: Any = "error") -> Finding:
    return Finding(rule, severity, subject, "it is wrong", "hint")


def one(found: tuple[list[HeadFix], list[RemainingFinding]]) -> HeadFix:
    """The only fix, where nothing is left."""
    (head_fix,), left = found
    assert left == []
    return head_fix


def told(head_fix: HeadFix) -> tuple[str, str, str, str, int | None, int | None]:
    fix, loss = head_fix.fix, head_fix.fix.loss
    return fix.id, fix.subject, fix.what, fix.proof, loss.rows, loss.rows_back


def test_a_whole_head_needs_no_fix(table):
    assert head_fixes(table, asked=ALL) == ([], [])


# -- a lost list --------------------------------------------------------------------------------


def without_list(table: TableBuilder, **told: Any) -> ReadHead:
    """A head whose list is lost, with what stands in for it."""
    head = head_of(table)
    location = str(head.snapshot.manifest_list)
    problem = (location, MissingFile(location))
    return replace(head, listed=replace(head.listed, problems=(problem,)), **told)


def test_a_list_that_nothing_proves_is_left_with_all_that_is_wrong_of_it(table):
    head = without_list(table)
    lost = wrong("R-034", str(head.snapshot.manifest_list))
    found = head_fixes(table, lost, wrong("R-140", "statistics"), head=head, asked=ALL)
    reason = "nothing else shows what it listed; `--to-snapshot latest-complete` rolls back"
    assert found == ([], [RemainingFinding(lost, reason)])


def test_a_list_that_is_proved_is_written_anew_and_nothing_else(table):
    changes = (ManifestChange(0, dropped=frozenset({3})),)
    head = without_list(table, is_proven=True, changes=changes)
    location = str(head.snapshot.manifest_list)
    lost, other = wrong("R-034", location), wrong("R-050", head.listed.manifests[0].manifest_path)
    head_fix = one(head_fixes(table, lost, other, head=head))
    assert told(head_fix) == (
        "manifest-list",
        location,
        "commit a snapshot of the same 3 files, with its own list",
        (
            "the snapshot before it and its own manifests have exactly the files and rows that "
            "its summary counts"
        ),
        0,
        0,
    )  # fmt: skip
    assert head_fix.fix.answers == {lost}
    assert head_fix.changes == changes


def test_what_stands_in_for_a_list_may_lack_a_manifest_in_the_count(table):
    head = without_list(table, is_proven=True)
    head = replace(head, entries=(None, *head.entries[1:]))
    assert "of the same 2 files" in one(head_fixes(table, head=head)).fix.what


def numbered_high(head: ReadHead) -> ReadHead:
    """A file of the future, in the last manifest (R-044)."""
    *others, entries = head.entries
    assert entries is not None
    return replace(head, entries=(*others, with_values(entries, "sequence_number", [99])))


def test_nothing_is_built_on_rows_that_are_not_sure(table):
    lost = lose(manifests(table)[0]).manifest_path
    head = numbered_high(head_of(table))
    unsure, missing = wrong("R-044", "snapshot"), wrong("R-034", lost)
    found = head_fixes(table, missing, unsure, head=head, asked=ALL)
    reason = "until this is repaired, it is unclear which rows are live (R-044)"
    assert found == ([], [RemainingFinding(unsure, reason)])


def test_a_list_is_not_proved_by_files_of_which_it_is_not_sure_that_they_live(table):
    head = numbered_high(without_list(table, is_proven=True))
    lost = wrong("R-034", str(head.snapshot.manifest_list))
    found, left = head_fixes(table, lost, wrong("R-044", "snapshot"), head=head)
    assert (found, [each.finding for each in left]) == ([], [lost])


# -- lost manifests -----------------------------------------------------------------------------


def rebuilt(tmp_path: Path) -> tuple[TableBuilder, ManifestFile]:
    """A table with a lost manifest of two merged ones, which older snapshots have."""
    table = TableBuilder(tmp_path / "t", merge_manifests_above=1)
    for first in (0, 4, 8):
        table.append(range(first, first + 4))
    (lost,) = [each for each in manifests(table) if each.existing_files_count == 2]
    return table, lose(lost)


def test_a_lost_manifest_is_written_anew_with_what_other_snapshots_prove(tmp_path):
    table, lost = rebuilt(tmp_path)
    missing = wrong("R-034", lost.manifest_path)
    head_fix = one(head_fixes(table, missing, wrong("R-163", "version-hint.text")))
    name = Path(lost.manifest_path).name
    assert told(head_fix) == (
        f"manifest:{name}",
        lost.manifest_path,
        "rewrite it, with 2 files",
        "other snapshots list these files, with the same number of files and rows",
        0,
        0,
    )
    assert head_fix.fix.answers == {missing}
    (change,) = head_fix.changes
    assert change.place == manifests(table).index(lost)
    assert change.rebuilt is not None
    assert change.rebuilt.table["record_count"].to_pylist() == [4, 4]
    assert change == ManifestChange(change.place, rebuilt=change.rebuilt)


def test_a_lost_manifest_is_written_anew_with_what_footers_prove(tmp_path):
    table = filled_table(tmp_path / "t", range(4))
    size = Path(file_of(table, 4)).stat().st_size
    (snapshot,) = table.metadata.snapshots
    summary = {
        **(snapshot.summary or {}),
        "added-data-files": "1",
        "added-records": "4",
        "added-files-size": str(size),
    }
    table.metadata = replace(table.metadata, snapshots=(replace(snapshot, summary=summary),))
    lost = lose(manifests(table)[0])
    assert head_fixes(table, wrong("R-034", lost.manifest_path))[0] == []  # the file is of today
    date_files(table)
    head_fix = one(head_fixes(table, wrong("R-034", lost.manifest_path)))
    assert head_fix.fix.what == "rewrite it, with 1 file"
    assert head_fix.fix.proof == (
        "no other manifest lists these files, which have the rows and bytes that its snapshot added"
    )


def test_a_manifest_that_may_not_be_read_is_not_lost(table):
    path = manifests(table)[0].manifest_path
    denied = Failing("read", path, StorageError("may not be read", id=ACCESS_DENIED))
    assert head_fixes(table, wrong("R-034", path), asked=ALL, store=denied) == ([], [])


def test_r042_a_manifest_that_others_may_read_is_not_dropped(table):
    """Its entries have no snapshot id, which is not the same as being lost."""
    r042_an_entry_without_any_snapshot_id(Broken(table.directory))
    (at,) = [number for number, each in enumerate(head_of(table).entries) if each is None]
    missing = wrong("R-042", manifests(table)[at].manifest_path)
    assert head_fixes(table, missing, asked=ALL) == ([], [])


def test_r060_a_manifest_that_later_readers_may_know_is_not_dropped(table):
    broken = Broken(table.directory)
    path = broken.edit_manifest(lambda _: None, header=lambda one: one.update({"content": "more"}))
    assert head_fixes(table, wrong("R-060", path), asked=ALL) == ([], [])


@pytest.mark.parametrize("content", [None, b"Obj\x01"])
@pytest.mark.parametrize(
    ("rows", "kind", "asked", "reason"),
    [
        (4, ManifestContent.DATA, DROP, NOTHING_ELSE.format(4)),
        (2, ManifestContent.DELETES, UNDELETE, BRING_DELETES_BACK),
    ],
)
def test_a_manifest_that_nothing_proves_goes_only_where_that_is_asked_for(
    table, content, rows, kind, asked, reason
):
    at = place(table, rows, kind)
    lost = lose(manifests(table)[at])
    path = Path(lost.manifest_path)
    if content is not None:
        path.write_bytes(content)
    Path(str(table.metadata.snapshots[0].manifest_list)).unlink()
    missing = wrong("R-034", lost.manifest_path)
    other = DROP if asked is UNDELETE else UNDELETE
    for refused in (NOTHING, other):
        assert head_fixes(table, missing, asked=refused) == (
            [],
            [RemainingFinding(missing, reason)],
        )
    head_fix = one(head_fixes(table, missing, asked=asked))
    is_data = kind is ManifestContent.DATA
    assert told(head_fix) == (
        f"{'lost-data' if is_data else 'lost-deletes'}:{path.name}",
        lost.manifest_path,
        "remove it from the table",
        "`--drop-missing` accepts that its rows are lost"
        if is_data
        else "`--accept-undeleted` accepts that rows it deleted come back",
        4 if is_data else 0,
        0 if is_data else 2,
    )  # fmt: skip
    assert head_fix.fix.answers == {missing}
    assert head_fix.changes == (ManifestChange(at, gone=True),)


@pytest.mark.parametrize("name", ["added_rows_count", "existing_rows_count"])
def test_rows_that_a_list_of_version_1_does_not_count_are_told_of(tmp_path, name):
    table = filled_table(tmp_path / "t", range(4), format_version=1)
    (lost,) = manifests(table)
    relist(table, last(table), [replace(lost, **{name: None})])
    missing = wrong("R-034", lose(lost).manifest_path)
    reason = NOTHING_ELSE.replace(" {}", "")
    assert head_fixes(table, missing) == ([], [RemainingFinding(missing, reason)])
    assert one(head_fixes(table, missing, asked=DROP)).fix.loss == Loss(rows=None)


def test_deletes_that_nobody_has_counted_are_told_of(table):
    at = place(table, 2, ManifestContent.DELETES)
    path = lose(manifests(table)[at]).manifest_path
    head = head_of(table)
    rows = [*head.listed.manifests]
    rows[at] = replace(rows[at], added_rows_count=None)
    head = replace(head, listed=replace(head.listed, manifests=tuple(rows)))
    head_fix = one(head_fixes(table, wrong("R-034", path), head=head, asked=UNDELETE))
    assert head_fix.fix.loss == Loss(rows_back=None)


def test_rows_that_were_kept_are_lost_with_a_manifest_too(table):
    at = place(table, 4)
    rows = manifests(table)
    relist(table, last(table), [
        replace(each, existing_files_count=1, existing_rows_count=5) if number == at else each
        for number, each in enumerate(rows)
    ])  # fmt: skip
    head_fix = one(head_fixes(table, wrong("R-034", lose(rows[at]).manifest_path), asked=DROP))
    assert head_fix.fix.loss == Loss(9)


# -- lost files ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rows", "content", "asked", "reason"),
    [(3, 0, DROP, NOTHING_ELSE.format(3)), (2, 1, UNDELETE, BRING_DELETES_BACK)],
)
def test_a_lost_file_is_listed_no_more_only_where_that_is_asked_for(
    table, rows, content, asked, reason
):
    path = Path(file_of(table, rows, content))
    path.unlink()
    missing = wrong("R-034", str(path))
    findings = (wrong("R-130", str(path)), missing, wrong("R-034", file_of(table, 4)))
    for refused in (NOTHING, DROP if asked is UNDELETE else UNDELETE):
        assert head_fixes(table, *findings, asked=refused) == (
            [],
            [RemainingFinding(missing, reason)],
        )
    head_fix = one(head_fixes(table, *findings, asked=asked))
    assert told(head_fix)[:3] == (
        f"{'lost-deletes' if content else 'lost-data'}:{path.name}",
        str(path),
        "remove it from the table",
    )  # fmt: skip
    assert told(head_fix)[4:] == ((0, 2) if content else (3, 0))
    assert head_fix.fix.answers == {missing}
    at = place(table, rows, ManifestContent.DELETES if content else ManifestContent.DATA)
    assert head_fix.changes == (ManifestChange(at, dropped=frozenset({0})),)


def test_lost_files_are_found_beside_a_lost_manifest(table):
    """The manifest is the first in the list."""
    lost = lose(manifests(table)[0])
    path = file_of(table, 4)
    Path(path).unlink()
    found, left = head_fixes(
        table, wrong("R-034", path), wrong("R-034", lost.manifest_path), asked=DROP
    )
    assert [head_fix.fix.kind for head_fix in found] == ["lost-data"]
    assert [each.finding.subject for each in left] == [lost.manifest_path]


def test_of_lost_files_those_that_were_found_are_listed_no_more(table):
    paths = [file_of(table, rows) for rows in (3, 4)]
    for path in paths:
        Path(path).unlink()
    findings = wrong("R-034", paths[0]), wrong("R-130", paths[1])
    assert one(head_fixes(table, *findings, asked=DROP)).fix.subject == paths[0]


def test_a_lost_file_that_lives_no_more_is_no_concern(table):
    path = file_of(table, 4)
    table.remove_data_files(2)
    Path(path).unlink()
    assert head_fixes(table, wrong("R-034", path), asked=ALL) == ([], [])


def test_the_vector_of_a_lost_data_file_goes_with_it(vectors):
    path = file_of(vectors, 3)
    Path(path).unlink()
    head_fix = one(head_fixes(vectors, wrong("R-034", path), asked=DROP))
    of_deletes = [each["referenced_data_file"] for each in vectors.live() if each["content"] == 1]
    assert head_fix.changes == (
        ManifestChange(place(vectors, 3), dropped=frozenset({0})),
        ManifestChange(
            place(vectors, 2, ManifestContent.DELETES), dropped=frozenset({of_deletes.index(path)})
        ),
    )
    assert head_fix.fix.loss.rows_back == 0


def test_r118_nothing_is_repaired_while_a_vector_names_no_file(vectors):
    path = file_of(vectors, 3)
    Path(path).unlink()
    head = head_of(vectors)
    at = place(vectors, 2, ManifestContent.DELETES)
    entries = [*head.entries]
    deletes = entries[at]
    assert deletes is not None
    entries[at] = with_values(deletes, "referenced_data_file", [None, path])
    findings = wrong("R-034", path), wrong("R-118", "a manifest")
    found, left = head_fixes(
        vectors, *findings, asked=DROP, head=replace(head, entries=(*entries,))
    )
    assert found == []
    assert [remaining.finding.rule for remaining in left] == ["R-118"]


def test_a_lost_data_file_goes_where_its_vectors_are_lost_too(vectors):
    path = file_of(vectors, 3)
    Path(path).unlink()
    lose(manifests(vectors)[place(vectors, 2, ManifestContent.DELETES)])
    found, _ = head_fixes(vectors, wrong("R-034", path), asked=DROP)
    assert [head_fix.changes for head_fix in found] == [
        (ManifestChange(place(vectors, 3), dropped=frozenset({0})),)
    ]


# -- metrics ------------------------------------------------------------------------------------

METRICS = "rewrite it with lower_bounds of 1 file as their footers have them"


def narrow(table: TableBuilder, rows: int = 4) -> tuple[str, str]:
    """Let the lower bound of a file leave rows out; its manifest, and the file."""
    path = file_of(table, rows)

    def change(entries: list[dict[str, Any]]) -> None:
        for entry in entries:
            if entry["data_file"]["file_path"] == path:
                for bound in entry["data_file"]["lower_bounds"]:
                    if bound["key"] == 1:
                        bound["value"] = (100).to_bytes(8, "little")

    Broken(table.directory).edit_manifest(
        change, holding=lambda entry: entry["data_file"]["file_path"] == path
    )
    (manifest,) = [
        each.manifest_path
        for number, each in enumerate(manifests(table))
        if path in _locations(head_of(table), number)
    ]
    return manifest, path


def _locations(head: ReadHead, number: int) -> Sequence[str]:
    entries = head.entries[number]
    return [] if entries is None else entries.table["location"].to_pylist()


@pytest.mark.parametrize("of_manifest", [True, False])
@pytest.mark.parametrize("rule", ["R-092", "R-130"])
def test_metrics_are_taken_from_the_footer_where_they_are_wrong(table, of_manifest, rule):
    manifest, path = narrow(table)
    finding = wrong(rule, manifest if of_manifest else path)
    head_fix = one(head_fixes(table, finding, wrong("R-071", manifest), wrong(rule, "elsewhere")))
    assert told(head_fix) == (
        f"metrics:{Path(manifest).name}", manifest, METRICS, "the footers of the files say so", 0,
        0,
    )  # fmt: skip
    assert head_fix.fix.answers == {finding}
    (change,) = head_fix.changes
    assert change.place == [each.manifest_path for each in manifests(table)].index(manifest)
    assert {at: list(columns) for at, columns in change.restated.items()} == {0: ["lower_bounds"]}
    assert dict(change.restated[0]["lower_bounds"])[1] == bytes(8)
    assert change == ManifestChange(change.place, restated=change.restated)


def test_only_the_files_that_are_named_are_looked_at(tmp_path):
    table = filled_table(tmp_path / "t", range(7), files=2)
    _, first = narrow(table, 4)
    manifest, second = narrow(table, 3)
    for finding, places in (
        (wrong("R-092", first), {0}),
        (wrong("R-092", second), {1}),
        (wrong("R-092", manifest), {0, 1}),
    ):
        (change,) = one(head_fixes(table, finding)).changes
        assert set(change.restated) == places
    both = one(head_fixes(table, wrong("R-092", first), wrong("R-092", second)))
    assert both.fix.what == "rewrite it with lower_bounds of 2 files as their footers have them"
    assert {each.subject for each in both.fix.answers} == {first, second}


def test_metrics_that_are_right_or_of_deletes_stay(table):
    _, path = narrow(table)
    manifest = manifests(table)[place(table, 2, ManifestContent.DELETES)].manifest_path
    others = (wrong("R-092", file_of(table, 3)), wrong("R-092", file_of(table, 2, 1)))
    assert head_fixes(table, *others, wrong("R-092", manifest)) == ([], [])
    assert head_fixes(table, wrong("R-047", path)) == ([], [])


def test_r063_counts_of_deletes_are_not_taken_from_footers(table):
    path = file_of(table, 2, 1)
    Broken(table.directory).edit_manifest(
        in_first(lambda entry: entry["data_file"].update(record_count=9)), content=1
    )
    assert head_fixes(table, wrong("R-063", path)) == ([], [])


def test_metrics_are_found_behind_a_lost_manifest(table):
    manifest, path = narrow(table)
    assert lose(manifests(table)[0]).manifest_path != manifest
    found, _ = head_fixes(table, wrong("R-092", path))
    assert [head_fix.fix.subject for head_fix in found] == [manifest]


def test_what_a_rewrite_would_lose_is_not_written_anew(table):
    _, path = narrow(table)
    head = with_unknown_fields(head_of(table), place(table, 4))
    assert head_fixes(table, wrong("R-092", path), head=head) == ([], [])


def with_unknown_fields(head: ReadHead, at: int) -> ReadHead:
    """A head, a manifest of which has a field that icectl doesn't know."""
    read = [*head.read]
    header, _ = read[at].content
    read[at] = replace(read[at], header=replace(header, unknown_field_ids=(999,)))
    return replace(head, read=tuple(read))


FIELDS_LOST = "its manifest has fields that a rewrite would lose"


@pytest.mark.parametrize("rows", [3, 2])
def test_entries_are_not_dropped_from_what_a_rewrite_would_spoil(vectors, rows):
    """Neither the data file from its manifest, nor its vector from the other."""
    path = file_of(vectors, 3)
    Path(path).unlink()
    kind = ManifestContent.DATA if rows == 3 else ManifestContent.DELETES
    missing = wrong("R-034", path)
    head = with_unknown_fields(head_of(vectors), place(vectors, rows, kind))
    assert head_fixes(vectors, missing, asked=ALL, head=head) == (
        [],
        [RemainingFinding(missing, FIELDS_LOST)],
    )
    head = with_unknown_fields(head_of(vectors), place(vectors, 4))
    assert one(head_fixes(vectors, missing, asked=ALL, head=head)).fix.kind == "lost-data"


def test_vectors_are_not_dropped_from_what_a_rewrite_would_spoil(vectors):
    dangle(vectors, 3)
    head = with_unknown_fields(head_of(vectors), place(vectors, 2, ManifestContent.DELETES))
    assert head_fixes(vectors, DANGLING, head=head) == (
        [],
        [RemainingFinding(DANGLING, FIELDS_LOST)],
    )


def test_the_time_limit_ends_the_search_for_metrics(table):
    _, path = narrow(table)
    head = head_of(table)
    reader = reader_of(table, ends_at_seconds=0)
    with pytest.raises(Incomplete):
        find_head_fixes(reader, head, [wrong("R-092", path)], NOTHING)


# -- the list -----------------------------------------------------------------------------------


def relisted(table: TableBuilder, at: int, **told: Any) -> str:
    """Let the list say something else of one manifest; which."""
    rows = manifests(table)
    relist(table, last(table), [
        replace(each, **told) if number == at else each for number, each in enumerate(rows)
    ])  # fmt: skip
    return rows[at].manifest_path


@pytest.mark.parametrize("at", [0, 1, 2])
@pytest.mark.parametrize(
    ("rule", "told"),
    [
        ("R-050", {"manifest_length": 5}),
        ("R-051", {"added_files_count": 9}),
        ("R-047", {"min_sequence_number": 9}),
    ],
)
def test_a_row_of_the_list_is_counted_anew(table, at, rule, told):
    path = relisted(table, at, **told)
    finding = wrong(rule, path)
    head_fix = one(
        head_fixes(table, finding, wrong("R-130", path, "warning"), wrong(rule, "other"))
    )
    fix = head_fix.fix
    assert (fix.id, fix.subject) == (f"list-row:{Path(path).name}", path)
    assert fix.what == "correct its length, counts and ranges"
    assert fix.proof == "the manifest is complete, and counted again"
    assert fix.answers == {finding}
    assert head_fix.changes == (ManifestChange(at, described=True),)


def test_a_row_is_counted_only_where_something_is_wrong_of_it(table):
    path = relisted(table, 1, manifest_length=5)
    assert head_fixes(table, wrong("R-130", path), wrong("R-050", "other")) == ([], [])


@pytest.mark.parametrize("spec_id", [1, 9])
def test_r061_a_row_that_names_another_spec_is_not_counted_anew(table, spec_id):
    """Not of which spec it is, and not even the others would be repaired."""
    table.respec("none")
    path = relisted(table, 1, manifest_length=5, partition_spec_id=spec_id)
    other = relisted(table, 0, manifest_length=5)
    (head_fix,), _ = head_fixes(table, wrong("R-050", path), wrong("R-050", other))
    assert head_fix.fix.subject == other


def test_r068_a_row_of_partitions_with_other_ids_is_not_counted_anew(tmp_path):
    table = filled_table(tmp_path / "t", [0], partitioning="identity")
    r068_partitions_with_the_ids_of_another_spec(Broken(table.directory))
    assert head_fixes(table, wrong("R-050", relisted(table, 0, manifest_length=5))) == ([], [])


def test_a_manifest_that_is_lost_or_that_nobody_can_count_is_not_counted(table):
    path = relisted(table, 0, manifest_length=5)
    head = head_of(table)
    unsized = tuple(replace(each, size_bytes=None) for each in head.read)
    finding = wrong("R-050", path)
    assert head_fixes(table, finding, head=replace(head, read=unsized)) == ([], [])
    for damage in (lambda: Path(path).write_bytes(b"Obj\x01"), Path(path).unlink):
        damage()
        assert head_fixes(table, finding)[0] == []


def test_r050_a_manifest_that_is_listed_twice_is_listed_once(table):
    rows = manifests(table)
    relist(table, last(table), [*rows, rows[1]])
    answered = [
        wrong(rule, subject)
        for rule, subject in (("R-050", "list"), ("R-066", "b"), ("R-103", "c"), ("R-114", "d"))
    ]
    head_fix = one(head_fixes(table, *answered, wrong("R-140", "e")))
    path = rows[1].manifest_path
    assert told(head_fix) == (
        f"list-row:{Path(path).name}", path, "list it once",
        "both rows of the list are the same, and a file lives once", 0, 0,
    )  # fmt: skip
    assert head_fix.fix.answers == set(answered)
    assert head_fix.changes == (ManifestChange(3, gone=True),)


def test_r050_a_manifest_that_is_listed_twice_is_counted_once(table):
    path = relisted(table, 1, manifest_length=5)
    rows = manifests(table)
    relist(table, last(table), [*rows, rows[1]])
    found, _ = head_fixes(table, wrong("R-050", path))
    assert [head_fix.changes for head_fix in found] == [
        (ManifestChange(1, described=True),), (ManifestChange(3, gone=True),),
    ]  # fmt: skip


def test_r050_of_two_rows_that_differ_none_is_taken(table):
    rows = manifests(table)
    relist(table, last(table), [*rows, replace(rows[1], manifest_length=5)])
    assert head_fixes(table, wrong("R-066", "a file")) == ([], [])


ONLY = "commit a snapshot of the same files, with its own list and totals"


@pytest.mark.parametrize("rule", ["R-031", "R-054"])
def test_a_new_list_is_a_fix_by_itself(table, rule):
    finding = wrong(rule, f"snapshot {last(table)}")
    others = (wrong("R-140", "statistics", "warning"), wrong("R-163", "hint", "info"))
    head_fix = one(head_fixes(table, finding, *others))
    assert told(head_fix) == (
        "manifest-list", f"snapshot {last(table)}", ONLY,
        "all that it lists can be read, and was counted", 0, 0,
    )  # fmt: skip
    assert (head_fix.fix.answers, head_fix.changes) == ({finding}, ())
    assert head_fixes(table, *others) == ([], [])


def test_a_new_list_is_made_with_other_fixes_and_not_beside_an_error(table):
    path = relisted(table, 1, manifest_length=5)
    totals, length = wrong("R-031", "snapshot"), wrong("R-050", path)
    found, _ = head_fixes(table, totals, length)
    assert [head_fix.fix.id for head_fix in found] == [
        f"list-row:{Path(path).name}",
        "manifest-list",
    ]
    found, _ = head_fixes(table, totals, length, wrong("R-099", "file"))
    assert [head_fix.fix.kind for head_fix in found] == ["list-row"]
    lose(manifests(table)[0])
    assert head_fixes(table, totals)[0] == []


# -- dangling vectors ---------------------------------------------------------------------------

DANGLING = wrong("R-116", "a vector", "warning")


def dangle(table: TableBuilder, rows: int) -> None:
    """Let a data file be removed, and its vector stay."""
    path = file_of(table, rows)
    Broken(table.directory).edit_manifest(
        in_first(lambda entry: entry.update(status=2)),
        holding=lambda entry: entry["data_file"]["file_path"] == path,
    )


def test_r116_vectors_of_removed_files_are_listed_no_more(vectors):
    referenced = [each["referenced_data_file"] for each in vectors.live() if each["content"] == 1]
    at = referenced.index(file_of(vectors, 3))
    dangle(vectors, 3)
    head_fix = one(head_fixes(vectors, DANGLING, wrong("R-111", "other", "info")))
    assert told(head_fix) == (
        "dangling-deletes", f"snapshot {last(vectors)}",
        "remove 1 deletion vector from the table",
        "their data files were removed, as other entries show", 0, 0,
    )  # fmt: skip
    assert head_fix.fix.answers == {DANGLING}
    deletes = place(vectors, 2, ManifestContent.DELETES)
    assert head_fix.changes == (ManifestChange(deletes, dropped=frozenset({at})),)
    dangle(vectors, 4)
    head_fix = one(head_fixes(vectors, DANGLING))
    assert head_fix.fix.what == "remove 2 deletion vectors from the table"
    assert head_fix.changes == (ManifestChange(deletes, dropped=frozenset({0, 1})),)


def test_vectors_are_looked_at_only_where_one_is_said_to_dangle(vectors):
    dangle(vectors, 3)
    assert head_fixes(vectors, wrong("R-111", "other", "info")) == ([], [])
    lose(manifests(vectors)[place(vectors, 4)])
    found, left = head_fixes(vectors, DANGLING)
    assert (found, left) == ([], [])


REASON = "no snapshot has the data file that it names: rows of another may be back"


def test_vectors_of_files_that_nobody_knows_stay(vectors):
    """They may be those of live files, by another name."""
    assert head_fixes(vectors, DANGLING) == ([], [RemainingFinding(DANGLING, REASON)])
    dangle(vectors, 3)

    def elsewhere(entries: list[dict[str, Any]]) -> None:
        for entry in entries:
            referenced = entry["data_file"]["referenced_data_file"]
            if referenced == file_of(vectors, 4):
                entry["data_file"]["referenced_data_file"] = "/elsewhere.parquet"

    Broken(vectors.directory).edit_manifest(elsewhere, content=1)
    assert head_fixes(vectors, DANGLING) == ([], [RemainingFinding(DANGLING, REASON)])


def test_files_of_other_snapshots_are_known_though_some_cannot_be_read(vectors):
    first, second, _ = vectors.metadata.snapshots
    (manifest,) = listed(vectors, first.snapshot_id)
    dangle(vectors, 3)
    relist(vectors, second.snapshot_id, [replace(manifest, manifest_path="/gone.avro")])
    Path(str(first.manifest_list)).unlink()
    assert one(head_fixes(vectors, DANGLING)).fix.kind == "dangling-deletes"
