"""A Spark session that stays up and serves random tables; never imports icectl.

    random_peer.py JAR WAREHOUSE    reads one command a line, JSON, and answers each with a line

{"do": "make", "table", "seed"}     makes the table; what happened to it, its columns, specs, branch
{"do": "keep", "table", "filters"}  remembers its rows, of every ref and snapshot, and how many rows
                                    so many filters find that are not pushed down
{"do": "compare", "table", "branch", "every"}
                                    what differs from what is remembered: rows (of all snapshots
                                    or, without `every`, of refs and new snapshots), filters
"""

import json
import os
import random
import shutil
import sys
import traceback
from collections import Counter
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession, functions
from pyspark.sql.types import VariantVal

from tests.peers import random_values as values
from tests.peers.random_life import BRANCH, Life, live
from tests.peers.spark_peer import session

LINEAGE = ("_row_id", "_last_updated_sequence_number")
_SHOWN, _LONGEST = 4, 600
_SMALLEST = {"int": -(2**31), "long": -(2**63)}
_WIDEST = 10
"""The width of the life's truncations."""


@dataclass
class Kept:
    """What is remembered of a table."""

    rows: dict[str, list[tuple[str, Any, Any]]]
    unreadable: dict[str, str]
    filters: list[tuple[str, Column]] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    wrong_before: set[str] = field(default_factory=set)


@dataclass
class Peer:
    """The session and what it remembers."""

    spark: SparkSession
    warehouse: Path
    kept: dict[str, Kept] = field(default_factory=dict)

    def make(self, table: str, seed: int) -> dict[str, Any]:
        """Make a table from a seed; its steps, and an error where Spark or Java end one."""
        life = Life(self.spark, self.warehouse / "db" / table, seed, random.Random(seed))
        shutil.rmtree(life.folder, ignore_errors=True)
        try:
            live(life)
        except Exception as error:  # noqa: BLE001 - a life that Spark ends is one to look at
            return {"steps": life.said, "error": f"{error}"[:2000]}
        return {
            "steps": life.said,
            "version": life.version,
            "columns": [
                list(path)
                for path, one in values.leaves(life.fields)
                if one["type"] not in ("unknown", "variant")  # nothing sorts by them
            ],
            "specs": [int(key) for key in life.java.specs()],
            "branch": BRANCH if life.java.refs().containsKey(BRANCH) else None,
        }

    def keep(self, table: str, filters: int) -> dict[str, Any]:
        """Remember rows, and choose filters from the values of rows."""
        rows, unreadable = self._rows(table, [*self._refs(table), *self._snapshots(table)])
        kept = Kept(rows, unreadable)
        frame = self._frame(table, "main")
        kept.filters = self._filters(table, frame, filters)
        kept.counts = self._counted(frame, kept.filters)
        found = self._found(frame, kept.filters)
        kept.wrong_before = {
            told
            for (told, _), one, other in zip(kept.filters, kept.counts, found, strict=True)
            if one != other
        }
        self.kept[table] = kept
        return {
            "rows": {key: len(found) for key, found in rows.items()},
            "unreadable": unreadable,
            "filters": len(kept.filters),
            "wrong_filters": sorted(kept.wrong_before),
        }

    def compare(self, table: str, branch: str, every: bool) -> dict[str, Any]:
        """Read what is remembered again, and what has come since: the rows of `branch`."""
        kept = self.kept[table]
        refs = self._refs(table)
        new = [
            one
            for one, id_ in self._snapshots(table).items()
            if every or (one not in kept.rows and id_ not in refs.values())
        ]
        wanted = [*refs, *new]
        rows, unreadable = self._rows(table, wanted)
        gone = [one for one in kept.rows if not one.isdigit() and one not in rows]
        differences = [f"{one} is gone: {unreadable.get(one)}" for one in gone]
        differences += [
            f"{one} can't be read any more: {why}"
            for one, why in unreadable.items()
            if one not in kept.unreadable
        ]
        for selector, found in rows.items():
            # Where Spark could not read the branch, nobody knows what new snapshots of it have.
            expected = kept.rows.get(selector, kept.rows.get(branch, found))
            differences += [f"{selector}: {told}" for told in _differences(expected, found)]
        found_rows = self._found(self._frame(table, "main"), kept.filters)
        filters = [
            f"{told}: {found} of {count} rows are found"
            + (" (before too it was not right)" if told in kept.wrong_before else "")
            for (told, _), count, found in zip(kept.filters, kept.counts, found_rows, strict=True)
            if found != count
        ]
        return {"read": len(rows), "rows": differences, "filters": filters}

    def _life(self, table: str) -> Life:
        return Life(self.spark, self.warehouse / "db" / table, 0, random.Random(0))

    def _refs(self, table: str) -> dict[str, int]:
        """The snapshot of each ref: Spark reads it in the columns of today."""
        refs = self._life(table).java.refs()
        return {str(one.getKey()): one.getValue().snapshotId() for one in refs.entrySet()}

    def _snapshots(self, table: str) -> dict[str, int]:
        """Ids of snapshots by their text: Spark reads each in the columns of its time."""
        ids = [one.snapshotId() for one in self._life(table).java.snapshots()]
        return {str(id_): id_ for id_ in ids}

    def _frame(self, table: str, selector: str) -> DataFrame:
        return self.spark.read.option("versionAsOf", selector).table(f"peer.db.{table}")

    def _rows(
        self, table: str, selectors: list[str]
    ) -> tuple[dict[str, list[tuple[str, Any, Any]]], dict[str, str]]:
        """Rows as text, each with what tells it from others; and what Spark can't read, and why."""
        found: dict[str, list[tuple[str, Any, Any]]] = {}
        unreadable: dict[str, str] = {}
        version = self._life(table).version
        for selector in selectors:
            try:
                found[selector] = self._read(table, selector, version)
            except Exception as error:  # noqa: BLE001 - what Spark can't read is told
                unreadable[selector] = str(error).splitlines()[0][:500]
        return found, unreadable

    def _read(self, table: str, selector: str, version: int) -> list[tuple[str, Any, Any]]:
        frame = self._frame(table, selector)
        if version < 3:
            return [(_told(row), None, None) for row in frame.collect()]
        rows = frame.select("*", *LINEAGE).collect()
        return [(_told(row[:-2]), row[-2], row[-1]) for row in rows]

    def _filters(self, table: str, frame: DataFrame, most: int) -> list[tuple[str, Column]]:
        """Conditions on every column that has one value a row, by values that rows have."""
        life = self._life(table)
        rng = random.Random(table)
        rows = frame.collect()
        chosen: list[tuple[str, Column]] = []
        by_value, truncated = life.partitioned_by_value, life.truncated
        for path, one in values.leaves(life.fields):
            if one["type"] == "unknown":
                continue
            # Iceberg takes a required field for one that is never null, in structs that are too.
            may_be_null = len(path) == 1 or not one["required"]
            # It orders UUIDs, and takes NaN and both zeros, otherwise than Spark; where these are
            # partition values no way of writing helps (docs/filters.md).
            kind_of_partitions = one["type"] if one["id"] in by_value else None
            has_ranges = kind_of_partitions not in ("uuid", "float", "double")
            has_equals = kind_of_partitions not in ("float", "double")
            name = ".".join(f"`{part}`" for part in path)
            kind = frame.select(name).schema[0].dataType
            present = [value for row in rows if (value := _inside(row, path)) is not None]
            if may_be_null and (rng.random() < 0.5 or not present):
                chosen.append((f"{name} IS NULL", functions.col(name).isNull()))
            if not present or one["type"] == "variant":
                continue
            # Truncations of the smallest numbers wrap around in Java.
            if one["id"] in truncated and one["type"] in _SMALLEST:
                has_ranges = min(present) > _SMALLEST[one["type"]] + _WIDEST
            present.sort(key=repr)  # Spark reads files in any order
            picked = [rng.choice(present) for _ in range(3)]
            literals = [_literal(value).cast(kind) for value in picked]
            column = functions.col(name)
            others = {"!=": column != literals[1]}
            if has_equals:
                chosen.append((f"{name} = {picked[0]!r:.60}", column == literals[0]))
                others["IN"] = column.isin(literals[1:])
            if has_ranges:
                others |= {
                    "<": column < literals[1],
                    ">=": column >= literals[1],
                    "<=": column <= literals[1],
                    ">": column > literals[1],
                }
            if may_be_null:
                others["IS NOT NULL"] = column.isNotNull()
            if one["type"] == "string":
                others["STARTS WITH"] = column.startswith(picked[1][:17])
            sign = rng.choice(sorted(others))
            chosen.append((f"{name} {sign} {picked[1:]!r:.120}", others[sign]))
        return sorted(rng.sample(chosen, min(most, len(chosen))), key=lambda one: one[0])

    def _counted(self, frame: DataFrame, filters: list[tuple[str, Column]]) -> list[int]:
        """How many rows are as filters say, where these judge after a scan of all."""
        sums = [
            functions.sum(one.cast("int")).alias(f"f{at}") for at, (_, one) in enumerate(filters)
        ]
        return [count or 0 for count in frame.agg(*sums).collect()[0]]

    def _found(self, frame: DataFrame, filters: list[tuple[str, Column]]) -> list[int]:
        """How many rows are found, where filters may skip files, row groups and pages."""
        scans = [
            frame.where(one).select(functions.lit(at).alias("k"))
            for at, (_, one) in enumerate(filters)
        ]
        all_scans = scans[0]
        for scan in scans[1:]:
            all_scans = all_scans.unionAll(scan)
        found = Counter(row[0] for row in all_scans.collect())
        return [found[at] for at in range(len(filters))]


def _literal(value: Any) -> Column:
    """A constant, as text where PySpark does not take every one: days, moments and decimals."""
    if isinstance(value, Decimal):
        return functions.lit(f"{value:f}")
    return functions.lit(value.isoformat() if isinstance(value, date) else value)


def _inside(row: Any, path: tuple[str, ...]) -> Any:
    for part in path:
        if row is None:
            return None
        row = row[part]
    return row


def _told(value: Any) -> str:
    """A value as text that tells it from every other: NaN and both zeros, maps in any order."""
    if isinstance(value, VariantVal):
        return f"variant {_told(value.toPython())}"
    if isinstance(value, dict):
        return "{" + ", ".join(sorted(f"{_told(k)}: {_told(v)}" for k, v in value.items())) + "}"
    if isinstance(value, tuple):
        return "(" + ", ".join(map(_told, value)) + ")"
    if isinstance(value, list):
        return "[" + ", ".join(map(_told, value)) + "]"
    if isinstance(value, (bytes, bytearray)):
        return bytes(value).hex()
    return repr(value)


def _differences(
    expected: list[tuple[str, Any, Any]], found: list[tuple[str, Any, Any]]
) -> list[str]:
    """How rows differ; rows that had no id may have got one."""
    if any(row_id is None for _, row_id, _ in expected):
        expected_rows, found_rows = (Counter(row[0] for row in rows) for rows in (expected, found))
        lineage = Counter(row for row in expected if row[1] is not None) - Counter(found)
        told = [f"lost {row}" for row in lineage]
        lost, new = expected_rows - found_rows, found_rows - expected_rows
    else:
        lost, new = Counter(expected) - Counter(found), Counter(found) - Counter(expected)
        told = []
    told += [f"lost {row}" for row in lost] + [f"new {row}" for row in new]
    return [one[:_LONGEST] for one in told[:_SHOWN]]


def main(jar: str, warehouse: str) -> None:
    """Serve until the input ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what Java prints is no answer
    peer = Peer(session(jar, warehouse), Path(warehouse))
    for line in sys.stdin:
        command = json.loads(line)
        try:
            answer = getattr(peer, command.pop("do"))(**command)
        except Exception:  # noqa: BLE001 - the session goes on with other tables
            answer = {"failed": traceback.format_exc()[-3000:]}
        print(json.dumps(answer), file=answers, flush=True)
    peer.spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
