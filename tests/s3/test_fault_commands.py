"""What becomes of whole commands while a store fails: exit code, rows, number of requests."""

import json
from typing import Any

import pytest

from icectl.cli import app
from tests.builders.expiry import NOW_MS
from tests.s3.conftest import Bucket
from tests.s3.test_remove_orphans import wait_until_old
from tests.stores.failing_proxy import told
from tests.stores.fixed_env import FixedEnv

pytestmark = pytest.mark.s3

EXPIRE = ("expire-snapshots", "--older-than", "1m", "--retain-last", "1", "--yes")
ORPHANS = ("remove-orphans", "--older-than", "0s", "--allow-recent", "--yes")
COMMANDS = {"inspect": ("inspect",), "expire": EXPIRE, "orphans": ORPHANS}
STORMS = {"503": told(503, "SlowDown"), "429": told(429, "TooManyRequests")}
ENDED = told(400, "ExpiredToken")
DENIED = told(403, "AccessDenied")


def run(
    bucket: Bucket, capsys: pytest.CaptureFixture[str], command: str, *words: str
) -> tuple[int, Any]:
    line = [command, bucket.location("t"), *words, "--json", *bucket.arguments]
    code = app.main(line, env=FixedEnv(NOW_MS))
    return code, json.loads(capsys.readouterr().out)


def files_of_table(bucket: Bucket) -> set[str]:
    """Versions and data files; what a run has written for itself may stay."""
    return {key for key in bucket.keys("t") if key.endswith((".metadata.json", ".parquet"))}


@pytest.mark.parametrize("storm", STORMS)
def test_an_expiry_waits_a_storm_out(place, proxied, storm, capsys, monkeypatch):
    before = proxied.rows("t", monkeypatch)
    place.proxy.failures = [(method, "", STORMS[storm]) for method in ("GET", "HEAD") * 4]
    code, done = run(proxied, capsys, *EXPIRE)
    assert (code, done["status"], place.proxy.failures) == (0, "done", [])
    gone = {int(item["snapshot_id"]) for item in done["result"]["expired"]}
    after = proxied.rows("t", monkeypatch)
    assert after == {id_: rows for id_, rows in before.items() if id_ not in gone}


@pytest.mark.parametrize("storm", STORMS)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_storm_without_end_changes_nothing_and_is_asked_six_times(
    place, proxied, command, storm, capsys
):
    keys = proxied.keys("t")
    place.proxy.requests.clear()
    place.proxy.failures = [("GET", "", STORMS[storm])] * 9999
    code, document = run(proxied, capsys, *COMMANDS[command])
    assert (code, proxied.keys("t")) == (13, keys), document
    assert len(place.proxy.requests) <= 6 * 8


@pytest.mark.parametrize("command", COMMANDS)
def test_bodies_that_are_cut_are_read_again(place, proxied, command, capsys, monkeypatch):
    rows = proxied.rows("t", monkeypatch)
    place.proxy.failures = [("GET", "/metadata/", "cut")] * 3
    code, document = run(proxied, capsys, *COMMANDS[command])
    assert (code, place.proxy.failures) == (0, []), document
    assert proxied.rows("t", monkeypatch).items() <= rows.items()


def test_orphans_stay_where_a_listing_tells_the_same_again(place, proxied, capsys):
    place.put("t/data/orphan.parquet", b"")
    keys = proxied.keys("t")
    row = "<Contents><Key>wh/t/data/{}</Key><Size>1</Size><LastModified>2020-01-01T00:00:00Z"
    row += '</LastModified><ETag>"e"</ETag></Contents>'
    page = "".join(row.format(f"{number:04}") for number in range(1000))
    again = f"<ListBucketResult><IsTruncated>true</IsTruncated>{page}"
    again += "<NextContinuationToken>next</NextContinuationToken></ListBucketResult>"
    place.proxy.failures = [("GET", "?list-type=2&prefix=wh%2Ft%2F", (200, again.encode()))] * 9999
    code, document = run(proxied, capsys, *ORPHANS)
    assert (code, proxied.keys("t")) == (13, keys)
    assert "lists the same names again" in document["error"]["message"]


@pytest.mark.parametrize(
    ("method", "part"), [("GET", ""), ("GET", ".avro"), ("PUT", "metadata.json"), ("PUT", "")]
)
def test_credentials_that_end_before_the_commit_end_the_run_with_nothing_changed(
    place, proxied, method, part, capsys
):
    versions = files_of_table(proxied)
    place.proxy.requests.clear()
    place.proxy.failures = [(method, part, ENDED)] * 9999
    code, document = run(proxied, capsys, *EXPIRE)
    assert (code, document["error"]["message"].endswith("not accepted (ExpiredToken)")) == (
        13,
        True,
    )
    assert files_of_table(proxied) == versions
    assert len(place.proxy.requests) < 60


def test_credentials_that_end_while_files_are_deleted_leave_files_and_no_row_is_lost(
    place, proxied, capsys, monkeypatch
):
    before = proxied.rows("t", monkeypatch)
    failure = place.proxy.failure

    def after_the_commit(method: str, path: str) -> Any:
        if method == "PUT" and path.endswith(".metadata.json"):
            place.proxy.failures = [("POST", "delete", ENDED)] * 9999
        return failure(method, path)

    monkeypatch.setattr(place.proxy, "failure", after_the_commit)
    code, document = run(proxied, capsys, *EXPIRE)
    assert code == 3, document
    place.proxy.failures = []
    after = proxied.rows("t", monkeypatch)
    assert after
    assert after.items() <= before.items()


@pytest.mark.parametrize("command", ["expire", "orphans"])
def test_a_bucket_without_list_right_ends_the_run_with_nothing_changed(
    place, proxied, command, capsys
):
    keys = proxied.keys("t")
    place.proxy.requests.clear()
    place.proxy.failures = [("GET", "list-type=2", DENIED)] * 9999
    code, document = run(proxied, capsys, *COMMANDS[command])
    assert (code, proxied.keys("t")) == (13, keys), document
    assert "access denied" in document["error"]["message"]
    assert len(place.proxy.requests) < 20


def test_denied_deletions_name_each_file_once_and_runs_share_one_probe(place, proxied, capsys):
    orphans = [f"t/data/orphan{number}.parquet" for number in (1, 2)]
    for orphan in orphans:
        place.put(orphan, b"")
    wait_until_old(proxied)
    for _ in range(2):
        place.proxy.failures = [("POST", "delete", DENIED)] * 99
        line = [proxied.location("t"), *proxied.arguments]
        words = [*ORPHANS, "--max-fraction", "1"]
        assert app.main([words[0], *line, *words[1:]]) == 3  # aged by the server's own clock
        told_lines = [
            line
            for line in capsys.readouterr().err.splitlines()
            if "cannot" in line and "probe" not in line  # the first run's may be old by now
        ]
        assert [line.partition(": ")[2] for line in told_lines] == [
            f"cannot delete {place.at(orphan)}: access denied" for orphan in orphans
        ]
        code, document = run(proxied, capsys, *EXPIRE)
        assert (code, document["error"]["message"]) == (
            13,
            f"files in {proxied.location('t')}/metadata cannot be deleted: access denied",
        )
        assert [key for key in proxied.keys("t") if "probe" in key] == ["metadata/.icectl-probe"]
    place.proxy.failures = []
    assert run(proxied, capsys, *EXPIRE)[0] == 0
    assert [key for key in proxied.keys("t") if "probe" in key] == []
