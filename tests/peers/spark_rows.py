"""A program that changes rows of tables of layout sfc-1; run by Spark's Python.

spark_rows.py FOLDER PAGE     prints one JSON line for each step: its name, what it came to, and the
                              ids that the table has to have then

FOLDER has the empty tables `two`, `plain`, `page`, `typed` and `variants`, and `three` of version
3. PAGE is documentation, whose example is run. The session has the settings of spark_program.py.
"""

import json
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from spark_program import HOSTILE

from icectl.errors import IcectlError
from icectl.spark import (
    CompactOptions,
    ProgressUpdate,
    append,
    compact,
    delete_rows,
    delete_where,
    load,
    overwrite_partitions,
)

COLUMNS = [
    "id",
    "concat('c', id % 3) AS category",
    "cast(id * 125 % 1000000 / 100 AS decimal(9, 2)) AS amount",
    "timestamp_ntz '2023-11-14 22:13:20' + make_dt_interval(0, id) AS at",
    "if(id % 7 = 0, null, concat('note ', id)) AS note",
]
"""The rows of built tables."""


TIMES = "spark.sql.timeType.enabled"
TYPED = [
    "id",
    "if(id = 2, null, '00112233-4455-6677-8899-AABBCCDDEEFF') AS u",
    "cast('abcd' AS binary) AS f",
    "if(id = 2, null, time '23:59:59.999999') AS t",
    "timestamp_ntz '2262-04-11 23:47:16.854775' AS ns",
    "timestamp_ltz '1677-09-21 00:12:43.145225 UTC' AS nz",
    "array('f47ac10b-58cc-4372-a567-0e02b2c3d479', null) AS us",
]
"""Two rows of the typed table, whose ids are 1 and 2."""
UNFIT = {
    "text": "'f47ac10b' AS u",
    "octets": "cast('abcde' AS binary) AS f",
    "far": "timestamp_ntz '2300-01-01 00:00:00' AS ns",
    "number": "cast(5 AS bigint) AS t",
}
"""Columns that the typed table does not take."""


def rows(spark: SparkSession, start: int, stop: int, parts: int = 1) -> DataFrame:
    """Rows of a built table, computed by so many tasks."""
    return spark.range(start, stop, 1, parts).selectExpr(*COLUMNS)


def stumbling(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Rows as they are; the first attempt at each task fails behind them."""
    yield from batches
    context = TaskContext.get()
    if context is not None and context.attemptNumber() == 0:
        raise ValueError("the first attempt fails")


def tell(name: str, work: Callable[[], Any], expected: Iterable[int] = ()) -> Any:
    """Print what a step comes to."""
    made = None
    try:
        made = work()
        told = {"made": made if isinstance(made, list | int) else asdict(made)}
    except IcectlError as error:
        told = {"error": type(error).__name__, "message": error.message}
    print(json.dumps({"name": name, **told, "expected": sorted(expected)}), flush=True)
    return made


def ids(frame: DataFrame) -> list[int]:
    """The ids of a frame's rows."""
    return sorted(row["id"] for row in frame.select("id").collect())


def once(phase: str, work: Callable[[], Any]) -> Callable[[ProgressUpdate], None]:
    """Progress at which something is done, the first time that a phase begins."""
    left = [work]

    def told(moment: ProgressUpdate) -> None:
        """Do it."""
        if moment.phase == phase and left:
            left.pop()()

    return told


def partitioned(spark: SparkSession, table: str) -> None:
    """Every operation once, on a table of two partition fields."""
    first = tell("append", lambda: append(rows(spark, 0, 60, 3), table), range(60))
    whole = {one for one in range(60) if one % 3 != 1}
    tell("whole files", lambda: delete_where(table, "category = 'c1'", spark=spark), whole)
    left = whole - {0, 3, 5}
    tell("some rows", lambda: delete_where(table, "id in (0, 1, 3, 5)"), left)
    keys = spark.createDataFrame([(6, "c0"), (8, "c0"), (900, "c0")], "id long, category string")
    left -= {6}
    tell("keys", lambda: delete_rows(table, keys), left)
    packing = CompactOptions(min_input_files="2", engine="local")
    compact(spark, table, packing)
    tell("compacted", lambda: ids(load(spark, table)), left)
    late = once("looking for rows on Spark", lambda: append(rows(spark, 100, 104), table))
    left = (left | {100, 101, 102, 103}) - {9, 102}
    tell("beside", lambda: delete_where(table, "id in (9, 102)", progress=late), left)
    new = rows(spark, 200, 204).where("category = 'c2'")
    tell("overwritten", lambda: overwrite_partitions(new, table))
    tell("then", lambda: ids(load(spark, table)))
    tell("of a snapshot", lambda: ids(load(spark, table, first.snapshot_id)), range(60))
    some = load(spark, table, "main", columns=["note", "id"], where="id < 12 and note is not null")
    print(json.dumps({"name": "some", "rows": sorted(map(list, some.collect()), key=str)}))
    hours = load(spark, table, first.snapshot_id).selectExpr("id", "hour(at)").collect()
    print(json.dumps({"name": "hours", "rows": sorted(map(list, hours))}))
    shown = [[str(one) for one in row] for row in load(spark, table, where="id = 12").collect()]
    print(json.dumps({"name": "shown", "rows": shown}))


def typed(spark: SparkSession, table: str) -> None:
    """Values of types that Spark lacks, there and back, and such as don't fit."""
    spark.conf.set(TIMES, "true")
    frame = spark.range(1, 3).selectExpr(*TYPED)
    tell("typed", lambda: append(frame, table))
    for name, column in UNFIT.items():
        unfit = spark.range(3, 4).selectExpr("id", column)
        tell(name, lambda unfit=unfit: append(unfit, table))
    spark.conf.unset(TIMES)
    tell("no times", lambda: load(spark, table))
    others = load(spark, table, columns=["u", "id"])
    print(json.dumps({"name": "others", "rows": sorted(map(list, others.collect()), key=str)}))
    spark.conf.set(TIMES, "true")
    found = load(spark, table).orderBy("id")
    lowered = frame.selectExpr("id", "lower(u) AS u", "f", "t", "ns", "nz", "us").orderBy("id")
    told = {"same": found.collect() == lowered.collect(), "types": [one for _, one in found.dtypes]}
    print(json.dumps({"name": "typed rows", **told}), flush=True)
    keys = frame.where("id = 1").select("u", "t")
    tell("typed keys", lambda: delete_rows(table, keys))
    spark.conf.unset(TIMES)


def variants(spark: SparkSession, table: str) -> None:
    """Variants, there and back, changed and compacted; of two shapes, and null."""
    text = "if(id % 3 = 0, null, if(id % 2 = 0, concat('{\"a\": ', id, '}'), '[1.5, \"x\"]'))"
    made = ["id", f"parse_json({text}) AS v", f"array(parse_json({text}), parse_json('1')) AS many"]
    for start in (0, 10):
        frame = spark.range(start, start + 10).selectExpr(*made)
        name, expected = f"variants {start}", range(start + 10)
        tell(name, lambda frame=frame: append(frame, table), expected)
    tell("variants deleted", lambda: delete_where(table, "id = 4"))
    tell("variants compacted", lambda: compact(spark, table, CompactOptions(rewrite_all=True)))
    shown = ["id", "to_json(v)", "to_json(many[0])", "schema_of_variant(many[1])"]
    found = load(spark, table).selectExpr(*shown).orderBy("id").collect()
    whole = spark.range(20).selectExpr(*made).where("id <> 4").selectExpr(*shown).orderBy("id")
    print(json.dumps({"name": "variants", "same": found == whole.collect()}), flush=True)
    tell("variants as keys", lambda: delete_rows(table, frame.select("v")))
    tell("variants in a condition", lambda: delete_where(table, "v = 1"))
    tell("variants that are null", lambda: ids(load(spark, table, where="v is null")))


def stumble(spark: SparkSession, table: str) -> None:
    """Append rows in tasks whose first attempts fail; the client of Spark Connect does so too."""
    frame = rows(spark, 0, 40, 2)
    tell("stumbling", lambda: append(frame.mapInArrow(stumbling, frame.schema), table), range(40))


def plain(spark: SparkSession, table: str) -> None:
    """Attempts that fail, writers at once, and what is refused."""
    stumble(spark, table)
    threads = [
        threading.Thread(target=append, args=(rows(spark, start, start + 5), table))
        for start in (100, 200, 300)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    at_once = {*range(40), *range(100, 105), *range(200, 205), *range(300, 305)}
    tell("at once", lambda: ids(load(spark, table)), at_once)
    bad = rows(spark, 0, 4)
    tell("null", lambda: append(bad.selectExpr("nullif(id, 3) AS id"), table), at_once)
    tell("extra", lambda: append(bad.selectExpr("id", "note AS nte"), table), at_once)
    tell("narrow", lambda: append(bad.selectExpr("id", "cast(1 AS double) AS amount"), table))
    tell("missing", lambda: append(bad.select("note"), table), at_once)
    tell("nothing", lambda: append(bad.where("id > 9"), table), at_once)
    tell("syntax", lambda: delete_where(table, "id ="), at_once)


def main(folder: Path, page: Path) -> None:
    """Do all steps."""
    builder = SparkSession.builder.master("local[2,2]").appName("rows")
    for key, value in HOSTILE.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    before = dict(spark.conf.getAll)
    partitioned(spark, str(folder / "two"))
    plain(spark, str(folder / "plain"))
    typed(spark, str(folder / "typed"))
    variants(spark, str(folder / "variants"))
    tell("version 3", lambda: append(rows(spark, 0, 4), str(folder / "three")))
    tell("loaded", lambda: ids(load(spark, str(folder / "three"))))
    text = page.read_text().partition("## Rows of tables of layout sfc-1")[2]
    example = "\n".join(line[4:] for line in text.splitlines() if line.startswith("    "))
    names = {"spark": spark, "table": str(folder / "page"), "batch": rows(spark, 0, 20)}
    exec(example, names)
    # The first line appends 0 to 19; 14 is c2 without a note, 0 to 3 are keys, c1 is overwritten.
    after = {one for one in range(20) if one % 3 == 1 or one not in (0, 1, 2, 3, 14)}
    tell("example", lambda: ids(load(spark, str(folder / "page"))), after)
    print(json.dumps({"name": "left", "same": before == dict(spark.conf.getAll)}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
