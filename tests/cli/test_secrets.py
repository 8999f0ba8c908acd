"""Credentials: a debug run against an object store never shows them."""

import pytest


@pytest.mark.s3
def test_a_debug_run_shows_locations_and_no_credentials(run, moto_server, monkeypatch):
    moto_server.client.create_bucket(Bucket="secrets")  # type: ignore[attr-defined]
    secret = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
    monkeypatch.setenv("STORE_SECRET", secret)
    options = {**moto_server.options, "key": "AKIAIOSFODNN7EXAMPLE", "secret": "env:STORE_SECRET"}
    given = [word for key in options for word in ("--storage-option", f"{key}={options[key]}")]
    ended = run("inspect", "s3://secrets/db/t", "-vv", "--json", *given)
    assert (ended.code, ended.document["error"]["id"]) == (10, "table-not-found")
    assert "debug: icectl.storage" in ended.err
    assert "s3://secrets/db/t/metadata" in ended.err
    for hidden in (secret, "AKIAIOSFODNN7EXAMPLE"):
        assert hidden not in ended.err
        assert hidden not in ended.out
