"""Every end that a commit to a REST server may have, with a server that ends it so."""

import errno
import json
import os
import sys
from collections.abc import Callable, Iterator
from io import StringIO
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from icectl.catalog.rest import commits
from tests.builders.expiry import aged_table, reachable
from tests.builders.first_writers import as_first_writers_did
from tests.builders.rows import current_metadata
from tests.catalogs.rest_fake import Fake, fake
from tests.catalogs.rest_servers import Reply, Seen, refusal


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Fake]:
    with fake(current_metadata(aged_table(tmp_path).table.directory)) as served:
        yield served


def files(catalog: Fake) -> set[Path]:
    return set(catalog.location.parents[1].rglob("*"))


def answered(catalog: Fake, *replies: Reply | Callable[[Seen], Reply | None] | None) -> None:
    """The first commits get these answers; None: the catalog's own."""
    left = list(replies)

    def before(seen: Seen) -> Reply | None:
        if seen.method != "POST" or "/tables/" not in seen.path or not left:
            return None
        reply = left.pop(0)
        return reply(seen) if callable(reply) else reply

    catalog.before = before


def landed_but(catalog: Fake, reply: Reply) -> Callable[[Seen], Reply]:
    """The commit is made, and this is answered."""

    def answer(seen: Seen) -> Reply:
        assert catalog.commit(seen).status == 200
        return reply

    return answer


NO_ANSWER = [
    Reply(breaks=True), Reply(500, b"<html>oops</html>"), Reply(502, b"bad gateway"),
    refusal(503, "try later", "ServiceUnavailableException"), Reply(504, b""),
    refusal(500, "who knows", "CommitStateUnknownException"),
    refusal(500, "it broke at some moment", "RuntimeException"), Reply(408, b""), Reply(204, b""),
    Reply(200, b"not json"),
]  # fmt: skip
NAMES = [
    "dropped", "500", "502", "503", "504", "said unknown", "said broken", "408", "204", "no JSON",
]  # fmt: skip


def test_the_request_says_what_must_hold_and_what_changes(catalog):
    before = catalog.metadata
    assert catalog.expire()[0] == 0
    [post] = catalog.posts
    assert post.path == "/v1/namespaces/db/tables/t"
    assert post.headers["content-type"] == "application/json"
    main, v1 = (before["refs"][name]["snapshot-id"] for name in ("main", "v1"))
    gone = [s["snapshot-id"] for s in before["snapshots"] if s["snapshot-id"] not in (main, v1)]
    assert post.json == {
        "identifier": {"namespace": ["db"], "name": "t"},
        "requirements": [
            {"type": "assert-table-uuid", "uuid": before["table-uuid"]},
            {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": main},
            {"type": "assert-ref-snapshot-id", "ref": "v1", "snapshot-id": v1},
        ],
        "updates": [{"action": "remove-snapshots", "snapshot-ids": gone}],
    }


@pytest.mark.parametrize("reply", NO_ANSWER, ids=NAMES)
def test_a_commit_that_landed_is_found_whatever_was_answered(catalog, reply):
    answered(catalog, landed_but(catalog, reply))
    code, document = catalog.expire()
    assert (code, catalog.commits, len(catalog.posts)) == (0, 1, 1), document
    assert document["result"]["deleted"]["data_files"] > 0


@pytest.mark.parametrize("reply", NO_ANSWER[:4], ids=NAMES[:4])
def test_one_that_got_lost_is_sent_again_under_the_same_key(catalog, reply):
    answered(catalog, reply)
    code, document = catalog.expire()
    assert (code, catalog.commits, len(catalog.posts)) == (0, 1, 2), document
    first, second = catalog.posts
    assert first.body == second.body
    key = first.headers["idempotency-key"]
    assert key == second.headers["idempotency-key"]
    assert (len(key), key[14], key[19] in "89ab") == (36, "7", True)


@pytest.mark.parametrize("reply", NO_ANSWER[:4], ids=NAMES[:4])
def test_where_nobody_ever_says_nothing_is_deleted(catalog, reply):
    before = files(catalog)
    answered(catalog, *[reply] * 9)
    code, document = catalog.expire()
    assert (code, document["error"]["id"], catalog.commits) == (12, "commit-unknown", 0)
    assert before <= files(catalog)


def to_another_table(catalog: Fake) -> Reply:
    other = {**catalog.metadata, "table-uuid": str(uuid4()), "snapshots": [], "refs": {}}
    other |= {"current-snapshot-id": -1, "snapshot-log": []}
    return Reply(body={"metadata-location": "/w/other/metadata/v1.json", "metadata": other})


@pytest.mark.parametrize("lands", [True, False])
@pytest.mark.parametrize("of_another", [True, False], ids=["another table", "the table before"])
@pytest.mark.parametrize(
    ("words", "deletes"),
    [
        (("expire-snapshots", "--older-than", "0s", "--retain-last", "1", "--yes"), True),
        (("rewrite-manifests", "--min-manifests", "1"), False),
        (("refs", "tag", "new"), False),
    ],
)
def test_an_answer_without_the_commit_is_not_believed(catalog, lands, of_another, words, deletes):
    """Something on the way answered with what it had of an older request, or of another's."""
    before, whole = Reply(body=catalog.loaded()), files(catalog)

    def answer(seen: Seen) -> Reply:
        reply = to_another_table(catalog) if of_another else before
        if lands:
            catalog.commit(seen)
        return reply

    answered(catalog, answer)
    code, document = catalog.run(*words)
    assert (code, catalog.commits, len(catalog.posts)) == (0, 1, 1 if lands else 2), document
    assert not [each for each in document["warnings"] if "requested" in each]
    assert (not whole <= files(catalog)) == deletes


def test_an_answer_that_never_has_the_commit_is_exit_12(catalog):
    whole = files(catalog)
    answered(catalog, *[lambda _: Reply(body=catalog.loaded())] * 9)
    code, document = catalog.expire()
    assert (code, "a table without it" in document["error"]["message"]) == (12, True)
    assert whole <= files(catalog)


def test_a_late_commit_is_found_when_it_comes(catalog):
    """The first request is still on its way when the second is refused as a conflict."""
    late: list[Seen] = []

    def second(seen: Seen) -> Reply:
        catalog.commit(late[0])
        return refusal(409, "snapshots are gone", "CommitFailedException")

    answered(catalog, lambda seen: late.append(seen) or Reply(504, b""), second)
    assert catalog.expire()[0] == 0
    assert catalog.commits == 1


def test_a_refusal_of_the_second_says_nothing_of_the_first(catalog):
    """The first may still come: then its files must be there."""
    before = files(catalog)
    bad = refusal(400, "no such update", "BadRequestException")
    answered(catalog, Reply(504, b""), bad, bad, bad)
    assert catalog.expire()[0] == 12
    assert before <= files(catalog)


def test_a_refusal_dressed_as_500_is_told_as_one(catalog):
    before = files(catalog)
    message = "Nessie does not allow external snapshot management"
    answered(catalog, refusal(500, message, "IllegalArgumentException"))
    code, document = catalog.expire()
    assert (code, document["error"]["id"]) == (5, "refused")
    assert message in document["error"]["message"]
    assert (len(catalog.posts), files(catalog)) == (1, before)


@pytest.mark.parametrize(
    ("reply", "code", "said"),
    [
        (refusal(400, "malformed thing"), 5, "malformed thing"),
        (refusal(422, "not allowed here"), 5, "not allowed here"),
        (refusal(400, "Unrecognized action: remove-snapshots"), 14, "Unrecognized action"),
        (refusal(406, "not supported", "UnsupportedOperationException"), 14, "not supported"),
        (refusal(501, "not done yet", "NotImplementedException"), 14, "not done yet"),
        (refusal(403, "no right to commit"), 13, "no right to commit"),
        (refusal(404, "Table does not exist", "NoSuchTableException"), 10, "does not exist"),
    ],
)
def test_refusals_are_told_with_the_servers_words(catalog, reply, code, said):
    before = files(catalog)
    answered(catalog, *[reply] * 5)
    found, document = catalog.expire()
    assert (found, said in document["error"]["message"]) == (code, True), document
    assert (catalog.commits, files(catalog)) == (0, before)


@pytest.mark.parametrize(("status", "code"), [(404, 10), (403, 13), (409, 12), (504, 12)])
def test_where_the_table_cannot_be_loaded_either_a_plain_refusal_counts(catalog, status, code):
    before = files(catalog)

    def refused(seen: Seen) -> Reply | None:
        refuses = catalog.posts and "/tables/t" in seen.path
        return refusal(status if seen.method == "POST" else 403, "no") if refuses else None

    catalog.before = refused
    assert catalog.expire()[0] == code
    assert before <= files(catalog)


def test_a_conflict_is_planned_anew_and_given_up_in_the_end(catalog):
    answered(catalog, refusal(409, "someone else was faster"))
    assert catalog.expire()[0] == 0
    first, second = (post.headers["idempotency-key"] for post in catalog.posts)
    assert first != second


def test_conflicts_without_end_are_exit_11(catalog):
    before = files(catalog)
    answered(catalog, *[refusal(409, "someone else was faster")] * 99)
    code, document = catalog.expire()
    assert (code, "someone else was faster" in document["error"]["message"]) == (11, True)
    (record,) = files(catalog) - before  # nothing shows that no request may come yet
    assert record.name.startswith("icectl-expire-snapshots-")


def check_whole(catalog: Fake) -> None:
    """No file of any snapshot is gone."""
    directory = catalog.location.parents[1]
    there = {str(path.relative_to(directory)) for path in files(catalog)}
    assert reachable(directory, catalog.metadata) - there == set()


REWRITES = [
    ("rewrite-manifests", "--yes"),
    ("compact", "--rewrite-all", "--engine", "local", "--method", "rewrite"),
]


@pytest.mark.parametrize("words", REWRITES, ids=lambda words: words[0])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_commit_that_lands_after_its_conflict_keeps_its_files(catalog, words, method):
    """Somebody on the way repeated the request: the second met the first, which was under way."""
    waiting: list[Seen] = []
    looks = iter(range(9))

    def before(seen: Seen) -> Reply | None:
        if not seen.path.endswith("/tables/t"):
            return None
        if seen.method == "POST" and not catalog.commits and not waiting:
            waiting.append(seen)
            return refusal(409, "a commit is in progress", "CommitFailedException")
        if waiting and seen.method == method and (method == "POST" or next(looks)):
            catalog.commit(waiting.pop())
        return None

    catalog.before = before
    code, document = catalog.run(*words)
    assert (code, catalog.commits) == (0, 1), document
    check_whole(catalog)


def expired_under_another(catalog: Fake) -> None:
    """Another writer's snapshot with the files of the head, which it expires."""
    metadata = catalog.metadata
    head = metadata["snapshots"][-1]
    number = metadata["last-sequence-number"] + 1
    newer = head | {
        "snapshot-id": 77, "parent-snapshot-id": head["snapshot-id"], "sequence-number": number
    }  # fmt: skip
    on_main = {"ref-name": "main", "type": "branch", "snapshot-id": 77}
    for updates in (
        [{"action": "add-snapshot", "snapshot": newer}, {"action": "set-snapshot-ref"} | on_main],
        [{"action": "remove-snapshots", "snapshot-ids": [head["snapshot-id"]]}],
    ):
        body = json.dumps({"requirements": [], "updates": updates}).encode()
        assert catalog.commit(Seen("POST", "", {}, body)).status == 200


@pytest.mark.parametrize("words", REWRITES, ids=lambda words: words[0])
@pytest.mark.parametrize("logs", [True, False])
def test_a_commit_that_landed_after_its_conflict_and_expired_is_found(catalog, words, logs):
    """It is not made again: manifests of the first would be there beside the second (R-041)."""
    waiting: list[Seen] = []

    def before(seen: Seen) -> Reply | None:
        if seen.method != "POST" or "/tables/" not in seen.path:
            return None
        if not waiting:
            waiting.append(seen)
            return refusal(409, "a commit is in progress", "CommitFailedException")
        catalog.commit(waiting[0])
        expired_under_another(catalog)
        if not logs:
            for name in catalog.metadata["metadata-log"]:
                Path(name["metadata-file"]).unlink(missing_ok=True)
        return None

    catalog.before = before
    code, document = catalog.run(*words)
    assert (code, catalog.commits, len(catalog.posts)) == (0 if logs else 12, 3, 2), document
    check_whole(catalog)


def test_files_of_conflicts_without_end_stay_until_none_can_land(catalog):
    answered(catalog, *[refusal(409, "a commit is in progress")] * 99)
    before = files(catalog)
    assert catalog.run("rewrite-manifests", "--yes")[0] == 11
    late = catalog.posts[-1]
    assert len(files(catalog) - before) > 2
    assert catalog.commit(late).status == 200
    check_whole(catalog)


def test_429_is_waited_for(catalog):
    answered(catalog, *[refusal(429, "slow down")] * 2)
    assert catalog.expire()[0] == 0
    assert len({post.headers["idempotency-key"] for post in catalog.posts}) == 1


def test_a_server_without_a_metadata_log_deletes_nothing(catalog):
    """Whether a tag was dropped cannot be told, so no file goes."""
    before = files(catalog)

    def without_log(seen: Seen) -> Reply:
        reply = catalog.commit(seen)
        reply.body["metadata"].pop("metadata-log")
        return reply

    answered(catalog, without_log)
    code, document = catalog.expire()
    assert (code, "has landed" in document["error"]["message"]) == (12, True)
    assert before <= files(catalog)


def test_an_endpoint_that_is_not_offered_is_exit_14_before_anything(catalog):
    catalog.config["endpoints"] = ["GET /v1/{prefix}/namespaces/{namespace}/tables/{table}"]
    before = files(catalog)
    code, document = catalog.expire()
    assert (code, document["error"]["id"]) == (14, "unsupported")
    assert "POST /v1/{prefix}/namespaces" in document["error"]["message"]
    assert (catalog.posts, files(catalog)) == ([], before)


@pytest.mark.parametrize("command", ["expire-snapshots", "rewrite-manifests", "compact"])
@pytest.mark.parametrize("member", ["encryption-keys", "x-unknown"])
def test_what_the_server_does_not_show_is_kept_by_changing_nothing(catalog, command, member):
    """The file has a member that the server's answer lacks: a commit would lose it."""
    before = files(catalog)
    whole = {**catalog.metadata, "format-version": 3, "next-row-id": 100, member: [{"key-id": "k"}]}
    catalog.location.write_text(json.dumps(whole))
    catalog.extra = {"metadata": {name: value for name, value in whole.items() if name != member}}
    options = ["--engine", "local"] if command == "compact" else []
    code, document = catalog.run(command, *options)
    assert (code, member in document["error"]["message"]) == (14, True), document
    assert (catalog.posts, files(catalog)) == ([], before)


def test_what_a_server_changes_by_itself_is_told(catalog):
    def with_more(seen: Seen) -> Any:
        reply = catalog.commit(seen)
        reply.body["metadata"]["properties"] = {"owner": "server"}
        return reply

    answered(catalog, with_more)
    code, document = catalog.expire()
    assert code == 0
    assert [each for each in document["warnings"] if "properties" in each]


class FullDisk(StringIO):
    def write(self, _: str) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("command", ["compact", "rewrite-manifests"])
def test_a_warning_that_cannot_be_written_takes_no_file_of_a_commit(catalog, monkeypatch, command):
    """What the server changes by itself is told while the commit has just landed."""

    def with_more(seen: Seen) -> Any:
        reply = catalog.commit(seen)
        reply.body["metadata"]["properties"] = {"owner": "server"}
        return reply

    answered(catalog, with_more)
    more = (
        ("--engine", "local", "--rewrite-all") if command == "compact" else ("--min-manifests=1",)
    )
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", FullDisk())
        assert (catalog.run(command, *more)[0], catalog.commits) == (0, 1)
    assert catalog.run("validate", "--level", "data")[0] == 0


def test_changes_that_cannot_be_compared_take_no_file_of_a_commit(catalog, monkeypatch):
    def fail(*_: object) -> Any:
        raise KeyError("no such member")

    monkeypatch.setattr(commits, "changed_otherwise", fail)
    assert (catalog.run("rewrite-manifests", "--min-manifests=1")[0], catalog.commits) == (0, 1)
    assert catalog.run("validate")[0] == 0


def test_embedded_manifests_have_no_way_through_a_server(tmp_path):
    """Version 1 snapshots without a manifest list: told before a list is written."""
    built = aged_table(tmp_path, format_version=1)
    as_first_writers_did(built.table.directory)
    with fake(current_metadata(built.table.directory)) as catalog:
        before = files(catalog)
        code, document = catalog.run("migrate-v1-v2", "--yes")
        assert (code, "manifest list" in document["error"]["message"]) == (14, True), document
        assert (catalog.posts, files(catalog)) == ([], before)


def test_metadata_files_that_leave_the_log_are_the_servers(catalog):
    """The server may still need them, and cleans up as the table wants it."""
    wanted = {
        "write.metadata.delete-after-commit.enabled": "true",
        "write.metadata.previous-versions-max": "1",
    }
    metadata = catalog.metadata
    metadata["properties"] |= wanted
    catalog.location.write_text(json.dumps(metadata))
    before = {path for path in files(catalog) if path.name.endswith(".metadata.json")}
    assert len(before) > 3
    assert catalog.expire()[0] == 0
    assert before <= files(catalog)
