"""The plan and the outcome of a compaction, as result members and as text."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from icectl.catalog.protocol import LoadedTable
from icectl.cli.console import Console
from icectl.cli.document import Listed, id_text, print_new_metadata_file
from icectl.cli.session import unpublished_metadata
from icectl.cli.tables import TableColumn, beginnings, below, print_table
from icectl.commands.bill import Bill, bill_lines, bill_row
from icectl.commands.compact.groups_plan import CHOSEN, CompactGroup
from icectl.commands.compact.plan import LEFT_ALONE, CompactPlan
from icectl.entries.file_verdicts import FileVerdict
from icectl.entries.partition_key import decode_key
from icectl.entries.rows import Entries, by_row, part, take
from icectl.format.manifest import Content
from icectl.format.metadata import TableMetadata
from icectl.format.partition import partition_path, result_types
from icectl.rows.choice import EngineChoice
from icectl.rows.compact_job import TaskCounts
from icectl.rows.sort_rows import order_words
from icectl.storage.location import name
from icectl.table.live_files import LiveFiles
from icectl.table.mergeable import MethodChoice
from icectl.table.rewrite_tasks import RewriteTask
from icectl.units import print_count, print_size

_SHOWN_ODD = 3
_TINY_BYTES = 64 * 1024
"""Data files below this on average are footers more than rows: what they come to isn't known."""

_NAMED = ["location", "file_size_in_bytes", "record_count"]

_BECOMES: Mapping[str, str] = {
    "vectors": "become deletion vectors",
    "position-deletes": "become position deletes",
    "nothing": "apply to no data file",
    "applied": "are applied to the rows of rewritten files",
    "stays": "stay: a data file is not selected, or not readable",
    "waits": "stay: they apply to data files that stay",
}
"""What becomes of equality deletes."""


@dataclass(frozen=True, slots=True)
class GroupOutput:
    """The files that a group has become in the table."""

    file_count: int
    size_bytes: int
    row_count: int
    choice: MethodChoice


@dataclass(frozen=True, slots=True)
class PreparedCompaction:
    """A plan, the table and files it is for, and the number of delete files it would remove.

    `removed_equality_deletes` are the locations of those of equality deletes.
    """

    loaded: LoadedTable
    plan: CompactPlan
    files: LiveFiles
    removed_delete_files: int
    removed_equality_deletes: frozenset[str] = frozenset()

    @property
    def without_work(self) -> "PreparedCompaction":
        """The same table with nothing to do."""
        return replace(self, plan=replace(self.plan, groups=(), dangling=()))


@dataclass(frozen=True, slots=True)
class Compacted:
    """The result of a run: the table after it, and its groups by number.

    `outputs` has the groups that were committed, `failed` why others were not, and `lost` which of
    these lost against other writers. `carried_deletes` are rows that other writers deleted
    since. `not_assembled` says why bytes of merged files passed through workers.
    """

    landed: LoadedTable
    snapshot_ids: tuple[int, ...]
    outputs: Mapping[int, GroupOutput]
    failed: Mapping[int, str]
    removed_delete_files: int
    carried_deletes: int
    not_assembled: tuple[str, ...] = ()
    lost: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Compaction:
    """The plan of a compaction, and its outcome once it has run; the bill of a dry run."""

    prepared: PreparedCompaction
    engine: EngineChoice
    tasks: TaskCounts
    outcome: Compacted | None = None
    bill: Bill | None = None

    @property
    def plan(self) -> CompactPlan:
        """The plan."""
        return self.prepared.plan

    @property
    def metadata(self) -> TableMetadata:
        """The metadata that the plan is for."""
        return self.prepared.loaded.metadata

    @property
    def outputs(self) -> Mapping[int, GroupOutput]:
        """Groups that were committed, by number."""
        return {} if self.outcome is None else self.outcome.outputs

    @property
    def failed(self) -> Mapping[int, str]:
        """Reasons why groups were not committed, by number."""
        return {} if self.outcome is None else self.outcome.failed


def compaction_result(report: Compaction) -> dict[str, Any]:
    """Return the result; outputs of a plan are estimates, and their rows are not known.

    If only deletes are merged, bytes and rows are those of delete files.
    """
    outcome = report.outcome
    data, deletes = _sums(report, keeps_files=False), _sums(report, keeps_files=True)
    shown = deletes if report.plan.options.deletes_only else data
    dangling = take(report.prepared.files.deletes, report.plan.dangling)
    return {
        "branch": report.plan.branch.name,
        "engine": report.engine.name,
        "groups": list(_groups(report)),
        "rewritten_data_files": data.input_files,
        "added_data_files": data.files,
        "removed_delete_files": (outcome or report.prepared).removed_delete_files,
        "carried_deletes": 0 if outcome is None else outcome.carried_deletes,
        "added_delete_files": deletes.files,
        "methods": _methods(report),
        "rewritten_bytes": shown.input_bytes,
        "converted_bytes": 0 if shown is deletes else deletes.input_bytes,
        "added_bytes": shown.size_bytes,
        "rows_before": shown.input_rows,
        "rows_after": None if outcome is None else shown.rows,
        "equality_deletes": list(_equality_deletes(report)),
        "dangling_delete_files": Listed(
            len(dangling), lambda: (location for (location,) in by_row(dangling, "location"))
        ),
        "tasks": report.tasks.tasks,
        "repeated_tasks": report.tasks.repeats,
        "left_alone": dict(report.plan.left_alone),
        "not_merged": [
            {"path": location, "reason": reason} for location, reason in report.plan.odd.items()
        ],
        "snapshot_ids": [id_text(id_) for id_ in (() if outcome is None else outcome.snapshot_ids)],
        "failed": [
            {"group": number, "reason": reason} for number, reason in sorted(report.failed.items())
        ],
        "lost_groups": 0 if outcome is None else len(outcome.lost),
        "bill": None if report.bill is None else bill_row(report.bill),
    }


@dataclass(frozen=True, slots=True)
class _Sums:
    """What goes into groups and comes of them, added up: data files, or delete files."""

    input_files: int
    input_bytes: int
    input_rows: int
    files: int
    size_bytes: int
    rows: int


def _sums(report: Compaction, *, keeps_files: bool) -> _Sums:
    """Add up the groups that are done or planned, whose data files stay or are rewritten."""
    done = [group for group in _done(report) if group.keeps_files is keeps_files]
    made = [
        GroupOutput(group.expected_files, group.expected_bytes, 0, group.choice)
        if report.outcome is None
        else report.outputs[group.number]
        for group in done
    ]
    return _Sums(
        sum(group.input_files for group in done),
        sum(group.input_bytes for group in done),
        sum(group.input_rows for group in done),
        sum(output.file_count for output in made),
        sum(output.size_bytes for output in made),
        sum(output.row_count for output in made),
    )


def _done(report: Compaction) -> Sequence[CompactGroup]:
    """Return the groups that were committed; of a plan, all."""
    return [
        group
        for group in report.plan.groups
        if report.outcome is None or group.number in report.outputs
    ]


def compaction_line(report: Compaction) -> str:
    """Return what a compaction makes of the files, or would make of them."""
    outcome, texts = report.outcome, []
    for noun, keeps_files in (("file", False), ("delete file", True)):
        sums = _sums(report, keeps_files=keeps_files)
        if sums.input_files:
            old = print_count(sums.input_files, noun)
            texts.append(f"{old} into {sums.files:,}")
    if texts:
        texts[-1] += f" by the {report.engine.name} engine"
    removed = (outcome or report.prepared).removed_delete_files
    if removed and not report.plan.options.deletes_only:
        verb = "to remove" if outcome is None else "removed"
        texts.append(f"{print_count(removed, 'delete file')} {verb}")
    return ", ".join(texts)


def _equality_deletes(report: Compaction) -> Iterator[Mapping[str, Any]]:
    """Yield each equality delete file of the plan, and what becomes of it."""
    prepared, failed = report.prepared, report.failed
    groups = {
        file.location: group
        for group in report.plan.groups
        if group.conversion is not None and group.number not in failed
        for file in group.conversion.deletes
    }
    dangling, removed = set(report.plan.dangling), prepared.removed_equality_deletes
    stays = "stays" if report.plan.options.deletes_only else "waits"
    columns = ("content", "location", "record_count", "sequence_number", "file_size_in_bytes")
    for row, (content, location, keys, number, size) in enumerate(
        by_row(prepared.files.deletes, *columns)
    ):
        if content != Content.EQUALITY_DELETES:
            continue
        group = groups.get(location)
        becomes = "applied" if location in removed else stays
        becomes = "nothing" if row in dangling else becomes
        if group is not None:
            becomes = "vectors" if group.makes_vectors else "position-deletes"
        yield {
            "path": location,
            "group": None if group is None else group.number,
            "sequence_number": number,
            "keys": keys,
            "size_bytes": size,
            "becomes": becomes,
        }


def _groups(report: Compaction) -> Iterator[Mapping[str, Any]]:
    # All at once: however few rows are taken, pyarrow goes through all of the table.
    data = report.prepared.files.data.table.select(_NAMED)
    rows_of_groups = [row for group in report.plan.groups for row in group.files]
    taken, start = take(Entries(data), rows_of_groups), 0
    for group in report.plan.groups:
        output = report.outputs.get(group.number)
        status = "planned" if report.outcome is None else "not-run"
        if output is not None:
            status = "done"
        elif group.number in report.failed:
            status = "failed"
        yield {
            "partition": partition_text(report.metadata, group),
            "spec_id": group.spec_id,
            "input_files": group.input_files,
            "output_files": group.expected_files if output is None else output.file_count,
            "input_bytes": group.input_bytes,
            "output_bytes": group.expected_bytes if output is None else output.size_bytes,
            "rows": group.input_rows if output is None else output.row_count,
            "reason": group.reason,
            **_method(report, group),
            "decoded_bytes": 0 if group.keeps_files else group.rewritten_bytes,
            "decoded_columns": [
                {"path": location, "columns": of.names, "size_bytes": of.size_bytes, "why": of.why}
                for location, of in group.decoded_columns.items()
            ],
            "status": status,
            "files": _group_files(part(taken, start, start + len(group.files))),
        }
        start += len(group.files)


def _group_files(files: Entries) -> Listed:
    return Listed(
        len(files),
        lambda: (
            {"path": location, "size_bytes": size, "rows": count}
            for location, size, count in by_row(files, *_NAMED)
        ),
    )


def _methods(report: Compaction) -> Mapping[str, Any]:
    """Return the bytes that each method reads and writes; of a plan, an estimate."""
    nothing = {"groups": 0, "read_bytes": 0, "written_bytes": 0}
    totals = {"merge": nothing.copy(), "rewrite": nothing.copy()}
    for group in (group for group in _done(report) if not group.keeps_files):
        output = report.outputs.get(group.number)
        total = totals[_method(report, group)["method"]]
        is_merge = total is totals["merge"]
        decoded = group.decoded_bytes - _column_bytes(group) if is_merge else 0
        expected = group.input_bytes if is_merge else group.expected_bytes
        total["groups"] += 1
        total["read_bytes"] += group.input_bytes - decoded
        total["written_bytes"] += (expected if output is None else output.size_bytes) - decoded
        if decoded:  # about as many are written again
            for key, value in (("groups", 1), ("read_bytes", decoded), ("written_bytes", decoded)):
                totals["rewrite"][key] += value
    return totals


def _column_bytes(group: CompactGroup) -> int:
    return sum(of.size_bytes for of in group.decoded_columns.values())


def _method(report: Compaction, group: CompactGroup) -> Mapping[str, str]:
    output = report.outputs.get(group.number)
    choice = group.choice if output is None else output.choice
    method = "rewrite" if choice.method == "rewrite" else "merge"
    return {"method": method, "method_reason": choice.why}


def partition_text(metadata: TableMetadata, group: CompactGroup) -> str | None:
    """Return the path of a group's partition; None if its rows move to others."""
    spec = metadata.spec(group.spec_id)
    if group.partition_key is None or spec is None:
        return None
    types = result_types(spec, metadata.schemas)
    return partition_path(spec, types, decode_key(group.partition_key, types))


def print_compaction(console: Console, report: Compaction, *, whole: bool) -> None:
    """Print each group with its reason, and the outcome; with `-v`, or `whole`, every file."""
    whole = whole or console.options.verbosity > 0
    shows_plan = whole or report.outcome is None
    if shows_plan and report.plan.groups:
        _print_groups(console, report)
        order = report.plan.options.order
        if order is not None:
            console.say(f"rows of each group {order_words(order, report.metadata.current_schema)}")
        if not report.plan.options.deletes_only:
            console.say(str(report.engine))
    if whole:
        _print_files(console, report)
    result = compaction_result(report)
    if shows_plan and result["equality_deletes"]:
        _print_equality_deletes(console, report, result, whole=whole)
    if shows_plan and result["methods"]["merge"]["groups"]:
        _print_methods(console, report, result["methods"])
    for reason, count in report.plan.left_alone.items() if shows_plan else ():
        console.say(f"skipped {print_count(count, 'file')}: {reason}")
    for location, reason in islice(report.plan.odd.items(), _SHOWN_ODD if shows_plan else 0):
        console.say(f"  `{name(location)}`: {reason}")
    if shows_plan and report.plan.odd:
        console.hint("use `--method rewrite` to decode and compact these files too")
    for number, reason in sorted(report.failed.items()):
        console.say(f"group {number} was not committed: {reason}")
    console.say(_summary(report, result))
    if report.bill is not None:
        for line in bill_lines(result["bill"], console.prose_width):
            console.say(line)
    if not report.plan.has_work and LEFT_ALONE[FileVerdict.TOO_FEW] in report.plan.left_alone:
        console.hint(
            "use `--min-input-files 2` to merge fewer files, or `--min-delete-ratio 10%` to "
            "rewrite files with 10% deleted rows or more"
        )
    if report.outcome is not None:
        print_new_metadata_file(console, unpublished_metadata(report.outcome.landed))


def _print_groups(console: Console, report: Compaction) -> None:
    columns = (
        TableColumn("group", "right"),
        TableColumn("partition", cut="middle"),
        TableColumn("files", "right"),
        TableColumn("bytes", "right"),
        TableColumn("output files", "right"),
        TableColumn("reason", cut="wrap"),
    )
    options, rows = report.plan.options, []
    has_choice = options.method != "rewrite" and options.order is None
    for group in report.plan.groups:
        partition, reason = partition_text(report.metadata, group), group.reason
        if partition is None:
            partition = "(by value)" if options.repartition else "(of other specs)"
            partition = "(any)" if group.keeps_files else partition
        if has_choice and not group.keeps_files:
            reason = "{}; {method}: {method_reason}".format(reason, **_method(report, group))
        rows.append(
            (
                str(group.number),
                partition or "(all)",
                f"{group.input_files:,}",
                print_size(group.input_bytes),
                f"{group.expected_files:,}",
                reason,
            )
        )
    print_table(console, columns, rows)


def _print_methods(console: Console, report: Compaction, methods: Mapping[str, Any]) -> None:
    """Print what merges copy and decode, and what rewrites read and write."""
    decoded = [group for group in _done(report) if group.decoded_columns]
    count = sum(len(group.decoded_columns) for group in decoded)
    size = print_size(sum(map(_column_bytes, decoded)))
    but = f", except columns of {print_count(count, 'file')}, {size}" if decoded else ""
    texts = {
        "merge": f"merged without decoding{but}: {{}} read and {{}} written",
        "rewrite": "rewritten: {} read, decoded and written again as {}",
    }
    for method, text in texts.items():
        total = methods[method]
        if total["groups"]:
            sizes = (print_size(total[name]) for name in ("read_bytes", "written_bytes"))
            console.say(f"{print_count(total['groups'], 'group')} {text.format(*sizes)}")


def _print_equality_deletes(
    console: Console, report: Compaction, result: Mapping[str, Any], *, whole: bool
) -> None:
    """Print what becomes of equality deletes, and how much is read for that."""
    files, starts = result["equality_deletes"], beginnings(report.metadata.location)
    if whole:
        columns = (
            TableColumn("group", "right"),
            TableColumn("keys", "right"),
            TableColumn("becomes"),
            TableColumn("equality delete file", cut="middle"),
        )
        rows = [
            (
                "" if file["group"] is None else str(file["group"]),
                f"{file['keys']:,}",
                _BECOMES[file["becomes"]],
                below(file["path"], starts),
            )
            for file in files
        ]
        print_table(console, columns, rows)
        console.print()
    for becomes, text in _BECOMES.items():
        chosen = [file for file in files if file["becomes"] == becomes]
        if chosen:
            keys = print_count(sum(file["keys"] for file in chosen), "key")
            console.say(f"{print_count(len(chosen), 'equality delete file')} of {keys}: {text}")
    groups = [group for group in report.plan.groups if group.conversion is not None]
    if groups:
        tasks = [task for group in groups for task in group.tasks]
        read = print_count(
            len({file.location for task in tasks for file in task.inputs}), "data file"
        )
        size = print_size(sum(group.input_bytes for group in groups))
        console.say(f"to read: the key columns of {read}, with the deletes about {size}")


def _print_files(console: Console, report: Compaction) -> None:
    starts = beginnings(report.metadata.location)
    columns = (
        TableColumn("group", "right"),
        TableColumn("bytes", "right"),
        TableColumn("reason"),
        TableColumn("file", cut="middle"),
    )
    chosen = [(group.number, at) for group in report.plan.groups for at in group.files]
    # All at once: however few rows are taken, pyarrow goes through all of the table.
    taken = take(report.prepared.files.data, [at for _, at in chosen])
    rows = []
    for (number, at), (location, size) in zip(
        chosen, by_row(taken, "location", "file_size_in_bytes"), strict=True
    ):
        reason = CHOSEN.get(FileVerdict(int(report.plan.verdicts[at])), "")
        rows.append((str(number), print_size(size), reason, below(location, starts)))
    if rows:
        console.print()
        print_table(console, columns, rows)
        console.print()


def _summary(report: Compaction, result: Mapping[str, Any]) -> str:
    if not report.plan.has_work:
        return "nothing to do: no file group meets the thresholds"
    new_deletes = _sums(report, keeps_files=True)
    new = print_count(new_deletes.files, "delete file")
    if report.outcome is not None:
        new = f"{new} of {print_size(new_deletes.size_bytes)}"
    rewrites_none = new_deletes.input_files and not result["rewritten_data_files"]
    if report.plan.options.deletes_only or rewrites_none:
        old = f"{result['removed_delete_files']:,} delete files and vectors"
        if report.outcome is None:
            return f"about {new} would replace {old}"
        return f"{new} replaced {old}"
    size = print_size(result["rewritten_bytes"])
    before = f"{print_count(result['rewritten_data_files'], 'file')} of {size}"
    after = f"{result['added_data_files']:,} of {print_size(result['added_bytes'])}"
    deletes = print_count(result["removed_delete_files"], "delete file")
    added = f", {new} added" if new_deletes.input_files else ""
    where = "on Spark" if report.engine.name == "spark" else "by the local engine"
    if report.outcome is None:
        of_rows = result["rewritten_bytes"] >= result["rewritten_data_files"] * _TINY_BYTES
        after = f"{after} or less" if of_rows else f"{result['added_data_files']:,}, smaller in all"
        return f"{before} would become about {after}; {deletes} would be removed{added}"
    return f"{before} became {after} {where}{_ways(report)}; {deletes} removed{added}"


def _ways(report: Compaction) -> str:
    """Return how many files were merged and how many rewritten, if any were merged."""
    merged = decoded = rewritten = 0
    for group in report.plan.groups:
        if group.number not in report.outputs or group.keeps_files:
            continue
        odd = group.input_files
        if _method(report, group)["method"] == "merge":
            rewriting = [task for task in group.tasks if isinstance(task, RewriteTask)]
            odd = sum(len(task.inputs) for task in rewriting if task.method == "rewrite")
            decoded += len(group.decoded_columns)
            merged += group.input_files - odd - len(group.decoded_columns)
        rewritten += odd
    if not merged + decoded:
        return ""
    text = f", {merged:,} merged without decoding"
    text += f", {decoded:,} with some columns decoded" if decoded else ""
    return f"{text}, {rewritten:,} rewritten" if rewritten else text
