"""The run of `icectl doctor`: look at the machine, then try catalogs and locations."""

import os
import platform
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from itertools import islice
from pathlib import Path
from typing import Literal

from icectl import __version__
from icectl.catalog.configured import Configuration
from icectl.catalog.identifier import dotted_name
from icectl.cli.console import Console
from icectl.cli.document import Outcome
from icectl.cli.naming import NameInCatalog, configuration_of, warehouse_of
from icectl.cli.options import Common
from icectl.cli.session import open_session, storage_of
from icectl.cli.tables import TableColumn, print_table
from icectl.env import Deadline
from icectl.errors import EngineError, IcectlError, Incomplete, StorageError
from icectl.files import compiled
from icectl.rows.spark_classic import check_installed, installed_java
from icectl.storage.open import open_store
from icectl.units import print_count

COMMAND = "doctor"
_SECONDS = 20
"""How long one catalog or location may take to answer."""

_LIBRARIES = ("pyarrow", "fastavro", "obstore", "fsspec", "s3fs")
_EXTRAS: Mapping[str, tuple[str, str]] = {
    "pyspark": ("spark", "compaction on Spark"),
    "google-auth": ("gcs", "Google Cloud Storage"),
    "adlfs": ("azure", "Azure's storage with options of adlfs"),
    "hdfs-native": ("hdfs", "HDFS"),
    "psycopg": ("sql", "SQL catalogs in PostgreSQL"),
    "pymysql": ("sql", "SQL catalogs in MySQL"),
}
"""Packages that not everybody needs: their extra, and what they are for."""

_CREDENTIALS: Mapping[str, tuple[Sequence[str], Sequence[str]]] = {
    "AWS": (
        ("AWS_ACCESS_KEY_ID", "AWS_PROFILE", "AWS_WEB_IDENTITY_TOKEN_FILE",
         "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI"),
        (".aws/credentials", ".aws/config"),
    ),
    "Google": (
        ("GOOGLE_APPLICATION_CREDENTIALS",),
        (".config/gcloud/application_default_credentials.json",),
    ),
    "Azure": (
        ("AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_SAS_TOKEN", "AZURE_STORAGE_CONNECTION_STRING",
         "AZURE_CLIENT_SECRET", "AZURE_FEDERATED_TOKEN_FILE"),
        (".azure",),
    ),
    "Kerberos": (("KRB5CCNAME",), ()),
}  # fmt: skip
"""Variables and files below the home that credentials come from."""


@dataclass(frozen=True, slots=True)
class Probe:
    """One thing that was looked at or tried; `absent` is no fault."""

    check: str
    subject: str
    status: Literal["ok", "absent", "failed"]
    detail: str
    hint: str | None = None


def run(common: Common, places: Sequence[str]) -> Outcome:
    """Look at the machine, and try the catalogs and locations."""
    configuration = configuration_of(common)
    names = [place for place in places if "/" not in place]
    for name in names:
        if name not in configuration:
            raise configuration.unknown(name)
    if not places:
        names = sorted(configuration.catalogs)
    checks = [*_machine(), *_settings(common, configuration), *_credentials()]
    progress = common.shell.console.progress
    progress.phase("trying catalogs and locations")
    tries = [("catalog", name, partial(_namespaces, configuration, name)) for name in names]
    tries += [("store", place, partial(_files, place)) for place in places if "/" in place]
    checks += [_tried(common, *attempt) for attempt in tries]
    redact = common.shell.console.redact
    checks = [
        replace(check, detail=redact(check.detail), hint=redact(check.hint) if check.hint else None)
        for check in checks
    ]
    failed = sum(check.status == "failed" for check in checks)
    return Outcome(
        command=COMMAND,
        result={"checks": [asdict(check) for check in checks]},
        render=lambda console: _print(console, checks, failed),
        exit_code=StorageError.exit_code if failed else 0,
    )


def _machine() -> Iterator[Probe]:
    loops = (
        "with compiled loops" if compiled.loops() is not None else "without compiled loops: slower"
    )
    yield Probe("icectl", __version__, "ok", f"{loops}; {Path(__file__).parents[2]}")
    yield Probe("python", platform.python_version(), "ok", sys.executable)
    for name in _LIBRARIES:
        yield Probe("library", name, "ok", version(name))
    for name, (extra, purpose) in _EXTRAS.items():
        try:
            yield Probe("library", name, "ok", version(name))
        except PackageNotFoundError:
            hint = f"`pip install 'icectl[{extra}]'`"
            yield Probe("library", name, "absent", f"for {purpose}", hint)
    try:
        java, place = installed_java()
        yield Probe("java", java, "ok", place)
    except EngineError as error:
        yield Probe("java", "Java", "absent", error.message, error.hint)
    try:
        check_installed()
        yield Probe("spark", "Spark on this machine", "ok", "PySpark and Java are installed")
    except EngineError as error:
        yield Probe("spark", "Spark on this machine", "absent", error.message, error.hint)


def _settings(common: Common, configuration: Configuration) -> Iterator[Probe]:
    file = common.shell.settings.file
    if file is None:
        hint = "give one with `--config FILE`; the usual place is ~/.config/icectl/icectl.toml"
        yield Probe("settings", "icectl.toml", "absent", "there is none", hint)
    else:
        yield Probe("settings", "icectl.toml", "ok", str(file))
    if not configuration.catalogs:
        yield Probe(
            "settings", "catalogs", "absent", "none is configured",
            "`[catalog.NAME]` in icectl.toml, or PyIceberg's .pyiceberg.yaml in your home",
        )  # fmt: skip


def _credentials() -> Iterator[Probe]:
    """Check for credentials in the environment and the home; no value is read."""
    for vendor, (variables, files) in _CREDENTIALS.items():
        set_names = [name for name in variables if os.environ.get(name)]
        set_names += [f"~/{file}" for file in files if _is_in_home(file)]
        if set_names:
            yield Probe("credentials", vendor, "ok", ", ".join(set_names))
        else:
            yield Probe("credentials", vendor, "absent", "none in the environment or the home")


def _is_in_home(file: str) -> bool:
    try:
        return (Path.home() / file).exists()
    except (RuntimeError, OSError):
        return False


def _tried(common: Common, check: str, subject: str, describe: Callable[[Common], str]) -> Probe:
    shell = common.shell
    seconds = min(_SECONDS, shell.deadline.remaining_seconds)
    deadline = Deadline(shell.env, shell.env.monotonic_seconds() + seconds)
    try:
        detail = describe(replace(common, shell=replace(shell, deadline=deadline)))
    except Incomplete:
        return Probe(check, subject, "failed", f"no response in {_SECONDS} seconds")
    except IcectlError as error:
        return Probe(check, subject, "failed", error.message, error.hint)
    return Probe(check, subject, "ok", detail)


def _namespaces(configuration: Configuration, name: str, common: Common) -> str:
    warehouse = warehouse_of(common, NameInCatalog(name, (), configuration), storage_of(common))
    first = [dotted_name(namespace) for namespace in islice(warehouse.namespaces(), 4)]
    shown = ", ".join([*first[:3], *(["..."] if len(first) > 3 else [])])
    return f"namespaces: {shown}" if first else "it has no namespaces"


def _files(location: str, common: Common) -> str:
    options = replace(storage_of(common, location), home=location)
    store = open_store(options, common.shell.env, common.shell.deadline)
    count = len(store.list_directory(location))
    files = f"{print_count(count, 'file')} directly in it" if count else "no file directly in it"
    try:
        table = open_session(common, location, read_only=True).context.catalog.load().metadata
    except IcectlError:  # no table, or none that opens: the location was listed all the same
        return files
    upgrade = "; `icectl upgrade-to-v3` leads to version 3" if table.format_version < 3 else ""
    return f"a table of version {table.format_version}{upgrade}"


def _print(console: Console, checks: Sequence[Probe], failed: int) -> None:
    columns = (
        TableColumn("check"),
        TableColumn("what", cut="middle"),
        TableColumn("state"),
        TableColumn("detail", cut="wrap"),
    )
    print_table(
        console,
        columns,
        [(check.check, check.subject, check.status, check.detail) for check in checks],
    )
    for check in checks:
        if check.status == "failed" and check.hint:
            console.print_sentence(f"hint: {check.subject}: {check.hint}")
    if failed:
        console.say(f"{print_count(failed, 'check')} failed")
