"""The life of a random table: how Iceberg's Java and Spark make it, step by step, from a seed.

Columns are changed and deletes by value written through Iceberg's Java API, which PySpark's gateway
reaches; rows are appended, deleted and updated by Spark.
"""

import json
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from tests.peers import random_values as values
from tests.peers.random_values import Json

FORMATS = ("parquet", "orc", "avro")
BRANCH = "audit"
_ROWS_OF_AN_APPEND = (4, 9)
_TIMES = ("year", "month", "day", "hour")
_TRANSFORMS = {
    "int": ("identity", "bucket[4]", "truncate[10]"),
    "long": ("identity", "bucket[4]", "truncate[10]"),
    "date": ("identity", "bucket[3]", *_TIMES[:3]),
    "timestamp": ("identity", "bucket[3]", *_TIMES),
    "timestamptz": ("identity", "bucket[3]", *_TIMES),
    "string": ("identity", "bucket[4]", "truncate[3]"),
    "uuid": ("identity", "bucket[4]"),
    "binary": ("identity", "bucket[4]", "truncate[2]"),
    "boolean": ("identity",),
    "float": ("identity",),
    "double": ("identity",),
    "unknown": (),
}
_DEFAULTS = {
    "string": "a default", "int": "7", "long": "-8", "boolean": "true", "double": "2.5",
    "float": "-0.5", "date": '"1969-12-31"', "timestamp": '"1969-12-31T23:59:59.500001"',
    "timestamptz": '"1969-12-31T23:59:59.500001+00:00"',
    "uuid": '"f79c3e09-677c-4bbd-a479-3f349cb785e7"', "binary": '"00FF"',
}  # fmt: skip


@dataclass
class Life:
    """A table as it is being made; `said` is what has happened to it, to be shown."""

    spark: SparkSession
    folder: Path
    seed: int
    rng: random.Random
    said: list[str] = field(default_factory=list)
    rows: int = 0
    compared: set[int] = field(default_factory=set)
    """Columns of deletes by value; Java reads no such delete once its column is dropped."""
    has_variants: bool = False

    @property
    def name(self) -> str:
        """The table as Spark's SQL names it."""
        return f"peer.{self.folder.parent.name}.{self.folder.name}"

    @property
    def java(self) -> Any:
        """The table as Iceberg's Java has it now."""
        return self._tables().load(str(self.folder))

    @property
    def jvm(self) -> Any:
        return self.spark._jvm.org.apache.iceberg

    @property
    def fields(self) -> list[Json]:
        """The fields of the current schema."""
        found: list[Json] = json.loads(self.jvm.SchemaParser.toJson(self.java.schema()))["fields"]
        return found

    def column(self, id_: int = 1) -> str:
        """The name of a top-level column."""
        return next(field["name"] for field in self.fields if field["id"] == id_)

    def _tables(self) -> Any:
        return self.jvm.hadoop.HadoopTables(self.spark._jsc.hadoopConfiguration())

    def create(self, version: int) -> None:
        """Make the empty table."""
        maker = values.Maker(self.rng, version)
        schema = self.jvm.SchemaParser.fromJson(json.dumps(maker.schema(self.rng.randint(12, 20))))
        properties = self.spark._jvm.java.util.HashMap()
        variants, settings = values.variants(self.seed, version)
        for key, chosen in {**_properties(self.rng, version), **settings}.items():
            properties.put(key, chosen)
        unpartitioned = self.jvm.PartitionSpec.unpartitioned()
        location = f"file://{self.folder}" if version >= 4 else str(self.folder)
        self._tables().create(schema, unpartitioned, properties, location)
        self.said.append(f"version {version}")
        for name, kind in variants:
            self.java.updateSchema().addColumn(None, name, self._java_type(kind), None).commit()
            self.said.append(f"add `{name}` {kind}")
        self.has_variants = bool(variants)

    def append(self, to: str = "", file_format: str | None = None) -> None:
        """Append some rows, in one or two files a partition."""
        count = self.rng.randint(*_ROWS_OF_AN_APPEND)
        schema = self.spark.table(self.name).schema
        rows = [
            (self.rows + at, *values.row(self.rng, str(self.seed), self._others()))
            for at in range(count)
        ]
        self.rows += count
        names = [field["name"] for field in self.fields]
        at_first = names.index(self.column())
        rows = [(*rest[:at_first], id_, *rest[at_first:]) for id_, *rest in rows]
        chosen = file_format or self.rng.choice(FORMATS)
        if self.has_variants and chosen == "orc":
            chosen = "parquet"  # Java writes no variants in ORC
        frame = self.spark.createDataFrame(rows, schema=schema)
        frame = frame.coalesce(self.rng.choice((1, 1, 2)))
        frame.writeTo(self.name + to).option("write-format", chosen).append()
        self.said.append(f"append {count} rows as {chosen}{to}")

    def _others(self) -> list[Json]:
        return [field for field in self.fields if field["id"] != 1]

    def delete(self, to: str = "") -> None:
        """Delete some rows by Spark's SQL: in place of files up to version 1, else beside them."""
        modulus = self.rng.randint(4, 9)
        told = f"`{self.column()}` % {modulus} = {self.rng.randrange(modulus)}"
        self.spark.sql(f"DELETE FROM {self.name}{to} WHERE {told}")
        self.said.append(f"delete {told}{to}")

    def update(self) -> None:
        """Give an optional column of some rows no value."""
        optional = [one["name"] for one in self._others() if not one["required"]]
        if not optional:
            return
        name = self.rng.choice(optional)
        told = f"`{name}` = NULL WHERE `{self.column()}` % 7 = {self.rng.randrange(7)}"
        self.spark.sql(f"UPDATE {self.name} SET {told}")
        self.said.append(f"update {told}")

    def delete_by_value(self) -> None:
        """Commit an equality delete file as a streaming writer would: the values of some rows."""
        jvm, table = self.jvm, self.java
        columns = [
            (path, one)
            for path, one in values.leaves(self.fields)
            if one["type"] not in ("float", "double", "unknown", "variant")
            and len(path) == 1  # Java mixes a nested one up with a column of its name
        ]
        chosen = self.rng.sample(columns, min(self.rng.choice((1, 1, 2)), len(columns)))
        names = self.spark._jvm.java.util.ArrayList()
        for path, _ in chosen:
            names.add(".".join(path))
        schema = table.schema().select(names)
        tasks = list(_each(table.newScan().planFiles()))
        if not tasks:
            return
        task = tasks[self.rng.randrange(len(tasks))]
        ids = self.spark.sparkContext._gateway.new_array(self.spark._jvm.int, len(chosen))
        for at, (_, one) in enumerate(chosen):
            ids[at] = one["id"]
            self.compared.add(one["id"])
        file_format = self.rng.choice(FORMATS)
        if any(one["type"].startswith("fixed") or one["type"] == "uuid" for _, one in chosen):
            # Java takes all values of a fixed for the last one in the others, and passes over
            # deletes by bounds of UUIDs, which ORC has none of.
            file_format = "orc"
        java_format = jvm.FileFormat.fromString(file_format)
        writers = (
            jvm.data.GenericFileWriterFactory.Builder(table)
            .deleteFileFormat(java_format)
            .equalityFieldIds(ids)
            .equalityDeleteRowSchema(schema)
            .build()
        )
        place = f"{table.location()}/data/by-value-{len(self.said)}.{file_format}"
        output = jvm.encryption.EncryptedFiles.plainAsEncryptedOutput(
            table.io().newOutputFile(place)
        )
        writer = writers.newEqualityDeleteWriter(output, task.spec(), task.file().partition())
        found = list(_each(jvm.data.IcebergGenerics.read(table).select(names).build()))
        some = found[self.rng.randrange(3) :: self.rng.randint(4, 7)]
        for record in some:
            writer.write(record)
        writer.close()
        table.newRowDelta().addDeletes(writer.toDeleteFile()).commit()
        told = [".".join(path) for path, _ in chosen]
        self.said.append(f"delete by {told}: {len(some)} values as {file_format}")

    def evolve(self) -> None:
        """Change columns, partitions, order or version in one way that this table allows."""
        ways = [
            self.add, self.add, self.add_inside, self.drop, self.rename, self.rename, self.move,
            self.promote, self.promote, self.relax, self.partition, self.partition,
            self.unpartition, self.order, self.upgrade,
        ]  # fmt: skip
        for way in self.rng.sample(ways, len(ways)):
            try:
                told = way()
            except Exception as error:  # noqa: BLE001 - what Java does not allow is not done
                self.said.append(f"({way.__name__} is not allowed: {str(error).splitlines()[1:2]})")
                continue
            if told:
                self.said.append(told)
                return

    def add(self) -> str:
        """A new column, from version 3 on with a default where its type has one here."""
        taken = {one["name"].lower() for one in self.fields}
        maker = values.Maker(self.rng)
        name, kind = maker.name(taken), maker.type_of()
        update, of = self.java.updateSchema(), self._java_type(kind)
        default = self._default(kind)
        if default is None:
            update.addColumn(None, name, of, None, None).commit()
            return f"add `{name}` {kind}"
        if self.rng.random() < 0.4:
            update.addRequiredColumn(None, name, of, None, default).commit()
        else:
            update.addColumn(None, name, of, None, default).commit()
        return f"add `{name}` {kind} default {default.value()!r}"

    def add_inside(self) -> str:
        """A new field of a struct, at its end."""
        structs = [one for one in self.fields if _is_struct(one["type"])]
        if not structs:
            return ""
        chosen = self.rng.choice(structs)
        taken = {one["name"].lower() for one in chosen["type"]["fields"]}
        maker = values.Maker(self.rng)
        name, kind = maker.name(taken), maker.type_of(depth=1)
        default = self._default(kind)
        of = self._java_type(kind)
        self.java.updateSchema().addColumn(chosen["name"], name, of, None, default).commit()
        return f"add `{name}` {kind} in `{chosen['name']}`"

    def drop(self) -> str:
        """A column less, or a field of a struct."""
        inside = [
            f"{one['name']}.{other['name']}"
            for one in self._others()
            if _is_struct(one["type"]) and len(one["type"]["fields"]) > 1
            for other in one["type"]["fields"]
        ]
        whole = [one["name"] for one in self._others() if one["id"] not in self.compared]
        name = self.rng.choice(whole + inside)
        self.java.updateSchema().deleteColumn(name).commit()
        return f"drop `{name}`"

    def rename(self) -> str:
        """Another name for a column, the first one too."""
        taken = {one["name"].lower() for one in self.fields}
        old, new = self.rng.choice(self.fields)["name"], values.Maker(self.rng).name(taken)
        self.java.updateSchema().renameColumn(old, new).commit()
        return f"rename `{old}` to `{new}`"

    def move(self) -> str:
        """Another order of columns."""
        one, other = self.rng.sample([one["name"] for one in self.fields], 2)
        if self.rng.random() < 0.5:
            self.java.updateSchema().moveFirst(one).commit()
            return f"move `{one}` first"
        self.java.updateSchema().moveAfter(one, other).commit()
        return f"move `{one}` after `{other}`"

    def promote(self) -> str:
        """A wider type, below structs too."""
        wider = [(path, one, _wider(one["type"])) for path, one in values.leaves(self.fields)]
        able = [(".".join(path), kind) for path, _, kind in wider if kind]
        if not able:
            return ""
        name, kind = self.rng.choice(able)
        self.java.updateSchema().updateColumn(name, self._java_type(kind)).commit()
        return f"promote `{name}` to {kind}"

    def relax(self) -> str:
        """A column that may be null from now on."""
        required = [one["name"] for one in self._others() if one["required"]]
        if not required:
            return ""
        name = self.rng.choice(required)
        self.java.updateSchema().makeColumnOptional(name).commit()
        return f"make `{name}` optional"

    def partition(self) -> str:
        """One more field of the partition spec."""
        if len(self.java.spec().fields()) > 1:
            return self.unpartition()
        path, one = self.rng.choice(list(values.leaves(self.fields)))
        kind = one["type"]
        of = ("identity", "bucket[4]") if kind.startswith("fixed") else _TRANSFORMS.get(kind)
        if kind.startswith("decimal"):
            of = ("identity", "bucket[4]", "truncate[100]")
        transforms = list(of or ())
        if not values.fits_a_path(f"{self.seed} {one['id']}", kind):
            transforms.remove("identity")
        if "identity" in transforms and self._is_rest_by_value(path, one["id"]):
            transforms.remove("identity")
        if not transforms or one["id"] == 1:
            transforms = ["bucket[2]"] if one["id"] == 1 else []
        if not transforms:
            return ""
        chosen, name = self.rng.choice(transforms), ".".join(path)
        self._update_spec(f"p {len(self.said)}.{path[-1]}", self._term(chosen, name))
        return f"partition by {chosen} of `{name}`"

    def _is_rest_by_value(self, path: tuple[str, ...], column_id: int) -> bool:
        """Whether all other members of a column's struct are partitioned by.

        In Parquet files of such a spec Java shows a null struct as one of nulls, in others as null.
        """
        around = path[:-1]
        others = {
            one["id"] for other, one in values.leaves(self.fields) if other[: len(around)] == around
        } - {column_id}
        return bool(around) and others <= self.partitioned_by_value

    def _update_spec(self, name: str, term: Any) -> None:
        update = self.java.updateSpec()
        if self.rng.random() < 0.5:
            update.addField(term).commit()
        else:
            update.addField(name, term).commit()

    def _term(self, transform: str, column: str) -> Any:
        expressions = self.jvm.expressions.Expressions
        name, _, width = transform.rstrip("]").partition("[")
        if name == "identity":
            return expressions.ref(column)
        make = getattr(expressions, name)
        return make(column, int(width)) if width else make(column)

    def unpartition(self) -> str:
        """One field of the partition spec less, or by another name."""
        names = [one.name() for one in self.java.spec().fields()]
        if not names:
            return ""
        name = self.rng.choice(names)
        if self.rng.random() < 0.3:
            self.java.updateSpec().renameField(name, f"renamed {len(self.said)}").commit()
            return f"rename partition field `{name}`"
        self.java.updateSpec().removeField(name).commit()
        return f"remove partition field `{name}`"

    def order(self) -> str:
        """A sort order for what is written from now on."""
        path, _ = self.rng.choice(list(values.leaves(self.fields)))
        self.java.replaceSortOrder().asc(".".join(path)).commit()
        return f"order by `{'.'.join(path)}`"

    def upgrade(self) -> str:
        """The next version of the format."""
        version = self.version
        if version >= 3:
            return ""
        self.java.updateProperties().set("format-version", str(version + 1)).commit()
        return f"upgrade to version {version + 1}"

    @property
    def partitioned_by_value(self) -> set[int]:
        """Columns by whose values any spec partitions."""
        return {column for column, transform in self._partitions if transform == "identity"}

    @property
    def truncated(self) -> set[int]:
        """Columns by whose truncated values any spec partitions."""
        return {column for column, transform in self._partitions if "truncate" in transform}

    @property
    def _partitions(self) -> list[tuple[int, str]]:
        """The column and the transform of each field of each spec."""
        specs = [
            json.loads(self.jvm.PartitionSpecParser.toJson(spec))
            for spec in self.java.specs().values()
        ]
        fields = [one for spec in specs for one in spec["fields"]]
        return [(one["source-id"], one["transform"]) for one in fields]

    @property
    def version(self) -> int:
        found: int = self.java.operations().current().formatVersion()
        return found

    def _java_type(self, kind: values.Type) -> Any:
        one = {"id": 999, "name": "x", "required": False, "type": kind}
        text = json.dumps({"type": "struct", "schema-id": 0, "fields": [one]})
        return self.jvm.SchemaParser.fromJson(text).findType("x")

    def _default(self, kind: values.Type) -> Any:
        """A literal for a column that is new, or None."""
        if self.version < 3 or not isinstance(kind, str) or self.rng.random() < 0.3:
            return None
        if any("as orc" in step for step in self.said):
            return None  # Java refuses ORC files without a column that has a default
        if kind not in _DEFAULTS:
            return None
        expressions, text = self.jvm.expressions.Expressions, _DEFAULTS[kind]
        if kind == "string":
            return expressions.lit(text)
        if kind == "binary":
            buffer = self.spark._jvm.java.nio.ByteBuffer.wrap(bytes.fromhex(text.strip('"')))
            return expressions.lit(buffer)
        found = json.loads(text)
        return expressions.lit(found).to(self._java_type(kind))


def live(life: Life) -> None:
    """Make the table and let it live: appends in every format, deletes, two to four evolutions."""
    rng = life.rng
    version = rng.choice((1, 2, 2, 3, 3))
    life.create(4 if version == 3 and life.seed % 2 else version)
    if rng.random() < 0.7:
        life.said.append(life.partition() or "no partitions")
    formats = rng.sample(FORMATS, 3)
    life.append(file_format=formats[0])
    life.append(file_format=formats[1])
    _change(life)
    branched = rng.random() < 0.6
    for number in range(rng.randint(2, 4)):
        life.evolve()
        if number == 0:
            life.append(file_format=formats[2])
        if number == 1 and branched:
            life.spark.sql(f"ALTER TABLE {life.name} CREATE TAG `v 1.0`")
            life.spark.sql(f"ALTER TABLE {life.name} CREATE BRANCH {BRANCH}")
            life.append(f".branch_{BRANCH}")
            life.append(f".branch_{BRANCH}")
            life.delete(f".branch_{BRANCH}")
        _change(life)
    life.append()
    _change(life)


def _change(life: Life) -> None:
    """Delete or update some rows."""
    ways = [life.delete, life.delete, life.update]
    if life.version > 1:
        ways += [life.delete_by_value, life.delete_by_value]
    life.rng.choice(ways)()


def _properties(rng: random.Random, version: int) -> dict[str, str]:
    """Of a new table: deletes beside files, and other choices of a writer."""
    mode = "merge-on-read" if version > 1 else "copy-on-write"
    chosen = {
        "format-version": str(version),
        "write.delete.mode": mode,
        "write.update.mode": mode,
        "write.merge.mode": mode,
        **{f"write.{key}distribution-mode": "none" for key in ("", "delete.", "update.", "merge.")},
        "read.split.adaptive-size.enabled": "false",
        "read.split.open-file-cost": "1",
        "write.spark.fanout.enabled": "true",
        "write.delete.format.default": rng.choice(FORMATS),
        "write.delete.granularity": rng.choice(("file", "partition")),
        "write.parquet.compression-codec": rng.choice(("zstd", "snappy", "gzip", "uncompressed")),
        "write.avro.compression-codec": rng.choice(("gzip", "zstd", "snappy", "uncompressed")),
        "write.orc.compression-codec": rng.choice(("zlib", "zstd", "snappy", "lz4", "none")),
        "write.metadata.metrics.default": rng.choice(
            ("truncate(16)", "truncate(16)", "truncate(2)", "full", "counts", "none")
        ),
    }
    if rng.random() < 0.3:
        chosen["write.parquet.page-version"] = "v2"
    if rng.random() < 0.3:
        chosen["write.metadata.compression-codec"] = "gzip"
    if rng.random() < 0.3:
        chosen["write.manifest.target-size-bytes"] = "20000"
    return chosen


def _is_struct(kind: values.Type) -> bool:
    return isinstance(kind, dict) and kind["type"] == "struct"


def _wider(kind: str) -> str | None:
    """The type that one may become."""
    if kind.startswith("decimal"):
        precision, scale = values.decimal_of(kind)
        return f"decimal({min(38, precision + 9)}, {scale})" if precision < 38 else None
    return {"int": "long", "float": "double"}.get(kind)


def _each(closeable: Any) -> Any:
    """What an iterable of Java has, which is closed then."""
    iterator = closeable.iterator()
    while iterator.hasNext():
        yield iterator.next()
    closeable.close()
