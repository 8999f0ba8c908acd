"""How groups to merge are divided where not all of their files store every column alike: pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice

from icectl.commands.compact.groups_plan import CompactGroup
from icectl.commands.compact.plan import CompactPlan
from icectl.entries.file_verdicts import FileVerdict
from icectl.files.parquet.alike import AlikeParts, DecodedColumns
from icectl.storage.location import name
from icectl.table.live_files import LiveFiles
from icectl.table.mergeable import MethodChoice
from icectl.table.rewrite_tasks import Bin, RewriteTask, TaskMaker
from icectl.units import print_count, print_size

_SHOWN_COLUMNS = 3


def tasks_to_merge(plan: CompactPlan) -> Iterator[RewriteTask]:
    """Yield the tasks whose files are to be merged. Order: that of the plan."""
    for group in plan.groups:
        for task in group.tasks:
            if isinstance(task, RewriteTask) and task.method != "rewrite":
                yield task


def by_shape(plan: CompactPlan, files: LiveFiles, parts: Mapping[str, AlikeParts]) -> CompactPlan:
    """Return a plan that merges files by parts, and rewrites odd ones or some of their columns.

    A single odd file stays, since its rewrite would only copy it. With `merge` all odd files do.
    `parts` has the parts of the files of each task to merge, by its id.
    """
    verdicts, odd = plan.verdicts.copy(), dict(plan.odd)
    groups = []
    for group in plan.groups:
        dividing = _Dividing(plan, files, group)
        divided = dividing.divided(parts)
        verdicts[list(dividing.left)] = FileVerdict.NOT_MERGEABLE
        odd |= dict(dividing.left.values())
        groups += [divided] if divided is not None else []
    return replace(plan, groups=tuple(groups), verdicts=verdicts, odd=odd)


class _Dividing:
    """The division of one group; `left` are rows that stay, with location and reason."""

    def __init__(self, plan: CompactPlan, files: LiveFiles, group: CompactGroup) -> None:
        self.plan, self.files, self.group = plan, files, group
        self.left: dict[int, tuple[str, str]] = {}
        self._decoded_count = 0
        self._columns: dict[str, DecodedColumns] = {}
        self._why = ""

    def divided(self, parts: Mapping[str, AlikeParts]) -> CompactGroup | None:
        """Return the group in parts; None where no file of it can be merged."""
        group = self.group
        if all(_is_whole(parts.get(task.task_id), len(task.inputs)) for task in group.tasks):
            return group
        rows = iter(group.files)
        tasks: list[RewriteTask] = []
        for task in group.tasks:
            assert isinstance(task, RewriteTask)
            of_task = [next(rows) for _ in task.inputs]
            found = parts.get(task.task_id)
            if found is None or _is_whole(found, len(of_task)):
                tasks.append(task)
            else:
                tasks += self._of_parts(task, of_task, found)
        if not tasks:
            return None
        kept = [row for row in group.files if row not in self.left]
        inputs = [file for task in tasks for file in task.inputs]
        return replace(
            group,
            files=tuple(kept),
            tasks=tuple(
                replace(task, task_id=f"{group.number}-{at}") for at, task in enumerate(tasks)
            ),
            input_files=len(inputs),
            input_bytes=sum(file.size_bytes for file in inputs),
            input_rows=sum(file.record_count for file in inputs),
            expected_files=len(tasks),
            expected_bytes=sum(task.expected_bytes for task in tasks),
            choice=self._choice(len(inputs)),
            decoded_bytes=sum(
                file.size_bytes
                for task in tasks
                if task.method == "rewrite"
                for file in task.inputs
            )
            + sum(columns.size_bytes for columns in self._columns.values()),
            decoded_columns=self._columns,
        )

    def _choice(self, count: int) -> MethodChoice:
        choice, decoded = self.group.choice, self._decoded_count
        if decoded == count:
            return MethodChoice("rewrite", self._why)
        whys = [choice.why]
        if decoded:
            whys.append(f"{decoded:,} of {print_count(count, 'file')} decoded ({self._why})")
        if self._columns:
            whys.append(_columns_text(self._columns, count))
        return replace(choice, why="; ".join(whys))

    def _of_parts(
        self, task: RewriteTask, rows: Sequence[int], found: AlikeParts
    ) -> Iterator[RewriteTask]:
        """Yield tasks for the parts of a task: those that merge, then one that rewrites."""
        merging, odd = found.parts, list(found.odd)
        columns = {task.inputs[place].location: of for place, of in found.decoded.items()}
        if odd:
            place = odd[0]
            self._why = self._why or f"`{name(task.inputs[place].location)}`: {found.odd[place]}"
        if task.method == "merge" or (len(odd) == 1 and merging):
            self.left |= {
                rows[place]: (task.inputs[place].location, found.odd[place]) for place in odd
            }
            odd = []
        elif 2 * (len(merging) + bool(odd)) > len(rows):  # hardly fewer files than before
            self._why = self._why or "few of its files store their columns alike"
            merging, odd, columns = (), list(range(len(rows))), {}
        self._columns |= columns
        self._decoded_count += len(odd)
        maker = TaskMaker(self.files.data, self.files.deletes, self.files.index, rows)
        bins = [(part, task.method) for part in merging]
        if odd:
            bins.append((tuple(odd), "rewrite"))
        stored = sum(file.size_bytes for file in task.inputs)
        for places, method in bins:
            size = sum(task.inputs[place].size_bytes for place in places)
            expected = task.expected_bytes * size // max(stored, 1)
            blank = replace(
                task,
                method=method,
                roll_bytes=self.plan.options.sizes.roll_of(expected),
            )
            chosen = tuple(rows[place] for place in places)
            yield maker.rewrite(Bin(chosen, None, expected), blank)


def _is_whole(found: AlikeParts | None, count: int) -> bool:
    """Whether all files of a task are alike, or nothing is known of them."""
    if found is None:
        return True
    return len(found.parts) == 1 and len(found.parts[0]) == count and not found.decoded


def _columns_text(columns: Mapping[str, DecodedColumns], count: int) -> str:
    """Return what is decoded of files that are merged, and why of the first."""
    location, first = next(iter(columns.items()))
    names = dict.fromkeys(column for of in columns.values() for column in of.names)
    shown = ", ".join(f"`{column}`" for column in islice(names, _SHOWN_COLUMNS))
    more = f" and {len(names) - _SHOWN_COLUMNS:,} more" if len(names) > _SHOWN_COLUMNS else ""
    size = print_size(sum(of.size_bytes for of in columns.values()))
    of_files = f"{len(columns):,} of {print_count(count, 'file')}"
    return f"{shown}{more} decoded in {of_files}, {size} (`{name(location)}`: {first.why})"
