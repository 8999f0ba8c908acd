"""Requests of s3fs that fail, or whose answer never comes: no row, no reachable file is lost."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import pytest
from botocore.exceptions import ClientError, ConnectTimeoutError, ReadTimeoutError
from s3fs import S3FileSystem

from tests.s3.conftest import Bucket
from tests.s3.test_commits import COMPACT, build, run
from tests.stores.s3_servers import BY_S3FS

__all__ = ["run"]

pytestmark = pytest.mark.s3

COMMANDS = {
    "expire-snapshots": ("--older-than", "1m", "--retain-last", "1"),
    "rewrite-manifests": (),
    "migrate-v1-v2": (),
    "compact": (*COMPACT[1:], "--where", "category = 'c1'"),
}
WRITES = ("put_object", "delete_objects", "delete_object")


def service_error(code: str, status: int) -> ClientError:
    return ClientError(
        {"Error": {"Code": code, "Message": code}, "ResponseMetadata": {"HTTPStatusCode": status}},
        "PutObject",
    )


@dataclass(frozen=True)
class Failure:
    """How a request fails: whether the server has done it, and what the client sees."""

    is_done: bool
    seen: Callable[[], Exception]


FAILURES = {
    "connection refused": Failure(False, lambda: ConnectTimeoutError(endpoint_url="http://s3")),
    "access denied": Failure(False, lambda: service_error("AccessDenied", 403)),
    "500, and not done": Failure(False, lambda: service_error("InternalError", 500)),
    "500, though done": Failure(True, lambda: service_error("InternalError", 500)),
    "no answer, though done": Failure(True, lambda: ReadTimeoutError(endpoint_url="http://s3")),
}
QUICK = [
    ("expire-snapshots", "500, though done", 3),
    ("migrate-v1-v2", "500, though done", 3),
    ("rewrite-manifests", "access denied", 3),
]
"""In the quick tier commits fail, and every so many of the other writes."""


class FailingRequests:
    """Notes the keys of requests that write, and fails the nth of them."""

    def __init__(self, patch: pytest.MonkeyPatch, nth: int, failure: Failure | None) -> None:
        self.keys: list[str] = []
        call = S3FileSystem.call_s3

        def counted(filesystem: Any, method: str, **arguments: Any) -> Any:
            if method not in WRITES:
                return call(filesystem, method, **arguments)
            self.keys.append(arguments.get("Key", ""))
            if failure is None or len(self.keys) != nth:
                return call(filesystem, method, **arguments)
            if failure.is_done:
                call(filesystem, method, **arguments)
            raise failure.seen()

        patch.setattr(S3FileSystem, "call_s3", counted)


@pytest.fixture
def bucket(any_s3_server: Any, tmp_path: Any, request: pytest.FixtureRequest) -> Bucket:
    """A bucket of any server: what is tested is this side of the wire."""
    server = replace(any_s3_server, options=any_s3_server.options | BY_S3FS)
    made = Bucket(server, f"faults-{abs(hash(request.node.name))}", tmp_path)
    made.client.create_bucket(Bucket=made.name)
    return made


@pytest.mark.parametrize(
    ("command", "failure", "stride"),
    [
        *QUICK,
        *(pytest.param(*case, 1, marks=pytest.mark.full) for case in product(COMMANDS, FAILURES)),
    ],
)
def test_any_write_may_fail(bucket, run, command, failure, stride):
    words = (*COMMANDS[command], "--yes")
    version = 1 if command == "migrate-v1-v2" else 2
    with pytest.MonkeyPatch.context() as patch:
        build(bucket, "undisturbed", version)
        requests = FailingRequests(patch, 0, None)
        assert run(command, "undisturbed", *words)[0] == 0
    assert len(requests.keys) > 3
    commits = [nth for nth, key in enumerate(requests.keys, 1) if key.endswith(".metadata.json")]
    assert commits

    codes = set()
    for nth in sorted({*commits, *range(1, len(requests.keys) + 1, stride)}):
        name = f"t{nth}"
        build(bucket, name, version)
        with pytest.MonkeyPatch.context() as patch:
            before, keys = bucket.rows(name, patch), bucket.keys(name)
            requests = FailingRequests(patch, nth, FAILURES[failure])
            code, document = run(command, name, *words)
        assert len(requests.keys) >= nth
        assert code in (0, 3, 12, 13), document
        if code in (12, 13):
            assert keys <= bucket.keys(name)
        codes.add(code)
        with pytest.MonkeyPatch.context() as patch:
            after = bucket.rows(name, patch)
            assert {id_: after[id_] for id_ in after if id_ in before} == {
                id_: rows for id_, rows in before.items() if id_ in after
            }
            head = max(after)
            assert after[head] == before[max(before)]
        for _ in range(3):
            code, document = run(command, name, *words)
            assert code == 0, document
            if document["status"] == "nothing-to-do":
                break
        assert document["status"] == "nothing-to-do"
        code, document = run("validate", name, "--level", "data", "--all-snapshots")
        assert code == 0, document
    if FAILURES[failure].is_done:  # it is asked again, and finds its own file: nothing is lost
        assert codes == {0}
    else:
        assert codes - {0}, "no failure was told of"
    assert failure not in ("access denied", "connection refused") or 12 not in codes
