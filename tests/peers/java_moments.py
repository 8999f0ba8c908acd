"""Tables of times and nanoseconds, which Spark can't read: Java alone writes and reads them.

    java_moments.py JAR write FOLDER       writes a table of each version, of files of all formats,
                                           below FOLDER; prints {"table", "rows"} of each
    java_moments.py JAR read TABLE...      prints that of tables

Rows are text as Java shows them, with their ids in version 3. Of the session of Spark it needs only
the way to Java. Never imports icectl.
"""

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from tests.peers.spark_peer import session

FORMATS = ("parquet", "orc", "avro")
SECOND = 10**9
TIMES = (0, 1_000, 86_399_999_999_000, 43_200_000_001_000)
"""Nanoseconds of a day, of whole microseconds."""
MOMENTS = (
    0, -1, 1, -SECOND, 1 - SECOND, -SECOND // 2, -(10**18) - 999, 10**18 + 1, 2**63 - 1, -(2**63),
)  # fmt: skip
"""Nanoseconds from the epoch on, to the ends of 64 bits."""


class Java:
    """Iceberg's classes, and values made for them."""

    def __init__(self, spark: SparkSession) -> None:
        self.jvm: Any = spark._jvm
        self.iceberg = self.jvm.org.apache.iceberg
        self.tables = self.iceberg.hadoop.HadoopTables(
            self.jvm.org.apache.hadoop.conf.Configuration()
        )

    def schema(self, version: int) -> Any:
        """A text that tells rows apart, and columns of the types, in lists and structs too."""
        kinds = ["time"] if version < 3 else ["time", "timestamp_ns", "timestamptz_ns"]
        fields: list[dict[str, Any]] = [{"id": 1, "name": "id", "required": True, "type": "string"}]
        for kind in kinds:
            at = len(fields) * 10
            many = {"type": "list", "element-id": at, "element": kind, "element-required": False}
            inside = {"id": at + 1, "name": "x", "required": False, "type": kind}
            one = {"type": "struct", "fields": [inside]}
            for name, of in ((kind, kind), (f"{kind} many", many), (f"{kind}.in", one)):
                fields.append({"id": at + 2, "name": name, "required": False, "type": of})
                at += 1
        text = json.dumps({"type": "struct", "schema-id": 0, "fields": fields})
        return self.iceberg.SchemaParser.fromJson(text)

    def value(self, kind: str, number: int) -> Any:
        """The value of a type that a row has; None in every fifth."""
        if number % 5 == 4:
            return None
        if kind == "time":
            return self.jvm.java.time.LocalTime.ofNanoOfDay(TIMES[number % len(TIMES)])
        nanos = MOMENTS[number % len(MOMENTS)]
        utc = self.jvm.java.time.ZoneOffset.UTC
        moment = self.jvm.java.time.LocalDateTime.ofEpochSecond(
            nanos // SECOND, nanos % SECOND, utc
        )
        return moment if kind == "timestamp_ns" else moment.atOffset(utc)

    def record(self, schema: Any, number: int) -> Any:
        """A row of a table."""
        record = self.iceberg.data.GenericRecord.create(schema)
        record.setField("id", f"row {number}")
        for field in schema.columns():
            name = field.name()
            kind = name.split(" ")[0].split(".")[0]
            if name.endswith(" many"):
                values = self.jvm.java.util.ArrayList()
                for more in range(number % 3):
                    values.add(self.value(kind, number + more))
                record.setField(name, values)
            elif name.endswith(".in") and number % 4:
                inside = self.iceberg.data.GenericRecord.create(field.type().asStructType())
                inside.setField("x", self.value(kind, number))
                record.setField(name, inside)
            elif name == kind and name != "id":
                record.setField(name, self.value(kind, number))
        return record

    def create(self, folder: Path, version: int) -> Any:
        schema = self.schema(version)
        spec = self.iceberg.PartitionSpec.unpartitioned()
        properties = self.jvm.java.util.HashMap()
        properties.put("format-version", str(version))
        return self.tables.create(schema, spec, properties, str(folder))

    def append(self, table: Any, file_format: str, numbers: range) -> None:
        """One more data file."""
        writers = (
            self.iceberg.data.GenericFileWriterFactory.Builder(table)
            .dataFileFormat(self.iceberg.FileFormat.fromString(file_format))
            .build()
        )
        place = f"{table.location()}/data/{numbers[0]}.{file_format}"
        output = self.iceberg.encryption.EncryptedFiles.plainAsEncryptedOutput(
            table.io().newOutputFile(place)
        )
        writer = writers.newDataWriter(output, table.spec(), None)
        for number in numbers:
            writer.write(self.record(table.schema(), number))
        writer.close()
        table.newAppend().appendFile(writer.toDataFile()).commit()

    def rows(self, folder: Path) -> list[str]:
        """What Java reads."""
        table = self.tables.load(str(folder))
        scan = self.iceberg.data.IcebergGenerics.read(table)
        if table.operations().current().formatVersion() > 2:
            scan = scan.project(self.iceberg.MetadataColumns.schemaWithRowLineage(table.schema()))
        return sorted(record.toString() for record in _each(scan.build()))


def _each(closeable: Any) -> Iterator[Any]:
    iterator = closeable.iterator()
    while iterator.hasNext():
        yield iterator.next()
    closeable.close()


def write(java: Java, folder: Path) -> list[Path]:
    """Two files of each format a table; where the tables are."""
    made = [folder / "v2", folder / "v3"]
    for version, place in zip((2, 3), made, strict=True):
        table = java.create(place, version)
        for at, file_format in enumerate(FORMATS * 2):
            java.append(table, file_format, range(at * 20, at * 20 + 20))
    return made


def main(arguments: Sequence[str]) -> None:
    """Write or read, and print rows."""
    jar, verb, *places = arguments
    spark = session(jar, places[0])
    java = Java(spark)
    tables = write(java, Path(places[0])) if verb == "write" else [Path(one) for one in places]
    for table in tables:
        print(json.dumps({"table": table.name, "rows": java.rows(table)}), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
