"""What a folder without an Iceberg table is, by the files that each format's writers keep there."""

import pytest

from icectl.catalog.files import FileSystemCatalog
from icectl.cli import app
from icectl.errors import StorageError, TableNotFound
from icectl.storage.local.store import LocalStore
from tests.stores.wrapped import CountingStore, WrappedStore

FOLDERS = {
    "a Delta table": (
        ["_delta_log/00000000000000000000.json", "part-00000-x.snappy.parquet"],
        ["_delta_log/_last_checkpoint", "_delta_log/00000000000000000120.json", "k=1/p.parquet"],
    ),
    "a Hudi table": ([".hoodie/hoodie.properties", "k=1/0001-0.parquet"],),
    "a Paimon table": (
        ["schema/schema-0", "snapshot/snapshot-1", "bucket-0/data-0.orc", "manifest/m-0"],
    ),
    "a Lance dataset": (["_versions/1.manifest", "data/x.lance"],),
    "a folder of Parquet files": (["x.parquet"], ["_SUCCESS", "a=1/b=2/x.parquet"]),
    "a folder of ORC files": (["a=1/x.orc", "a=2/x.orc"],),
    "a folder of Avro files": (["x.avro", "notes.txt"],),
    None: (
        ["notes.txt"],
        ["schema/readme.md", "_versions/readme.md", "_delta_log/readme.md"],
        ["db/t/data/x.parquet"],  # a folder of folders
        ["a=1/notes.txt"],
    ),
}
CASES = [(what, files) for what, cases in FOLDERS.items() for files in cases]


class Denying(WrappedStore):
    """Lists the folder that is named, and shows nothing else."""

    def call(self, method, location, action):
        if method in ("stat", "split") or location.endswith("_versions"):
            raise StorageError("access denied")
        return action()


def put(folder, files):
    for file in files:
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_bytes(b"{}")


def not_found(folder, env, store=None):
    with pytest.raises(TableNotFound) as caught:
        FileSystemCatalog(store or LocalStore(), str(folder), env).load()
    return caught.value


@pytest.mark.parametrize(("what", "files"), CASES)
def test_a_folder_is_called_what_it_is(tmp_path, fixed_env, what, files):
    put(tmp_path, files)
    error = not_found(tmp_path, fixed_env)
    known = "" if what is None else f": it is {what}"
    assert error.message == f"no Iceberg table at {tmp_path}{known}"
    assert error.exit_code == 10
    for command in ("OPTIMIZE", "UniForm"):
        assert (command in error.hint) == (what == "a Delta table")
    # Metadata elsewhere may belong to plain data files, and to nothing else.
    has_data_alone = what is None or what.startswith("a folder")
    assert ("name one metadata file" in error.hint) == has_data_alone


def test_nothing_more_is_asked_where_there_is_a_table_and_little_where_there_is_none(
    tmp_path, fixed_env
):
    put(tmp_path, [f"a={number}/x.parquet" for number in range(20)])
    store = CountingStore(LocalStore())
    not_found(tmp_path, fixed_env, store)
    assert store.counts == {"list_directory": 5, "stat": 4, "split": 2}


def test_a_storage_that_shows_nothing_more_changes_nothing(tmp_path, fixed_env):
    put(tmp_path, ["_delta_log/00000000000000000000.json"])
    assert (
        not_found(tmp_path, fixed_env, Denying(LocalStore())).message
        == f"no Iceberg table at {tmp_path}"
    )


@pytest.mark.parametrize("what", [what for what in FOLDERS if what is not None])
def test_maintain_says_so_too(tmp_path, capsys, what):
    put(tmp_path, FOLDERS[what][0])
    assert app.main(["maintain", str(tmp_path), "-n"]) == 10
    assert f"`{tmp_path}` is {what}, not an Iceberg table" in capsys.readouterr().err


@pytest.mark.parametrize("folder", ["data", "data/a=1", "a=1/b=2"])
def test_files_of_a_table_are_no_folder_to_add(tmp_path, fixed_env, folder):
    put(tmp_path, [f"{folder}/x.parquet", "metadata/v1.metadata.json"])
    error = not_found(tmp_path / folder, fixed_env)
    assert error.message.endswith(f": it is a folder of the table at {tmp_path}")
    assert error.hint.startswith(f"name {tmp_path}; ")
