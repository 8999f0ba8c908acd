"""What hdfs-native raises, as icectl tells it; what the cluster promises is tests/conformance's."""

import sys

import pytest

from icectl.errors import StorageError, Unsupported
from icectl.storage.failures import is_transient, remote_failure
from icectl.storage.hdfs import NameNodeAnswer, NoNameNode, driver_result, path_of
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
        ("hdfs://h:8020/a/b", "/a/b"),
        ("hdfs:///a//b", "/a/b"),
        ("hdfs:/a", "/a"),
        ("hdfs://h", "/"),
        ("hdfs://h/a%20b", "/a%20b"),
    ],
)
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
    with pytest.raises(StorageError, match="does not say where its name nodes are") as caught:
        open_store(StorageOptions(), fixed_env).read(location)
    assert "HADOOP_CONF_DIR" in caught.value.hint
    assert fixed_env.slept == []
