"""Fixtures that more than one kind of test needs."""

import gc
import os
import shutil
import signal
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from icectl.rows import workers
from tests.builders.expiry import Aged, aged_table
from tests.builders.forked_workers import Forks
from tests.builders.rows import current_metadata
from tests.builders.table_builder import filled_table
from tests.catalogs.rest_fake import Fake, fake
from tests.stores import azure_server, gcs_server, hdfs_server, s3_servers
from tests.stores.azure_server import Azurite
from tests.stores.fixed_env import FixedEnv
from tests.stores.gcs_server import FakeGcs
from tests.stores.hdfs_server import Hdfs
from tests.stores.merges import Inputs, make_inputs
from tests.stores.s3_servers import S3Server

ROOT = Path(__file__).resolve().parents[1]

# How long an example takes says nothing on a busy machine.
settings.register_profile("default", deadline=None, suppress_health_check=[HealthCheck.too_slow])
# What the quick tier says of a commit does not depend on luck; by default examples are new ones.
settings.register_profile("quick", settings.get_profile("default"), derandomize=True, database=None)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="write the golden files anew, to be reviewed"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Describe the mark that thins out tests of several parameters."""
    config.addinivalue_line("markers", "by_turns(n): every nth case alone in the quick tier")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Keep the tests themselves from the collector of garbage, which would go over all of them."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)  # xdist reads the marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep on one worker the tests that share what a fixture of their module builds.

    So are all tests of a module of `unit/`, or of over a hundred: many quick tests, few messages.
    Cases of tests that are marked `by_turns` are chosen for the quick tier before.
    """
    marked = [item for item in items if item.get_closest_marker("by_turns")]
    for _, cases in groupby(marked, lambda item: (item.path, getattr(item, "originalname", ""))):
        _take_turns([case for case in cases if hasattr(case, "callspec")])
    sizes = Counter(item.path for item in items)
    for item in items:
        if isinstance(item, pytest.Function) and not item.get_closest_marker("xdist_group"):
            module = item.path.relative_to(ROOT / "tests").with_suffix("")
            shared = _shared_by(item)
            if shared or module.parts[0] == "unit" or sizes[item.path] > 100:
                item.add_marker(pytest.mark.xdist_group(f"{module}{shared}"))


def _take_turns(cases: Sequence[Any]) -> None:
    """Leave for the full tier all but every nth case of a test of several parameters.

    Each value of each parameter is still tried, beside others of the rest.
    """
    indices = [case.callspec.indices for case in cases]
    # Arguments of which one parameter gives the values count once.
    columns = {tuple(one[name] for one in indices) for name in (indices[0] if cases else ())}
    parameters = [column for column in columns if len(set(column)) > 1]
    if len(parameters) > 1:
        for case, *places in zip(cases, *parameters, strict=True):
            if sum(places) % case.get_closest_marker("by_turns").args[0]:
                case.add_marker(pytest.mark.full)


def _shared_by(test: pytest.Function) -> str:
    """Which values of its module's fixtures a test has: empty where it has no such fixture."""
    values = getattr(test, "callspec", None)
    return "".join(
        f"-{values.indices.get(name, 0) if values else 0}"
        for name, defined in test._fixtureinfo.name2fixturedefs.items()
        if defined[-1].scope == "module"
    )


@pytest.fixture
def aged(tmp_path: Path) -> Aged:
    """A table with something to expire."""
    return aged_table(tmp_path)


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Fake]:
    """A catalog of a table, that gives the answers a test chooses."""
    table = filled_table(tmp_path / "t", range(3))
    with fake(current_metadata(table.directory)) as served:
        yield served


@pytest.fixture(scope="session")
def forks() -> Iterator[Forks]:
    made = Forks()
    yield made
    made.close()


@pytest.fixture(autouse=True)
def forked_workers(
    request: pytest.FixtureRequest, forks: Forks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fork workers, but in tests marked `new_workers`."""
    if request.node.get_closest_marker("new_workers") is None:
        monkeypatch.setattr(workers, "_starters", [forks])


@pytest.fixture(scope="session", autouse=True)
def no_flushes() -> Iterator[None]:
    """No power fails here, and disks are slow."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)
        yield


@pytest.fixture(scope="session", autouse=True)
def no_settings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The settings of whoever runs the tests are none of theirs, nor is the history of runs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", "/nonexistent")
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture(scope="session")
def fixtures_dir() -> Path:
    """Tables by other writers, which lie beside the repository and are not part of it."""
    found = ROOT.parent / "shared" / "fixtures"
    if not (found / "expected.json").exists():
        pytest.skip(f"no tables of other writers at {found}")
    return found


@pytest.fixture
def fixed_env() -> FixedEnv:
    """Clock and identifiers that repeat."""
    return FixedEnv()


@pytest.fixture(scope="session")
def moto_server() -> Iterator[S3Server]:
    """moto's S3 server, one for the session."""
    pytest.importorskip("boto3")
    pytest.importorskip("moto.server")
    with s3_servers.moto() as server:
        yield server


@pytest.fixture(scope="session")
def any_s3_server(request: pytest.FixtureRequest) -> S3Server:
    """The S3 server where any will do: the real one, if at hand, is several times faster."""
    name = "versitygw" if s3_servers.program("versitygw") else "moto"
    server: S3Server = request.getfixturevalue(f"{name}_server")
    return server


@pytest.fixture(scope="session")
def s3_server(any_s3_server: S3Server) -> S3Server:
    """The same, but in `s3/`, where it is each server that tables can be kept on."""
    return any_s3_server


@pytest.fixture(scope="session")
def versitygw_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """A real S3 server that honours conditions, one for the session."""
    binary = s3_servers.program("versitygw")
    if binary is None:
        pytest.skip(s3_servers.why_missing("versitygw"))
    with s3_servers.versitygw(binary, tmp_path_factory.mktemp("versitygw")) as server:
        yield server


@pytest.fixture(scope="session")
def rclone_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """A real S3 server that ignores conditions, one for the session."""
    binary = s3_servers.program("rclone")
    if binary is None:
        pytest.skip(s3_servers.why_missing("rclone"))
    with s3_servers.rclone(binary, tmp_path_factory.mktemp("rclone")) as server:
        yield server


@pytest.fixture(scope="session")
def merge_inputs(tmp_path_factory: pytest.TempPathFactory) -> Inputs:
    """Files to merge by a store, made once."""
    return make_inputs(tmp_path_factory.mktemp("merges"))


@pytest.fixture(scope="session")
def azurite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Azurite]:
    """Azure's blob storage as its emulator has it, one for the session."""
    binary = os.environ.get("ICECTL_TEST_AZURITE") or shutil.which("azurite-blob")
    if binary is None:
        reason = os.environ.get("ICECTL_TEST_NO_AZURITE")
        pytest.skip(f"azurite: {reason or 'tests/run.sh installs it'}")
    with azure_server.azurite(binary, tmp_path_factory.mktemp("azurite")) as server:
        yield server


@pytest.fixture(scope="session")
def fake_gcs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeGcs]:
    """Google Cloud Storage as fake-gcs-server has it, one for the session."""
    binary = os.environ.get("ICECTL_TEST_FAKE_GCS") or shutil.which("fake-gcs-server")
    if binary is None:
        reason = os.environ.get("ICECTL_TEST_NO_FAKE_GCS")
        pytest.skip(f"fake-gcs-server: {reason or 'tests/run.sh builds it'}")
    with gcs_server.fake_gcs(binary, tmp_path_factory.mktemp("gcs")) as server:
        yield server


@pytest.fixture(scope="session")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hdfs]:
    """A cluster of Hadoop's file system, one for the session."""
    jars = os.environ.get("ICECTL_TEST_HDFS_JARS")
    if jars is None:
        reason = os.environ.get("ICECTL_TEST_NO_HDFS")
        pytest.skip(f"Hadoop's mini-cluster: {reason or 'tests/run.sh fetches it'}")
    with hdfs_server.hdfs(jars, tmp_path_factory.mktemp("hdfs")) as server:
        yield server


@pytest.fixture
def signals_as_on_a_terminal() -> Iterator[None]:
    """A test run in the background starts with SIGINT ignored, and icectl leaves that so."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)
