"""A second run finds nothing to sort: of random tables, after any life of appends and runs."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import example, given
from hypothesis import strategies as st

from icectl.commands.compact.plan import Branch, CompactPlan, plan
from icectl.commands.compact.plan_options import CompactOptions
from icectl.entries.partition_key import encode_key
from icectl.format.file_names import data_file_name
from icectl.format.metadata import TableMetadata
from icectl.format.partition import PartitionField, PartitionSpec
from icectl.format.schema import Schema
from icectl.format.single_value import encode
from icectl.format.snapshot import Snapshot
from icectl.format.sort import SortField, SortOrder
from icectl.format.transforms import parse_transform
from icectl.format.types import NestedField, PrimitiveType
from icectl.table.live_files import files_of_snapshot
from icectl.table.output_sizes import Sizes
from tests.builders.entry_rows import data, entries, vector
from tests.builders.examples import examples

INT, LONG, TEXT = (PrimitiveType(name) for name in ("int", "long", "string"))
IDENTITY = parse_transform("identity")
SPECS = (PartitionSpec(0, ()), PartitionSpec(1, (PartitionField((3,), 1000, "c", IDENTITY),)))
PARTITIONS, ROW_BYTES = 3, 100_000
SIZES = Sizes(100 * ROW_BYTES, 75 * ROW_BYTES, 180 * ROW_BYTES)
Keys = npt.NDArray[np.int64]


@dataclass(frozen=True)
class File:
    """The keys of a file, all of a partition if it is of the current spec."""

    name: str
    number: int
    keys: Keys
    partition: int | None
    deleted: int = 0
    has_bounds: bool = True

    def rows(self, type_: PrimitiveType) -> list[dict[str, Any]]:
        """Its entry, and that of its vector."""
        key = b"" if self.partition is None else encode_key([INT], [self.partition])
        low, high = int(self.keys.min()), int(self.keys.max())
        ends = [f"{low:06}"[:3], f"{high:06}"[:3] + "~"] if type_ == TEXT else [low, high]
        bounds = {} if not self.has_bounds else {
            name: [(1, encode(type_, end))]
            for name, end in zip(("lower_bounds", "upper_bounds"), ends, strict=True)
        }  # fmt: skip
        place = {"partition_key": key, "spec_id": 0 if self.partition is None else 1}
        size = len(self.keys) * ROW_BYTES
        counts = {"record_count": len(self.keys), "file_size_in_bytes": size}
        of_file = {"sequence_number": self.number, **place}
        deletes = vector(f"{self.name}-d", self.name, record_count=self.deleted, **of_file)
        file = data(self.name, **counts, **bounds, **of_file)
        return [file, deletes] if self.deleted else [file]


@dataclass
class Table:
    """A table, whose runs put rows where a run would."""

    random: np.random.Generator
    type: PrimitiveType
    options: CompactOptions
    number: int = 0
    files: list[File] = field(default_factory=list)

    def plan(self, **options: Any) -> CompactPlan:
        """What a run would do now."""
        columns = [NestedField(1, "a", self.type, False), NestedField(3, "c", INT, False)]
        spec_id = self.options.output_spec_id
        schema = Schema(0, tuple(columns))
        metadata = TableMetadata(
            2, None, "/t", self.number, 0, 3, (schema,), 0, SPECS, spec_id, 1000, (), 0
        )
        rows = [row for file in self.files for row in file.rows(self.type)]
        live = files_of_snapshot(metadata, (), entries(*rows))
        head = Branch("main", Snapshot(5, 0, sequence_number=self.number))
        return plan(metadata, head, live, replace(self.options, **options))

    def run(self, lost_ratio: float = 0.0, **options: Any) -> bool:
        """Carry a plan out but for groups that are lost; whether there was one."""
        planned = self.plan(**options)
        uuid = f"{self.number:08x}-0000-0000-0000-000000000000"
        made, gone = [], set[int]()
        for group in planned.groups:
            if self.random.random() < lost_ratio:
                continue
            files = [self.files[row] for row in group.files]
            gone.update(group.files)
            keys = np.sort(np.concatenate([file.keys[file.deleted :] for file in files]))
            (task,) = group.tasks
            count, is_moved = task.roll_bytes // ROW_BYTES, group.partition_key is None
            for number in range(PARTITIONS) if is_moved else [files[0].partition]:
                own = keys[keys % PARTITIONS == number] if is_moved else keys
                for at in range(0, len(own), count):
                    mark = planned.marks[group.number]
                    name = f"{number}/{data_file_name(group.number, 0, uuid, at, mark)}"
                    made.append(File(name, self.number, own[at : at + count], number))
        if made or gone:
            self.files = [file for at, file in enumerate(self.files) if at not in gone] + made
            self.number += 1
        return bool(planned.groups)

    def append(self) -> None:
        """Add files: over all keys, in a range, or side by side."""
        self.number += 1
        low, width = int(self.random.integers(900_000)), int(10 ** self.random.integers(1, 6))
        is_old = self.options.output_spec_id == 0 or self.random.random() < 0.1
        for at in range(int(self.random.integers(1, 9))):
            keys = low + self.random.integers(0, width, int(self.random.integers(1, 190)))
            partition = None if is_old else int(self.random.integers(PARTITIONS))
            if partition is not None:
                keys = keys // PARTITIONS * PARTITIONS + partition
            has_bounds = self.random.random() < 0.97
            name = f"new-{self.number}-{at}"
            self.files.append(File(name, self.number, keys, partition, has_bounds=has_bounds))
            low = low + width if self.random.random() < 0.5 else low

    def lose(self) -> None:
        """Remove a file, or some of its rows, as another writer does."""
        if self.files:
            at = int(self.random.integers(len(self.files)))
            file, self.number = self.files.pop(at), self.number + 1
            deleted = int(self.random.integers(len(file.keys) + 1))
            if deleted >= file.deleted and self.random.random() < 0.5:
                self.files.append(replace(file, deleted=deleted))

    def live(self, steps: int) -> None:
        """Some random steps."""
        for _ in range(steps):
            limit = int(self.random.integers(50, 2_000)) * ROW_BYTES
            step = self.random.choice(["append", "run", "lost", "limited", "few", "lose"])
            match step:
                case "append":
                    self.append()
                case "run" | "lost":
                    self.run(0.4 if step == "lost" else 0.0)
                case "limited":
                    self.run(max_bytes=limit, max_group_bytes=limit)
                case "few":
                    self.run(max_groups=1)
                case "lose":
                    self.lose()


def table_of(seed: int) -> Table:
    """A table without files."""
    random = np.random.default_rng(seed)
    order = SortOrder(1, (SortField((1,), IDENTITY, "asc", "nulls-first"),))
    options = CompactOptions(
        SIZES,
        int(random.integers(2)),
        order,
        min_input_files=int(random.integers(2, 7)),
        max_group_bytes=int(random.choice([300, 10_000])) * ROW_BYTES,
        sort_ratio=int(random.choice([4, 8, 30])),
    )
    return Table(random, random.choice(np.array([LONG, TEXT])), options)


@examples(20, 300)
@example(58)  # shares that a run left, as estimated when its new files were there
@given(st.integers(0, 2**32))
def test_a_second_run_finds_nothing_to_sort(seed):
    table = table_of(seed)
    for _ in range(3):
        table.append()
        table.live(int(table.random.integers(6)))
        table.run()
        assert [group.reason for group in table.plan().groups] == []
