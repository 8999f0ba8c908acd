"""Addresses, names and secrets that are none end in one clear message, and show no password."""

import json

import pytest

from icectl.catalog.identifier import parse_name
from icectl.errors import StorageError, UsageError
from icectl.storage.failures import remote_failure
from tests.fault.changing import run

S3 = ("s3://bucket/t", "--storage-option", "key=k", "--storage-option", "secret=s")
OPTION = "--catalog-option"
LONG = "a" * 300


@pytest.mark.parametrize(
    ("address", "code"),
    [
        ("localhost:9000", 2), ("http://[x", 2), ("http://", 2), (" ", 2),
        ("http://127.0.0.1:99999", 2), ("http://127.0.0.1:1/a b", 2), ("http://[::1]:1", 13),
        ("http://a_b.invalid:1/path", 13), ("http://me:hush@127.0.0.1:1", 13),
    ],
)  # fmt: skip
def test_an_address_of_a_storage_is_one(address, code, fixed_env):
    words = ["inspect", *S3, "--storage-option", f"endpoint_url={address}", "--json"]
    found, document = run(words, env=fixed_env)
    assert found == code, document
    assert "hush" not in json.dumps(document)
    assert ("is not the address of a storage" in document["error"]["message"]) == (code == 2)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("inspect", "s3://[x/t"), 13),
        (("inspect", "http://[x/t"), 13),
        (("validate", "file://host/x", "file://host/y"), 13),
        (("validate", "file://host/x*"), 13),
        (("maintain", "file://host/x"), 13),
        (("validate", f"/proc/none/{LONG}*"), 10),
        (("inspect", "c.n.t", OPTION, "uri=http://127.0.0.1:1", OPTION, "token=\udcff"), 2),
        (("inspect", "c.n.t", OPTION, "uri=sqlite:///x.db?timeout=soon"), 2),
        (("inspect", "c.n.t", OPTION, "uri=sqlite:///x.db?timeout=nan"), 2),
        (("inspect", "c.n.t", OPTION, "uri=postgresql://[x/d"), 2),
        (("inspect", "c.n.t", OPTION, "uri=postgresql://me:hush/word@h/d"), 2),
        (("inspect", "c.n.t", OPTION, f"uri=thrift://{LONG}:1"), 13),
    ],
)
def test_what_is_no_name_is_told_without_a_traceback(words, code, capsys):
    found, document = run([*words, "--json"])
    assert (found, document["error"]["id"] != "bug") == (code, True), document
    assert "hush" not in json.dumps(document) + capsys.readouterr().err


def test_a_name_that_is_no_text_is_none():
    with pytest.raises(UsageError, match="not text in UTF-8"):
        parse_name("n.t\udcff")
    error = UnicodeEncodeError("utf-8", "\udcff", 0, 1, "surrogates not allowed")
    assert isinstance(remote_failure("read", "s3://b/k", error, secrets=()), StorageError)


def test_a_secret_that_is_no_text_is_told_by_its_name(monkeypatch):
    monkeypatch.setenv("SECRET", "caf\udce9")
    words = ["inspect", "c.n.t", OPTION, "uri=http://127.0.0.1:1", OPTION, "token=env:SECRET"]
    found, document = run([*words, "--json"])
    assert (found, document["error"]["message"]) == (
        2,
        "property `token` of catalog `c` is not text in UTF-8",
    )
