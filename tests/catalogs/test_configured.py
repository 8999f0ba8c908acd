"""Catalogs as people have them configured: by PyIceberg's file and variables, or icectl's own."""

from pathlib import Path

import pytest
from pyiceberg.utils.config import Config

from icectl.catalog.configured import (
    Configuration,
    is_secret_property,
    own_layer,
    read_configuration,
)
from icectl.errors import TableNotFound, Unsupported, UsageError

YAML = """\
default-catalog: Prod
catalog:
  Prod:
    URI: http://rest:8181/ws
    s3.endpoint: http://minio:9000
    s3.access-key-id: admin
    flag: true
    number: 012
    nothing:
    ssl:
      client:
        cert: /c.pem
  other:
    type: glue
"""


def configuration(tmp_path: Path, environment: dict[str, str]) -> Configuration:
    return read_configuration(environment, {}, lambda: [tmp_path])


def test_files_and_variables_are_read_as_pyiceberg_reads_them(tmp_path, monkeypatch):
    (tmp_path / ".pyiceberg.yaml").write_text(YAML)
    environment = {
        "PYICEBERG_CATALOG__PROD__S3__SECRET_ACCESS_KEY": "hush",
        "PYICEBERG_CATALOG__PROD__S3__ENDPOINT": "http://else:9000",
        "pyiceberg_catalog__my_cat__Header__X_Y": "z",
        "PYICEBERG_CATALOG__MY_CAT__URI": "thrift://hms:9083",
        "PYICEBERG_MAX_WORKERS": "4",
    }
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYICEBERG_HOME", raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    expected = Config()
    found = configuration(tmp_path, environment)
    assert sorted(found.catalogs) == sorted(expected.get_known_catalogs())
    for name in ("other", "my-cat"):
        own = found.settings(name, {}, {}).properties
        assert own == expected.get_catalog_config(name)
    own = dict(found.settings("PROD", {}, {}).properties)
    theirs = dict(expected.get_catalog_config("prod") or {})
    assert own.pop("ssl.client.cert") == theirs.pop("ssl")["client"]["cert"]  # type: ignore[index]
    assert own == theirs


def test_the_first_file_that_says_something_counts(tmp_path):
    for name, text in (("a", ""), ("b", "catalog: {b: {type: glue}}"), ("c", YAML)):
        (tmp_path / name).mkdir()
        (tmp_path / name / ".pyiceberg.yaml").write_text(text)
    found = read_configuration(
        {"PYICEBERG_HOME": str(tmp_path / "a")}, {}, lambda: [tmp_path / "b", tmp_path / "c"]
    )
    assert list(found.catalogs) == ["b"]


def test_the_strongest_layer_of_a_property_counts(tmp_path):
    (tmp_path / ".pyiceberg.yaml").write_text("catalog: {p: {uri: http://y, d: y}, q: {a: y}}")
    table = {"uri": "http://t", "a": "t", "b": "t", "c": "t", "s3": {"region": "r"}}
    own = own_layer({"P": table}, Path("f.toml"))
    environment = {"PYICEBERG_CATALOG__P__A": "e", "PYICEBERG_CATALOG__P__B": "e"}
    found = read_configuration(environment, own, lambda: [tmp_path])
    settings = found.settings("p", environment, {"A": "o"})
    assert (settings.kind, settings.properties) == (
        "rest",
        {"uri": "http://t", "a": "o", "b": "e", "c": "t", "s3.region": "r"},
    )
    assert settings.origins == {
        "uri": "`catalog.P.uri` in f.toml",
        "a": "`--catalog-option`",
        "b": "`PYICEBERG_CATALOG__P__B`",
        "c": "`catalog.P.c` in f.toml",
        "s3.region": "`catalog.P.s3.region` in f.toml",
    }
    assert found.catalogs["q"]["a"].origin == f"`{tmp_path}/.pyiceberg.yaml`"


@pytest.mark.parametrize(
    ("properties", "kind"),
    [
        ({"uri": "http://h"}, "rest"),
        ({"uri": "https://h"}, "rest"),
        ({"uri": "thrift://h:9083"}, "hive"),
        ({"uri": "sqlite:////c.db"}, "sql"),
        ({"uri": "postgresql+psycopg2://h/d"}, "sql"),
        ({"uri": "mysql+pymysql://h/d"}, "sql"),
        ({"uri": "jdbc:postgresql://h/d"}, "sql"),
        ({"type": "SQL", "uri": "mariadb://h/d"}, "sql"),
        ({"type": "glue"}, "glue"),
        ({"type": "rest", "uri": "http://h"}, "rest"),
    ],
)
def test_the_kind_is_that_of_the_type_or_of_the_uri(properties, kind):
    assert Configuration({}).settings("c", {}, properties).kind == kind


@pytest.mark.parametrize(
    ("properties", "error", "message"),
    [
        ({"type": "rest"}, UsageError, "catalog `c` has no `uri`"),
        (
            {"uri": "ftp://h"},
            UsageError,
            "catalog `c` has no `type`, and its `uri` does not imply one",
        ),
        ({"warehouse": "w"}, UsageError, "catalog `c` has no `uri`"),
        (
            {"type": "dynamodb"},
            Unsupported,
            "catalog `c` has type `dynamodb`, which icectl does not support",
        ),
        (
            {"py-catalog-impl": "a.b"},
            Unsupported,
            "catalog `c` is a Python class, which icectl does not run",
        ),
        (
            {"type": "glue", "token": "env:NO"},
            UsageError,
            "property `token` of catalog `c`: environment variable `NO` is not set",
        ),
    ],
)
def test_a_configuration_that_makes_no_catalog_says_why(properties, error, message):
    with pytest.raises(error) as caught:
        Configuration({}).settings("c", {}, properties)
    assert str(caught.value) == message


def test_an_unknown_catalog_lists_the_configured_ones(tmp_path):
    (tmp_path / ".pyiceberg.yaml").write_text(YAML)
    with pytest.raises(TableNotFound) as caught:
        configuration(tmp_path, {}).settings("prd", {}, {})
    assert caught.value.message == "there is no catalog `prd`"
    assert caught.value.hint == "did you mean `prod`? configured catalogs: `other`, `prod`"


@pytest.mark.parametrize("text", ["catalog: [", "- a\n", "catalog: x\n", "a: \x00"])
def test_a_file_that_cannot_be_read_is_named(tmp_path, text):
    (tmp_path / ".pyiceberg.yaml").write_text(text)
    with pytest.raises(UsageError, match=str(tmp_path / ".pyiceberg.yaml")):
        configuration(tmp_path, {})


@pytest.mark.parametrize(
    ("key", "value", "secret"),
    [
        ("token", "t", True),
        ("credential", "id:secret", True),
        ("s3.secret-access-key", "k", True),
        ("s3.session-token", "k", True),
        ("adls.account-key", "k", True),
        ("adls.connection-string", "k", True),
        ("adls.sas-token.account", "k", True),
        ("jdbc.password", "k", True),
        ("header.Authorization", "Bearer x", True),
        ("s3.access-key-id", "k", False),
        ("oauth2-server-uri", "http://h/token", False),
        ("token-refresh-enabled", "true", False),
        ("gcs.oauth2.token-expires-at", "17", False),
        ("s3.signer.endpoint", "/sign", False),
    ],
)
def test_credentials_are_told_by_their_keys(key, value, *, secret):
    assert is_secret_property(key, value) is secret


def test_no_secret_may_stand_in_icectl_toml_but_by_the_name_of_a_variable():
    for key, value in (("token", "t"), ("uri", "postgresql://u:pw@h/d")):
        with pytest.raises(UsageError, match=f"`catalog.p.{key}` in f.toml looks like a secret"):
            own_layer({"p": {key: value}}, Path("f.toml"))
    own = own_layer({"p": {"uri": "env:DB", "type": "sql"}}, Path("f.toml"))
    settings = Configuration(own).settings("p", {"DB": "postgresql://u:p%40w@h/d"}, {})
    assert settings.properties["uri"] == "postgresql://u:p%40w@h/d"
    assert set(settings.secrets) == {"p%40w", "p@w"}
    given = Configuration({}).settings("p", {}, {"uri": "jdbc:mysql://h/d?a=b&password=hush"})
    assert given.secrets == ["hush"]
    assert list(given.lines()) == [
        "catalog: p.uri = jdbc:mysql://h/d?a=b&password=*** (`--catalog-option`)"
    ]
    assert "catalog: p.uri = postgresql://u:***@h/d (`catalog.p.uri` in f.toml)" in settings.lines()


def test_yaml_is_imported_only_where_there_is_a_file(tmp_path, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "yaml", None)  # an import raises ImportError
    assert not configuration(tmp_path, {}).catalogs
    (tmp_path / ".pyiceberg.yaml").write_text(YAML)
    with pytest.raises(ImportError):
        configuration(tmp_path, {})
