"""Hostile tables, each built around others' files, a secret and a socket that it is after."""

import base64
import gzip
import json
import os
import pickle
import re
import shutil
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import cache
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from icectl.cli import app, engines
from icectl.env import Env
from tests.builders.broken import Broken, in_first_file
from tests.builders.expiry import NOW_MS, Clock
from tests.builders.inline_engine import InlineEngine
from tests.builders.orphans import OTHER_UUID, age
from tests.builders.rows import current_metadata, read_metadata
from tests.builders.table_builder import TableBuilder, filled_table
from tests.cli.conftest import Ended
from tests.security.test_bombs import avro_bomb

RUN = "11111111-2222-4333-8444-555555555555"
SECRET = "c4n4ry-0f-the-env1ronment"
"""Stands in the environment; nothing of it may be seen anywhere."""

VARIABLE = "ICECTL_TEST_CANARY"
KEY = "c4n4ry-0f-a-file"
"""Stands in a file that only the operator may read."""

ODD = "x\n::error::spoofed\r\x1b[8mhidden\x9b8m\u202egpj ##vso[task.complete]"

OWN_STYLES = re.compile("\x1b\\[(0|1|1;3[136]|3[0-7]|2)m")
"""Colours that icectl itself writes where it is asked for colours."""


class Attack:
    """A value that makes a folder when it is unpickled."""

    def __init__(self, canary: Path) -> None:
        self.canary = canary

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.canary),)


@dataclass
class Scene:
    """A folder with a table, and beside it what no command on that table may touch."""

    folder: Path
    listening: socket.socket
    before: Mapping[str, tuple[bytes, int]]

    @property
    def table(self) -> Path:
        return self.folder / "wh" / "t"

    @property
    def home(self) -> Path:
        """Somebody's files, which belong to no table."""
        return self.folder / "home"

    @property
    def neighbour(self) -> Path:
        """Another table."""
        return self.folder / "wh2" / "n"

    @property
    def marker(self) -> Path:
        """A folder that the code of an attack makes."""
        return self.folder / "marker"

    @property
    def address(self) -> str:
        """Host and port of the socket that nobody may connect to."""
        return "127.0.0.1:" + str(self.listening.getsockname()[1])

    def check(self, ended: Ended) -> None:
        """The canaries are whole, and the run ended as a run may."""
        assert self.before.items() <= others(self.folder).items(), "a file of others"
        assert not self.marker.exists(), "code was run"
        assert not connected(self.listening), "a connection"
        check_output(ended)
        for path in self.table.rglob("*"):
            if path.is_file() and not path.is_symlink():
                content = path.read_bytes()
                assert KEY.encode() not in content, path
                assert SECRET.encode() not in content, path


def check_output(ended: Ended) -> None:
    """An end with a code that is documented, in lines that nothing obeys and that leak nothing."""
    assert ended.code in {0, 2, 3, 4, 5, 10, 11, 12, 13, 14, 15, 16}, ended
    said = OWN_STYLES.sub("", ended.out + ended.err)
    assert "Traceback" not in said or "debug: " in said, said
    assert SECRET not in said
    assert KEY not in said
    for line in said.split("\n"):
        odd = [c for c in line if (not c.isprintable() and c != "\t") or c in "\u2028\u2029"]
        assert not odd, repr(line)
        assert not line.lstrip().startswith(("::error::", "::stop")), line
        assert "##vso[" not in line or line.lstrip().startswith(('"', "{")), line


def connected(listening: socket.socket) -> bool:
    """Whether somebody has connected to a socket."""
    listening.setblocking(False)
    try:
        listening.accept()[0].close()
    except BlockingIOError:
        return False
    return True


def others(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Contents and times of files in the folders of others."""
    return {
        str(path): (path.read_bytes(), path.stat().st_mtime_ns)
        for name in ("home", "wh2")
        for path in sorted((folder / name).rglob("*"))
        if path.is_file()
    }


@contextmanager
def scene(folder: Path) -> Iterator[Scene]:
    """Others' files, and a socket that listens; proxies of the environment lead to it."""
    home = folder / "home"
    (home / "data").mkdir(parents=True)
    (home / "id.key").write_text(KEY)
    (home / "id.key").chmod(0o600)
    for name in (f"00000-0-{RUN}-00001.parquet", f"{RUN}-m0.avro", "letter.txt", "x.parquet"):
        (home / name).write_bytes(b"of others")
        (home / "data" / name).write_bytes(b"of others")
    neighbour = filled_table(folder / "wh2" / "n", range(5), range(5, 9))
    for path in (neighbour.directory / "metadata").glob("*.metadata.json"):
        path.write_text(json.dumps(read_metadata(path) | {"table-uuid": OTHER_UUID}))
    age(folder, 900)
    with socket.create_server(("127.0.0.1", 0)) as listening, pytest.MonkeyPatch.context() as patch:
        made = Scene(folder, listening, others(folder))
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
            patch.setenv(name, f"http://{made.address}")
            patch.setenv(name.lower(), f"http://{made.address}")
        for name in ("NO_PROXY", "no_proxy"):
            patch.setenv(name, "127.0.0.1,localhost")
        patch.setenv(VARIABLE, SECRET)
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        patch.setenv("AWS_CONFIG_FILE", "/nonexistent")
        patch.setenv("AWS_ACCESS_KEY_ID", "OPERATORKEY")
        patch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
        patch.setenv("AWS_REGION", "us-east-1")
        patch.setenv("XDG_CONFIG_HOME", "/nonexistent")
        yield made


def build(scene: Scene, version: int = 2) -> TableBuilder:
    """A table with work for every command, and nothing wrong yet."""
    table = TableBuilder(scene.table, format_version=version, partitioning="identity")
    for start in (0, 12, 24):
        table.append(range(start, start + 12), files=2)
    if version > 1:
        table.delete_rows([1, 2, 13])
    table.remove_data_files(1)
    age(scene.table, 9)
    return table


def run_line(words: list[str], env: Env | None = None) -> Ended:
    """Run a command line in this process and take what it says."""
    out, err = StringIO(), StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setattr(engines, "LocalEngine", InlineEngine)
        code = app.main(words, env=env or Clock(NOW_MS))
    return Ended(code, out.getvalue(), err.getvalue())


# -- tables -------------------------------------------------------------------------------------

Make = Callable[[Scene, TableBuilder], None]
TABLES: dict[str, Make] = {}


def table(make: Make) -> Make:
    """Have a way to make a table hostile; its name is that of the function."""
    TABLES[make.__name__] = make
    return make


def edit(scene: Scene, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the current metadata in place."""
    Broken(scene.table).edit(change)
    age(scene.table, 9)


def set_properties(scene: Scene, **properties: str) -> None:
    """Add properties; `_` stands for `.`, `__` for `-`."""
    named = {name.replace("__", "-").replace("_", "."): value for name, value in properties.items()}
    edit(scene, lambda members: members["properties"].update(named))


def edit_snapshots(scene: Scene, change: Callable[[dict[str, Any]], None]) -> None:
    """Change every snapshot."""

    def change_all(members: dict[str, Any]) -> None:
        for snapshot in members["snapshots"]:
            change(snapshot)

    edit(scene, change_all)


@table
def code_in_a_property(scene: Scene, _: TableBuilder) -> None:
    attack = base64.b64encode(pickle.dumps(Attack(scene.marker))).decode()
    set_properties(scene, write_data_path=f"/dev/null/TaskFailed: {attack}")


@table
def journals_of_outputs(scene: Scene, built: TableBuilder) -> None:
    content = {
        "icectl-journal": 1, "table-uuid": built.metadata.table_uuid, "created-ms": 1, "host": "x",
        "pid": 1, "folders": [str(scene.home)], "trees": [str(scene.home), str(scene.neighbour)],
        "abandoned": True, "newest-version": 0, "newest-location": None,
        "newest-sequence-number": 0,
    }  # fmt: skip
    for command in app.COMMANDS:
        path = scene.table / "metadata" / f"icectl-{command}-{RUN}.json"
        path.write_text(json.dumps(content))


@table
def journals_of_deletions(scene: Scene, built: TableBuilder) -> None:
    named = [[path, kind, 9] for kind in range(8) for path in scene.before]
    content = {"icectl-journal": 1, "table-uuid": built.metadata.table_uuid,
               "created-ms": NOW_MS, "snapshot-ids": [4711], "files": named}  # fmt: skip
    for command in app.COMMANDS:
        path = scene.table / "metadata" / f"icectl-{command}-{RUN}.json"
        path.write_text(json.dumps(content))


@table
def journals_of_many_levels(scene: Scene, _: TableBuilder) -> None:
    for command in app.COMMANDS:
        path = scene.table / "metadata" / f"icectl-{command}-{RUN}.json"
        path.write_text("[" * 200_000)


@table
def location_of_a_home(scene: Scene, _: TableBuilder) -> None:
    edit(scene, lambda members: members.update(location=str(scene.home)))
    set_properties(scene, write_metadata_path=str(scene.table / "metadata"))


@table
def location_above_another_table(scene: Scene, _: TableBuilder) -> None:
    edit(scene, lambda members: members.update(location=str(scene.folder)))


@table
def folders_of_others(scene: Scene, _: TableBuilder) -> None:
    set_properties(
        scene,
        write_data_path=str(scene.home),
        write_metadata_path=str(scene.neighbour / "metadata"),
        write_object__storage_enabled="true",
    )


@table
def folder_behind_a_link(scene: Scene, _: TableBuilder) -> None:
    """The folder of one partition is a link to others' files of the same names."""
    folder = min((scene.table / "data").iterdir())
    theirs = scene.home / "linked"
    shutil.copytree(folder, theirs)
    scene.before = others(scene.folder)
    shutil.rmtree(folder)
    folder.symlink_to(theirs, target_is_directory=True)


@table
def metadata_that_are_a_link(scene: Scene, _: TableBuilder) -> None:
    (scene.table / "metadata" / "v99.metadata.json").symlink_to(scene.home / "id.key")


@table
def metadata_that_are_a_pipe(scene: Scene, _: TableBuilder) -> None:
    os.mkfifo(scene.table / "metadata" / "v99.metadata.json")


@table
def hint_that_is_a_link(scene: Scene, _: TableBuilder) -> None:
    hint = scene.table / "metadata" / "version-hint.text"
    hint.unlink(missing_ok=True)
    hint.symlink_to(scene.home / "id.key")


@table
def manifest_lists_that_are_a_pipe(scene: Scene, _: TableBuilder) -> None:
    pipe = scene.table / "metadata" / "snap-1.avro"
    os.mkfifo(pipe)
    edit_snapshots(scene, lambda snapshot: snapshot.update({"manifest-list": str(pipe)}))


@table
def manifest_lists_of_a_secret(scene: Scene, _: TableBuilder) -> None:
    place = str(scene.home / "id.key")
    edit_snapshots(scene, lambda snapshot: snapshot.update({"manifest-list": place}))


@table
def names_that_are_obeyed(scene: Scene, _: TableBuilder) -> None:
    def change(members: dict[str, Any]) -> None:
        members["properties"][ODD] = ODD
        members["refs"][ODD] = {"type": "branch", "snapshot-id": members["current-snapshot-id"]}
        for snapshot in members["snapshots"]:
            snapshot["summary"] |= {"operation": ODD, ODD: ODD}
        for schema in members["schemas"]:
            schema["fields"][-1] |= {"name": ODD, "doc": ODD}

    edit(scene, change)


@table
def file_names_that_are_obeyed(scene: Scene, _: TableBuilder) -> None:
    for name in (ODD, f"lost{ODD}.parquet", f"{ODD}.metadata.json", f"icectl-compact-{ODD}.json"):
        for folder in ("data", "metadata"):
            (scene.table / folder / name.replace("/", "")).write_bytes(b"x")
    Broken(scene.table).edit_manifest(in_first_file(file_path=f"{scene.table}/data/{ODD}"))
    age(scene.table, 9)


@table
def manifests_that_inflate(scene: Scene, _: TableBuilder) -> None:
    for manifest in (scene.table / "metadata").glob("*-m*.avro"):
        manifest.write_bytes(_manifest_bomb())


@table
def metadata_that_inflate(scene: Scene, _: TableBuilder) -> None:
    (scene.table / "metadata" / "v99.gz.metadata.json").write_bytes(_metadata_bomb())


@cache
def _manifest_bomb() -> bytes:
    return avro_bomb("deflate")


@cache
def _metadata_bomb() -> bytes:
    return gzip.compress(b"[" + b" " * (80 << 20) + b"]", 9)


@table
def metadata_of_many_levels(scene: Scene, _: TableBuilder) -> None:
    (scene.table / "metadata" / "v99.metadata.json").write_text('{"a":' + "[" * 200_000)


@table
def metadata_of_many_digits(scene: Scene, _: TableBuilder) -> None:
    newest = current_metadata(scene.table)
    text = newest.read_text().replace('"last-updated-ms":', '"last-updated-ms":' + "9" * 5000)
    newest.write_text(text)


@table
def a_type_of_many_levels(scene: Scene, _: TableBuilder) -> None:
    kind: Any = "int"
    for id_ in range(300, 1, -1):
        kind = {"type": "struct", "fields": [
            {"id": 1000 + id_, "name": "x", "required": False, "type": kind}
        ]}  # fmt: skip

    def change(members: dict[str, Any]) -> None:
        for schema in members["schemas"]:
            schema["fields"].append({"id": 999, "name": "n", "required": False, "type": kind})

    edit(scene, change)


@table
def accounts_of_others(scene: Scene, _: TableBuilder) -> None:
    place = "abfss://c@attacker.example/t/x.avro"
    edit_snapshots(scene, lambda snapshot: snapshot.update({"manifest-list": place}))


@table
def schemes_that_wrap_others(scene: Scene, _: TableBuilder) -> None:
    place = f"simplecache::http://{scene.address}/x"
    set_properties(scene, write_data_path=place, write_metadata_path=place)
    Broken(scene.table).edit_manifest(in_first_file(file_path=f"{place}.parquet"))


@table
def servers_for_manifest_lists(scene: Scene, _: TableBuilder) -> None:
    place = f"http://{scene.address}/x"
    edit_snapshots(scene, lambda snapshot: snapshot.update({"manifest-list": place}))


@table
def servers_for_everything_else(scene: Scene, _: TableBuilder) -> None:
    place = f"http://{scene.address}/x"
    set_properties(scene, write_data_path=place)
    _add_statistics(scene, f"{place}.puffin")
    Broken(scene.table).edit_manifest(in_first_file(file_path=f"{place}.parquet"))


def _add_statistics(scene: Scene, place: str) -> None:
    def change(members: dict[str, Any]) -> None:
        members["statistics"] = [
            {"snapshot-id": snapshot["snapshot-id"], "statistics-path": place,
             "file-size-in-bytes": 9, "file-footer-size-in-bytes": 1, "blob-metadata": []}
            for snapshot in members["snapshots"]
        ]  # fmt: skip
        members["partition-statistics"] = [
            {"snapshot-id": members["snapshots"][0]["snapshot-id"], "statistics-path": place,
             "file-size-in-bytes": 9}
        ]  # fmt: skip

    edit(scene, change)


@table
def statistics_that_are_others(scene: Scene, _: TableBuilder) -> None:
    _add_statistics(scene, str(scene.home / "letter.txt"))


@table
def entries_of_others(scene: Scene, _: TableBuilder) -> None:
    data = next(path for path in scene.before if "/wh2/n/data/" in path)
    Broken(scene.table).edit_manifest(
        in_first_file(file_path=data, file_size_in_bytes=Path(data).stat().st_size)
    )


@table
def snapshots_of_another_table(scene: Scene, _: TableBuilder) -> None:
    """An old snapshot that reaches the live files of the neighbour: it goes with an expiry."""

    def change(members: dict[str, Any]) -> None:
        first = members["snapshots"][0]
        foreign = read_metadata(current_metadata(scene.neighbour))["snapshots"][-1]
        kept = ("timestamp-ms", "sequence-number", "schema-id")
        foreign |= {"snapshot-id": 4711, **{name: first[name] for name in kept if name in first}}
        foreign.pop("parent-snapshot-id", None)
        members["snapshots"].insert(0, foreign)

    edit(scene, change)


@table
def log_of_others_metadata(scene: Scene, _: TableBuilder) -> None:
    """A commit that keeps one entry of the log deletes the files of the others."""

    def change(members: dict[str, Any]) -> None:
        members["metadata-log"] = [
            {"timestamp-ms": members["last-updated-ms"], "metadata-file": path}
            for path in scene.before
        ]

    edit(scene, change)
    set_properties(
        scene,
        write_metadata_delete__after__commit_enabled="true",
        write_metadata_previous__versions__max="1",
    )


@table
def values_of_the_environment(scene: Scene, _: TableBuilder) -> None:
    value = f"env:{VARIABLE}"
    set_properties(
        scene,
        write_data_path=value,
        s3_secret__access__key=value,
        s3_endpoint=f"http://{scene.address}",
        uri=f"http://{scene.address}",
        token=value,
        py__catalog__impl="evil.Catalog",
        py__io__impl="evil.IO",
        write_location__provider_impl="evil.Provider",
        write_py__location__provider_impl="evil.Provider",
    )
