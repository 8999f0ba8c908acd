"""Reads mutated files by every codec in a process of bounded memory: `fuzz_codecs.py SEED SECONDS`.

Prints what came out that is no IcectlError: codec, seed of the mutation, error. With 0 seconds each
codec gets ROUNDS mutations.
"""

import gzip
import io
import json
import random
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import redirect_stderr, redirect_stdout, suppress
from decimal import Decimal
from pathlib import Path

import cramjam
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import orc

from icectl.catalog.files import FileSystemCatalog
from icectl.catalog.hive import thrift
from icectl.cli import app
from icectl.cli.plans import open_saved_plan, sealed_plan
from icectl.commands.maintain.policy import read_policy
from icectl.commit import deletion, journals, output_journal
from icectl.entries.files import FileKind, files
from icectl.entries.rows import ALL_COLUMNS
from icectl.env import SystemEnv
from icectl.errors import IcectlError
from icectl.files.avro.data_file import open_avro
from icectl.files.deletion_vectors import dv_blob, read_bitmap, read_dv, write_bitmap, write_dv
from icectl.files.manifest.manifest import read_manifest
from icectl.files.manifest.manifest_list import ManifestListReader, read_manifest_list
from icectl.files.metadata_file import find_table_uuid, read_metadata, read_metadata_to_show
from icectl.files.orc import read_tail
from icectl.files.parquet.glance import StoredColumn, glance_at
from icectl.files.parquet.value_filters import Sought
from icectl.files.puffin import MAGIC, NewBlob, read_blob, read_puffin, write_puffin
from icectl.progress import SilentProgress
from icectl.sfc1.manifest_file import read_tree
from icectl.storage.local.store import LocalStore
from icectl.storage.many_files import FilesByKind
from icectl.storage.store import FileStatus
from tests.builders.rows import current_metadata
from tests.builders.rows import read_metadata as members_of
from tests.builders.table_builder import filled_table
from tests.builders.twins import twins
from tests.stores.fixed_env import FixedEnv

ROUNDS = 150
MEMORY_BYTES = 4 << 30
SECONDS_OF_ONE = 10
UUID = "11111111-2222-4333-8444-555555555555"
INTERESTING = (0, 1, 0x7F, 0x80, 0xFF)

Codec = Callable[[bytes], object]


def seeds(folder: Path) -> Mapping[str, tuple[Codec, bytes]]:
    """A valid file of each kind, and what reads it."""
    table = filled_table(folder / "t", range(12), files=3, format_version=3, partitioning="two")
    table.delete_rows([1, 2])
    metadata = current_metadata(folder / "t")
    lists = Path(members_of(metadata)["snapshots"][-1]["manifest-list"]).read_bytes()
    manifest = min((folder / "t" / "metadata").glob("*-m0.avro")).read_bytes()
    (folder / "twins").mkdir()
    tree = twins(folder / "twins", "identity")[1]
    tree.append(range(5))
    parquet = next(path for path in tree.directory.rglob("*.parquet") if "metadata" in str(path))
    vectors = [dv_blob([1, 5, 70_000], "/t/a"), NewBlob("x", (1,), 1, 1, b"abc" * 99, "zstd")]
    puffin = write_puffin(vectors, {"created-by": "x"})
    start = puffin.rindex(MAGIC, 0, -4) + 4
    footer = bytes(cramjam.lz4.compress(puffin[start:-12]))
    packed = puffin[:start] + footer + len(footer).to_bytes(4, "little") + b"\1\0\0\0" + MAGIC
    plain = metadata.read_bytes()
    return {
        "metadata": (lambda content: (read_metadata(content), find_table_uuid(content)), plain),
        "metadata shown": (lambda content: read_metadata_to_show(content, "/t"), plain),
        "metadata in gzip": (read_metadata, gzip.compress(plain)),
        "manifest list": (read_manifest_list, lists),
        "manifest lists": (lambda content: ManifestListReader().read(content), lists),
        "manifest": (_manifest, manifest),
        "avro data": (lambda content: _rows(open_avro(io.BytesIO(content), ())), manifest),
        "leaf": (read_tree, parquet.read_bytes()),
        "puffin": (_puffin, puffin),
        "puffin in lz4": (_puffin, packed),
        "vector": (lambda content: read_dv(content, 1000), write_dv(np.arange(0, 900, 3))),
        "bitmap": (lambda content: read_bitmap(content, 1000), write_bitmap(np.arange(700))),
        "orc tail": (read_tail, _orc_tail()),
        "orc tail of a writer": (read_tail, _orc_tail_of_a_writer()),
        "filters at a glance": (_glanced, _with_filter()),
        "plan": (_plan, _planned(folder / "plan.json", str(folder / "t"))),
        "journal of outputs": (_outputs, _output_journal(folder / "t")),
        "journal of a deletion": (_deletion, _deletion_journal(folder / "t")),
        "policy": (_policy, POLICY),
        "answer of Hive": (_hive, _hive_answer()),
    }


def _manifest(content: bytes) -> object:
    return read_manifest(content, columns=ALL_COLUMNS, manifest=0, spec=None)


def _rows(opened: object) -> int:
    return sum(one.batch.num_rows for one in opened.batches(None))  # type: ignore[attr-defined]


def _puffin(content: bytes) -> object:
    return [read_blob(content[one.span], one) for one in read_puffin(content).blobs]


def _glanced(content: bytes) -> object:
    """Ask what a file may have in its only column."""
    glance = glance_at(io.BytesIO(content))
    column = StoredColumn(0, 1, pa.int64(), "INT64", 0)
    sought, asked = Sought(pa.array(range(200))), np.ones(200, np.bool_)
    groups = range(min(glance.group_count, 9)) if glance else ()
    return [glance.those_of(group, column, sought, asked) for group in groups if glance]


def _with_filter() -> bytes:
    """A Parquet file with a Bloom filter."""
    sink = io.BytesIO()
    rows = pa.table({"x": pa.array(range(100))})
    options = {"x": {"ndv": 100, "fpp": 1e-6}}
    pq.write_table(rows, sink, use_dictionary=False, bloom_filter_options=options)
    return sink.getvalue()


def _plan(content: bytes) -> object:
    """Read a plan as it is, and what JSON it is with the hash of that."""
    text = content.decode("utf-8", "replace")
    with suppress(ValueError, RecursionError):
        members = json.loads(text)
        if isinstance(members, dict):
            members.pop("hash", None)
            text = "".join(sealed_plan(members))
    return open_saved_plan(text, "plan.json")


def _planned(place: Path, table: str) -> bytes:
    """A plan as the command writes it."""
    words = ["expire-snapshots", table, "--older-than", "0s", "-n", "--save-plan", str(place)]
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        assert app.main(words) == 0
    return place.read_bytes()


class _OneFile(LocalStore):
    """A store in which every file has the same content."""

    __slots__ = ("content",)
    content: bytes

    def read(self, location: str) -> bytes:
        return self.content


def _store(content: bytes) -> _OneFile:
    store = _OneFile()
    object.__setattr__(store, "content", content)
    return store


def _listed(command: str) -> list[FileStatus]:
    return [FileStatus(journals.journal_location("/t/metadata", command, UUID), 100, 1)]


def _outputs(content: bytes) -> object:
    """Read a journal, as a command does that looks for what killed runs have left."""
    return journals.read_each(
        _store(content), _listed("compact"), "compact", output_journal._read, SilentProgress()
    )


def _output_journal(directory: Path) -> bytes:
    """A journal as a run writes it that has data files in several folders."""
    loaded = FileSystemCatalog(LocalStore(), str(directory), SystemEnv()).load()
    data = output_journal.DataPlaces(("/t/data/a", "/t/data/b"), ("/t/data",))
    made = output_journal.new_journal(SystemEnv(), loaded, "compact", data)
    output_journal.write(LocalStore(), FixedEnv(), made)
    return Path(made.location).read_bytes()


def _deletion(content: bytes) -> object:
    """Read a journal, and ask what its reader asks of it."""
    found = deletion.unfinished_journals(
        _store(content), _listed("expire-snapshots"), "expire-snapshots", SilentProgress()
    )
    return [list(journal.files.rows()) for journal in found]


def _deletion_journal(directory: Path) -> bytes:
    """A journal as an expiry writes it."""
    places = [f"{directory}/data/{number}.parquet" for number in range(3)]
    named = files(places, places, FileKind.DATA_FILES, [10, 20, 30])
    location = journals.journal_location(str(directory / "metadata"), "expire-snapshots", UUID)
    journal = deletion.DeletionJournal(location, UUID, 1, (4711, 4712), FilesByKind([named]))
    deletion.write(LocalStore(), FixedEnv(), journal)
    return Path(location).read_bytes()


def _policy(content: bytes) -> object:
    with tempfile.NamedTemporaryFile(suffix=".toml") as file:
        file.write(content)
        file.flush()
        return read_policy(file.name).of("main.db.t")


POLICY = b"""steps = ["expire-snapshots", "compact"]
budget.delete-files = 10
window = "22:00-04:00"
[compact]
files-to-save = 5
where = "id > 5"
[[rule]]
tables = ["main.**", "other.db.t"]
enabled = false
[rule.expire-snapshots]
older-than = "3d"
retain-last = 2
"""


def _hive(content: bytes) -> object:
    """Read an answer, and ask of it what the catalog asks."""

    def read(size: int) -> bytes:
        found = stream.read(size)
        if len(found) < size:
            raise EOFError
        return found

    stream = io.BytesIO(content)
    try:
        fields = thrift.read_reply(read, "get_table")
    except (thrift.NotThrift, thrift.CallRefused, EOFError):
        return None
    table = thrift.struct_of(fields, 0)
    asked = (thrift.text_of, thrift.texts_of, thrift.number_of, thrift.struct_of)
    many = thrift.many_of(thrift.struct_of(table, 7), 1, thrift.STRUCT)
    return [of(one, number) for one in (table, *many) for number in range(20) for of in asked]


def _hive_answer() -> bytes:
    """What a metastore says of a table: a call, but for its kind."""
    columns = thrift.ThriftList(thrift.STRUCT, ({1: thrift.text("id"), 2: thrift.text("int")},) * 3)
    storage = {1: (thrift.LIST, columns), 2: thrift.text("/wh/t"), 5: (thrift.BOOL, True)}
    table = {
        1: thrift.text("t"), 2: thrift.text("db"), 4: (thrift.I32, 5),
        7: (thrift.STRUCT, storage), 9: thrift.texts({"metadata_location": "/wh/t/v1", "a": "b"}),
    }  # fmt: skip
    made = bytearray(thrift.write_call("get_table", {0: (thrift.STRUCT, table)}, 1))
    made[3] = 2
    return bytes(made)


def _orc_tail_of_a_writer() -> bytes:
    """The tail of a file by pyarrow, of several stripes and types."""
    made = io.BytesIO()
    columns = {
        "id": list(range(3000)), "text": [f"text {n}" if n % 3 else None for n in range(3000)],
        "amount": pa.array([Decimal(n) / 4 for n in range(3000)], pa.decimal128(10, 2)),
        "many": [[n, n + 1] for n in range(3000)],
    }  # fmt: skip
    orc.write_table(pa.table(columns), made, stripe_size=1024, batch_size=256)
    tail: bytes = orc.ORCFile(io.BytesIO(made.getvalue())).reader.serialized_file_tail()
    return tail


def _orc_tail() -> bytes:
    """Stripes and statistics by hand, as the format's description has them."""

    def message(place: int, content: bytes) -> bytes:
        return bytes([place << 3 | 2, len(content)]) + content

    stripes = message(3, b"\x08\x03\x28\x0a") + message(3, b"\x08\x40\x28\x0b")
    statistics = message(7, b"\x08\x0a" + message(2, b"\x08\x02\x10\x13"))
    return message(1, b"\x08\x09") + message(2, stripes + statistics) + b"\x18\x64"


def mutated(content: bytes, luck: random.Random) -> bytes:
    """A file with a few bytes changed, cut, repeated or put in."""
    made = bytearray(content)
    for _ in range(luck.choice((1, 1, 2, 4, 8))):
        at = luck.randrange(len(made) + 1)
        size = luck.choice((1, 1, 2, 4, 8, 64))
        match luck.randrange(6):
            case 0:
                made[at : at + 1] = bytes([luck.randrange(256)])
            case 1:
                made[at : at + size] = bytes([luck.choice(INTERESTING)] * size)
            case 2:
                del made[at : at + size]
            case 3:
                made[at:at] = made[at : at + size] * luck.choice((1, 2, 1000))
            case 4:
                del made[at:]
            case _:
                other = luck.randrange(len(made) + 1)
                made[at : at + size] = made[other : other + size]
    return bytes(made)


def run(seed: int, seconds: float) -> int:
    """Fuzz all codecs; the number of inputs."""
    signal.signal(signal.SIGALRM, _too_slow)
    count, end = 0, time.monotonic() + seconds
    with tempfile.TemporaryDirectory() as folder:
        known = seeds(Path(folder))
    for read, content in known.values():
        read(content)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    turn = 0
    while turn < ROUNDS or time.monotonic() < end:
        for name, (read, content) in known.items():
            own = f"{seed}/{name}/{turn}"
            signal.alarm(SECONDS_OF_ONE)
            try:
                read(mutated(content, random.Random(own)))
            except IcectlError:
                pass
            except BaseException as error:  # noqa: BLE001 - to be told
                print(json.dumps([own, type(error).__name__, str(error)[:200]]), flush=True)
            signal.alarm(0)
            count += 1
        turn += 1
    return count


def _too_slow(*_: object) -> None:
    raise TimeoutError


if __name__ == "__main__":
    print(json.dumps({"inputs": run(int(sys.argv[1]), float(sys.argv[2]))}))
