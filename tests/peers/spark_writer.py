"""Iceberg's Spark deletes and upserts rows all the while, and icectl compacts beside it.

    spark_writer.py JAR CATALOG WAREHOUSE RUNS TABLE ...     run by the Python of Spark

CATALOG is `folder`, or `rest ADDRESS`, or `jdbc DATABASE SCHEMA` as one word: a file of SQLite, and
V0 or V1. A table's name says its format version and how it is compacted: `v3_merge`. For each a
line of JSON is printed: what each run ended with, the tries of its commit, how many deletes it
carried, and the rows with their ids as Spark reads them at the end, beside those that should be
there.
"""

import io
import json
import random
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from pyspark.sql import SparkSession

from icectl.cli import app
from icectl.commit.rewrite_files import FileRewrite
from icectl.commit.transaction import Proposal
from icectl.env import SystemEnv
from icectl.format.metadata import TableMetadata
from tests.peers.spark_peer import session

FILES, ROWS = 8, 20
PAUSE_SECONDS = 1.0  # between changes; longer where a change takes long, as on slow machines
CONFLICTS = ("ValidationException", "CommitFailedException")


class Writer:
    """A thread that deletes two rows, updates two, or merges two changed and two new ones.

    `rows` are the values of those that it has committed, `commits` how often.
    """

    def __init__(self, spark: SparkSession, table: str, version: str) -> None:
        self.spark, self.table = spark, table
        self.commits = self.lost = 0
        self._chance = random.Random(1)
        self._stopped = threading.Event()
        self.failure: Exception | None = None
        spark.sql(
            f"""CREATE TABLE {self.table} (id bigint, value bigint) USING iceberg TBLPROPERTIES (
                'format-version'='{version}', 'commit.retry.num-retries'='10',
                'write.delete.mode'='merge-on-read', 'write.update.mode'='merge-on-read',
                'write.merge.mode'='merge-on-read', 'write.distribution-mode'='none',
                'write.merge.distribution-mode'='none')"""
        )
        # Iceberg's Spark writes columns that can't be null as required ones: those don't merge.
        spark.sql(
            f"INSERT INTO {self.table} SELECT nullif(id, -1), id % 1 "
            f"FROM range(0, {FILES * ROWS}, 1, {FILES})"
        )
        self.rows = dict.fromkeys(range(FILES * ROWS), 0)

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Change rows meanwhile. Raises: what the thread ended with."""
        thread = threading.Thread(target=self._work)
        thread.start()
        try:
            yield
        finally:
            self._stopped.set()
            thread.join()
        if self.failure is not None:
            raise self.failure

    def _work(self) -> None:
        pause = PAUSE_SECONDS
        try:
            while not self._stopped.wait(pause):
                start = time.monotonic()
                self._change()
                pause = max(PAUSE_SECONDS, 2 * (time.monotonic() - start))
        except Exception as error:  # noqa: BLE001 - raised where the thread is waited for
            self.failure = error

    def _change(self) -> None:
        one, other = self._chance.sample(sorted(self.rows), 2)
        new = max(self.rows) + 1
        rows = dict(self.rows)
        match self.commits % 3:
            case 0:
                statement = f"DELETE FROM {self.table} WHERE id IN ({one}, {other})"
                del rows[one], rows[other]
            case 1:
                statement = (
                    f"UPDATE {self.table} SET value = value + 1 WHERE id IN ({one}, {other})"
                )
                rows |= {one: rows[one] + 1, other: rows[other] + 1}
            case _:
                statement = (
                    f"MERGE INTO {self.table} t USING (SELECT id FROM VALUES ({one}), ({other}), "
                    f"({new}), ({new + 1}) AS s(id)) s ON t.id = s.id "
                    "WHEN MATCHED THEN UPDATE SET value = t.value + 70 "
                    "WHEN NOT MATCHED THEN INSERT (id, value) VALUES (s.id, 7)"
                )
                rows |= {one: rows[one] + 70, other: rows[other] + 70, new: 7, new + 1: 7}
        try:
            self.spark.sql(statement)
        except Exception as error:
            if not any(name in str(error) for name in CONFLICTS):
                raise
            self.lost += 1  # to a compaction
            return
        self.rows = rows
        self.commits += 1

    def await_commits(self, count: int) -> None:
        """Wait until so many changes more are committed."""
        wanted = self.commits + count
        while self.commits < wanted:
            if self.failure is not None:
                raise self.failure
            time.sleep(PAUSE_SECONDS / 20)

    def read(self, *columns: str) -> dict[int, tuple[int, ...]]:
        """Columns of the rows as Spark reads them, by `id`."""
        self.spark.sql(f"REFRESH TABLE {self.table}")
        found = self.spark.table(self.table).select("id", *columns).collect()
        rows = {row[0]: tuple(row[1:]) for row in found}
        assert len(rows) == len(found), "a row came back"
        return rows


@dataclass(frozen=True)
class Slow(SystemEnv):
    """The writer commits once more between what a compaction writes and its commit."""

    writer: Writer

    def new_snapshot_id(self) -> int:
        """Wait for a commit first."""
        self.writer.await_commits(1)
        return SystemEnv().new_snapshot_id()


def compacted(writer: Writer, words: Sequence[str]) -> dict[str, Any]:
    """Compact once; the exit code, the tries of the commit, and how many deletes were carried."""
    tries = 0
    propose = FileRewrite.propose

    def counted(self: FileRewrite, metadata: TableMetadata) -> Proposal:
        nonlocal tries
        tries += 1
        return propose(self, metadata)

    printed = io.StringIO()
    with redirect_stdout(printed), patch.object(FileRewrite, "propose", counted):
        code = app.main(["compact", *words], env=Slow(writer))
    result = json.loads(printed.getvalue()).get("result") or {}
    return {"code": code, "tries": tries, "carried": result.get("carried_deletes")}


@dataclass(frozen=True)
class Place:
    """A catalog as Spark and as icectl call it; a folder has no `uri`."""

    name: str
    warehouse: str
    uri: str | None = None

    def words(self, table: str) -> list[str]:
        """A table of the catalog, on icectl's command line."""
        if self.uri is None:
            return [f"{self.warehouse}/db/{table}"]
        return [f"{self.name}.db.{table}", "--catalog-option", f"uri={self.uri}"]


def opened(spark: SparkSession, catalog: str, warehouse: str) -> Place:
    """Configure the catalog of the tables in a session."""
    kind, *words = catalog.split()
    if kind == "folder":
        return Place("peer", warehouse)
    settings = {"": "org.apache.iceberg.spark.SparkCatalog", ".cache-enabled": "false"}
    if kind == "rest":
        (uri,) = words
        settings |= {".type": "rest", ".uri": uri}
    else:
        database, schema = words
        uri = f"sqlite:///{database}"
        settings |= {
            ".type": "jdbc",
            ".uri": f"jdbc:sqlite:{database}",
            ".warehouse": warehouse,
            ".jdbc.schema-version": schema,
        }
        # Drivers are looked for once, where the jars of a session may not be.
        jvm = spark._jvm
        loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
        jvm.java.lang.Class.forName("org.sqlite.JDBC", True, loader)
    for key, value in settings.items():
        spark.conf.set(f"spark.sql.catalog.own{key}", value)
    return Place("own", warehouse, uri)


def main(arguments: Sequence[str]) -> None:
    """Write, and compact beside the writer, one table after the other."""
    jar, catalog, warehouse, runs, *names = arguments
    spark = session(jar, warehouse)
    place = opened(spark, catalog, warehouse)
    spark.sql(f"CREATE NAMESPACE {place.name}.db")
    for name in names:
        version, method = name[1], name[3:]
        writer = Writer(spark, f"{place.name}.db.{name}", version)
        options = ["--engine", "local", "--rewrite-all", "--method", method, "--json", "--yes"]
        ids = ("_row_id",) if version == "3" else ()
        first = writer.read(*ids)
        ended = []
        with writer.at_work():
            for _ in range(int(runs)):
                writer.await_commits(2)
                ended.append(compacted(writer, [*place.words(name), *options]))
        last = writer.read("value", *ids)
        moved = [id_ for id_ in first if id_ in last and first[id_] != last[id_][1:]]
        told = {
            "table": name, "ended": ended, "commits": writer.commits, "lost": writer.lost,
            "rows": {id_: row[0] for id_, row in last.items()}, "expected": writer.rows,
            "other_row_ids": moved, "distinct_row_ids": len({row[1:] for row in last.values()}),
        }  # fmt: skip
        print(json.dumps(told), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
