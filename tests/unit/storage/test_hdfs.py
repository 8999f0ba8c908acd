"""What hdfs-native raises, as icectl tells it; what the cluster promises is tests/conformance's."""

import io
import sys
from types import SimpleNamespace

import pytest

from icectl.errors import StorageError, Unsupported
from icectl.storage.failures import is_transient, remote_failure
from icectl.storage.hdfs import HdfsStore, NameNodeAnswer, NoNameNode, driver_result, path_of
from icectl.storage.new_files import PROBE, create_own
from icectl.storage.open import StorageOptions, open_store

JAVA = "org.apache.hadoop"
TRACE = "\\n\\tat org.apache.hadoop.hdfs.server.namenode.FSNamesystem.startFile(FSNamesystem:1)"


def raised(error):
    def action():
        raise error

    with pytest.raises(Exception) as caught:  # noqa: PT011 - any
        driver_result(action)
    return caught.value


@pytest.mark.parametrize(
    ("kind", "message", "told", "passes"),
    [
        ("security.AccessControlException", "Permission denied: user=a", PermissionError, False),
        ("security.AccessControlException", "/a/b (is not a directory)", FileNotFoundError, False),
        ("fs.InvalidPathException", "Invalid path name /:c", NameNodeAnswer, False),
        ("hdfs.server.namenode.SafeModeException", "Name node is in safe mode", NoNameNode, True),
        ("ipc.StandbyException", "not supported in state standby", NoNameNode, True),
    ],
)
def test_a_name_nodes_answer_is_told_by_its_kind(kind, message, told, passes):
    error = raised(RuntimeError(f'RPCError("{JAVA}.{kind}", "{message}{TRACE}")'))
    assert isinstance(error, told)
    assert "FSNamesystem" not in str(error)
    assert is_transient(error) is passes


def test_a_cluster_without_an_answer_may_answer_later():
    error = raised(ConnectionRefusedError(111, "Connection refused"))
    failure = remote_failure("read", "hdfs://h:8020/a", error, secrets=())
    assert is_transient(error)
    assert isinstance(failure, StorageError)
    assert "HADOOP_CONF_DIR" in failure.hint


def test_a_file_that_is_there_is_no_failure_of_the_storage():
    assert isinstance(raised(FileExistsError("/a already exists\n\tat org")), FileExistsError)


@pytest.mark.parametrize(
    ("location", "path"),
    [
        ("hdfs://h:8020/a/b", "/a/b"), ("hdfs:///a//b", "/a/b"), ("hdfs:/a", "/a"),
        ("hdfs://h", "/"), ("hdfs://h/a%20b", "/a%20b"),
    ],
)  # fmt: skip
def test_the_path_is_what_is_behind_the_cluster(location, path):
    assert path_of(location) == path


def test_without_its_driver_the_extra_is_named(monkeypatch, fixed_env):
    monkeypatch.setitem(sys.modules, "hdfs_native", None)
    with pytest.raises(Unsupported, match="driver for hdfs: is not installed") as caught:
        open_store(StorageOptions(), fixed_env).read("hdfs://h/a")
    assert "icectl[hdfs]" in caught.value.hint


@pytest.mark.parametrize("location", ["hdfs:///a", "hdfs://nameservice1/a"])
def test_a_cluster_that_no_configuration_knows_is_told(monkeypatch, fixed_env, location):
    pytest.importorskip("hdfs_native", reason="hdfs-native is not installed")
    for name in ("HADOOP_CONF_DIR", "HADOOP_HOME"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(StorageError, match="has no name nodes") as caught:
        open_store(StorageOptions(), fixed_env).read(location)
    assert "HADOOP_CONF_DIR" in caught.value.hint
    assert fixed_env.slept == []


class Cluster:
    """Files by path, and a name node that loses its first answer to a rename, done or not."""

    def __init__(self, *, is_done: bool) -> None:
        self.files: dict[str, bytes] = {}
        self.is_done, self.fails = is_done, True

    def get_file_info(self, path):
        if path not in self.files:
            raise FileNotFoundError(path)
        return SimpleNamespace(
            path=path, length=len(self.files[path]), isdir=False, modification_time=0
        )

    def create(self, path, _):
        cluster = self

        class File(io.BytesIO):
            def close(self):
                if not self.closed:
                    cluster.files[path] = self.getvalue()
                super().close()

        return File()

    def read(self, path):
        if path not in self.files:
            raise FileNotFoundError(path)
        return io.BytesIO(self.files[path])

    def rename(self, source, target, _):
        if not self.fails or self.is_done:
            if source not in self.files:
                raise FileNotFoundError(source)
            if target in self.files:
                raise FileExistsError(target)
            self.files[target] = self.files.pop(source)
        if self.fails and not target.endswith(PROBE):
            self.fails = False
            raise ConnectionResetError(104, "Connection reset by peer")

    def delete(self, path):
        self.files.pop(path, None)


@pytest.mark.parametrize("is_done", [True, False])
def test_an_own_file_gets_its_name_whatever_answer_is_lost(fixed_env, monkeypatch, is_done):
    monkeypatch.setitem(sys.modules, "hdfs_native", SimpleNamespace(WriteOptions=lambda **_: None))
    for write in ("create", "open_new"):
        cluster = Cluster(is_done=is_done)
        store = HdfsStore(cluster, fixed_env, 1, print)
        store.proof.buckets.add("hdfs://h")
        if write == "create":
            create_own(store, fixed_env, "hdfs://h/t/a", b"mine")
        else:
            with store.open_new("hdfs://h/t/a") as file:
                file.write(b"mine")
        assert cluster.files == {"/t/a": b"mine"}
        assert not cluster.fails
