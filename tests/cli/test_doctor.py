"""`icectl doctor` from the command line: what is there, and what can be reached."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from icectl.env import Env
from tests.builders.expiry import NOW_MS
from tests.builders.table_builder import filled_table
from tests.cli.conftest import Ended, Run, checked_document
from tests.stores.fixed_env import FixedEnv

CLOSED = "http://127.0.0.1:9"
"""Where nothing listens."""


@pytest.fixture
def doctor(
    prepared: Callable[[str, Env], Run], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Run:
    """Run `icectl doctor`, in a home where nothing is."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.delenv("PYICEBERG_HOME", raising=False)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_PROFILE", "GOOGLE_APPLICATION_CREDENTIALS"):
        monkeypatch.delenv(name, raising=False)
    return prepared("doctor", FixedEnv(NOW_MS))


def checks(ended: Ended) -> dict[str, dict[str, Any]]:
    """The checks of a run by what they are of."""
    return {one["subject"]: one for one in checked_document(ended)["result"]["checks"]}


def test_a_machine_without_configuration_is_no_failure(doctor):
    ended = doctor("--json")
    found = checks(ended)
    assert ended.code == 0
    assert found["pyarrow"]["status"] == "ok"
    for absent in ("icectl.toml", "catalogs", "AWS", "Google"):
        assert found[absent]["status"] == "absent", absent
    assert doctor().out.startswith("check")


def test_java_is_named_with_its_version(doctor, tmp_path, monkeypatch):
    program = tmp_path / "jdk" / "bin" / "java"
    program.parent.mkdir(parents=True)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    found = checks(doctor("--json"))["Java"]
    assert (found["status"], "there is no `java`" in found["detail"]) == ("absent", True)
    for version, status in (("21.0.2", "ok"), ("1.8.0_392", "absent")):
        program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
        program.chmod(0o755)
        [found] = [one for one in checks(doctor("--json")).values() if one["check"] == "java"]
        assert found["status"] == status
        assert str(program) in found["detail"]


def test_credentials_are_named_and_never_shown(doctor, tmp_path, monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIA-of-the-operator")
    (tmp_path / "home" / ".aws").mkdir()
    (tmp_path / "home" / ".aws" / "credentials").write_text("secret = of-the-operator")
    ended = doctor("--json")
    assert checks(ended)["AWS"]["detail"] == "AWS_ACCESS_KEY_ID, ~/.aws/credentials"
    assert "of-the-operator" not in ended.out + ended.err


def test_every_configured_catalog_is_tried(doctor, tmp_path, monkeypatch):
    good = f"sqlite:///{tmp_path / 'catalog.db'}"
    from pyiceberg.catalog.sql import SqlCatalog

    catalog = SqlCatalog("good", uri=good, warehouse=str(tmp_path / "wh"))
    catalog.create_namespace("sales")
    catalog.close()
    monkeypatch.setenv("PYICEBERG_CATALOG__GOOD__URI", good)
    monkeypatch.setenv("PYICEBERG_CATALOG__DOWN__URI", CLOSED)
    monkeypatch.setenv("PYICEBERG_CATALOG__DOWN__CREDENTIAL", "me:secret-of-the-operator")
    ended = doctor("--json")
    found = checks(ended)
    assert (found["good"]["status"], found["good"]["detail"]) == ("ok", "namespaces: sales")
    assert found["down"]["status"] == "failed"
    assert CLOSED in found["down"]["detail"]
    assert ended.code == 13
    assert "secret-of-the-operator" not in ended.out
    alone = doctor("good", "--json")
    assert (alone.code, "down" in checks(alone)) == (0, False)
    text = doctor()
    assert (text.code, "1 check failed" in text.out) == (13, True)


def test_locations_are_listed(doctor, tmp_path):
    table = filled_table(tmp_path / "t", [1])
    ended = doctor(table.location, f"{table.location}/metadata", "--json")
    found = checks(ended)
    assert ended.code == 0
    what = "a table of version 2; `icectl upgrade-to-v3` leads to version 3"
    assert found[table.location]["detail"] == what
    assert found[f"{table.location}/metadata"]["status"] == "ok"
    closed = doctor(
        "s3://bucket/wh", "--json",
        *(f"--storage-option={pair}" for pair in (f"endpoint_url={CLOSED}", "key=a", "secret=b")),
    )  # fmt: skip
    assert closed.code == 13
    detail = checks(closed)["s3://bucket/wh"]["detail"]
    assert "no response" in detail, "a secret that is one letter hides no other letter"


def test_a_catalog_that_is_not_configured_is_named(doctor):
    ended = doctor("nowhere")
    assert (ended.code, "there is no catalog `nowhere`" in ended.err) == (10, True)
