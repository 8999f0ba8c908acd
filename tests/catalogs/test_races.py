"""Tables of any kind of catalog that icectl maintains while another writer appends to them."""

import json
import os
import subprocess
import threading
from contextlib import suppress
from urllib.error import HTTPError

import pytest

from tests.catalogs.races import icectl, race_with_appends
from tests.catalogs.rest_servers import RestServer, ask
from tests.catalogs.server import NAME
from tests.spark.conftest import PEERS, SKIPPED

ROUNDS = [2, pytest.param(200, marks=pytest.mark.full)]


@pytest.mark.parametrize("rounds", ROUNDS)
def test_two_of_icectl_and_pyiceberg_lose_nothing(request, server, rounds, tmp_path):
    if request.node.callspec.params["server"].startswith("hive-4"):
        pytest.skip("PyIceberg's client fails on Hive 4")
    race_with_appends(server, rounds, tmp_path)


@pytest.mark.spark
@pytest.mark.full
@pytest.mark.parametrize("server", ["rest", "hive-3"], indirect=True)
def test_spark_goes_on_where_icectl_was(server, tmp_path):
    """Iceberg's own client writes while icectl compacts, and finds all rows at the end."""
    if SKIPPED is not None:
        pytest.skip(SKIPPED)
    name, ready = ".".join((*server.namespace, "spark")), tmp_path / "ready"
    kind, uri = server.properties["type"], server.properties["uri"]
    if isinstance(server, RestServer):
        uri = server.uri  # the proxy does not know all that Spark asks
        make_namespaces(uri, server.namespace)
    told: dict[str, object] = {}

    def write() -> None:
        peer, jar = str(PEERS / "spark_catalog.py"), os.environ["ICECTL_TEST_SPARK_JAR"]
        words = [jar, kind, uri, name, f"file://{tmp_path}/wh/spark", str(ready)]
        command = [os.environ["ICECTL_TEST_SPARK_PYTHON"], peer, *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        told.update(code=done.returncode, out=done.stdout, errors=done.stderr[-4000:])

    writer = threading.Thread(target=write)
    writer.start()
    ends = []
    while writer.is_alive():
        if ready.exists():
            words = ("compact", f"{NAME}.{name}", "--engine", "local", "--rewrite-all")
            ends.append(icectl(*words)[0])
        writer.join(timeout=0.2)
    assert told["code"] == 0, told["errors"]
    assert set(ends) <= {0, 11}
    assert 0 in ends
    assert json.loads(str(told["out"]).splitlines()[-1]) == list(range(25))
    assert icectl("validate", f"{NAME}.{name}", "--all-snapshots")[0] == 0


def make_namespaces(uri: str, namespace: tuple[str, ...]) -> None:
    """Make a namespace of a REST catalog with all above it, unless they are there."""
    for depth in range(1, len(namespace) + 1):
        with suppress(HTTPError):
            ask(uri, "/v1/namespaces", {"namespace": namespace[:depth], "properties": {}})
