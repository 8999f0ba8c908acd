"""Fixtures that more than one kind of test needs."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.stores.fixed_env import FixedEnv

ROOT = Path(__file__).resolve().parents[1]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="write the golden files anew, to be reviewed"
    )


@dataclass(frozen=True)
class S3Server:
    """A local S3 server, and how icectl reaches it; `client` is boto3's, for setting up."""

    endpoint: str
    options: dict[str, str]
    client: object


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
def s3_server() -> Iterator[S3Server]:
    """moto's S3 server, one for the session, on a free port."""
    boto3 = pytest.importorskip("boto3")
    server_module = pytest.importorskip("moto.server")
    server = server_module.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    endpoint = f"http://{host}:{port}"
    options = {
        "key": "test-key",
        "secret": "test-secret",
        "endpoint_url": endpoint,
        "client_kwargs.region_name": "us-east-1",
    }
    client = boto3.client(
        "s3",
        endpoint_url=endpoint,
        aws_access_key_id=options["key"],
        aws_secret_access_key=options["secret"],
        region_name="us-east-1",
    )
    yield S3Server(endpoint, options, client)
    client.close()
    server.stop()
