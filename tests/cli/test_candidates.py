"""Names that completion offers: of catalogs, tables, refs and columns, and none that is code."""

import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import DayTransform
from pyiceberg.types import DateType, ListType, LongType, NestedField, StringType, StructType

from icectl.cli.app import main
from icectl.commands import candidates as module
from icectl.commands.candidates import candidates

ROOT = Path(__file__).parents[2]
CODE = ("$(touch ran)", "`touch ran`", "a;touch ran", "a b", "x\ny", "\x1b[31mred", "*", "-rf", "~")
SCHEMA = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "day", DateType()),
    NestedField(3, "$(touch ran)", StringType()),
    NestedField(4, "address", StructType(NestedField(5, "city", StringType()))),
    NestedField(6, "marks", ListType(7, LongType())),
)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home whose settings know a catalog of PyIceberg's, and one that nobody serves."""
    folder = tmp_path_factory.mktemp("home")
    catalog = SqlCatalog("prod", uri=f"sqlite:///{folder}/c.db", warehouse=f"file://{folder}/wh")
    for namespace in ("sales", "sales.eu", "hr", "$(touch ran)"):
        catalog.create_namespace(namespace)
    spec = PartitionSpec(PartitionField(2, 1000, DayTransform(), "at_day"))
    table = catalog.create_table("sales.orders", SCHEMA, partition_spec=spec)
    table.append(pa.Table.from_pylist([{"id": 1}], schema=table.schema().as_arrow()))
    head = table.current_snapshot()
    assert head is not None
    changes = table.manage_snapshots().create_tag(head.snapshot_id, "eoy-2025")
    for name in ("feature/x", *CODE):
        changes = changes.create_branch(head.snapshot_id, name)
    changes.commit()
    catalog.create_table("sales.orders_old", SCHEMA)
    for number, name in enumerate(set(CODE) - {"-rf"}):  # behind a dot it is one word
        catalog.create_table(("sales", name), SCHEMA, location=f"file://{folder}/wh/{number}")
    settings = folder / "icectl" / "icectl.toml"
    settings.parent.mkdir()
    settings.write_text(
        f'[catalog.prod]\nuri = "sqlite:///{folder}/c.db"\n'
        '[catalog.gone]\nuri = "http://127.0.0.1:9"\n'
    )
    program = folder / "bin" / "icectl"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -P -m icectl "$@"\n')
    program.chmod(0o755)
    return folder


@pytest.fixture
def found(home: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home))
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("ICECTL_CONFIG", raising=False)
    monkeypatch.setattr(module, "_GRACE_SECONDS", 300.0)
    return lambda line: candidates(line.split("|"))


ORDERS = "prod.sales.orders"


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("inspect|", ["gone.", "prod."]),
        ("inspect|pr", ["prod."]),
        ("inspect|prod.", ["prod.hr.", "prod.sales."]),
        ("inspect|prod.sales.", ["prod.sales.eu.", ORDERS, "prod.sales.orders_old"]),
        ("inspect|prod.sales.orders_", ["prod.sales.orders_old"]),
        ("inspect|-v|--color|always|prod.h", ["prod.hr."]),
        ("compact|prod.hr.t|prod.h", ["prod.hr."]),
        ("maintain|prod.h", ["prod.hr."]),
        ("refs|--catalog|prod|sales.orders_", ["sales.orders_old"]),
        ("inspect|--catalog|p", ["prod"]),
        (f"inspect|{ORDERS}|--ref|", ["main", "eoy-2025", "feature/x"]),
        (f"inspect|{ORDERS}|--ref|=|e", ["eoy-2025"]),  # as bash takes it apart
        (f"inspect|'{ORDERS}'|--ref=e", ["eoy-2025"]),
        (f"compact|{ORDERS}|--branch|f", ["feature/x"]),
        (f"refs|{ORDERS}|drop|m", ["main"]),
        (f"refs|{ORDERS}|fast-forward|main|--to|f", ["feature/x"]),
        (f"refs|{ORDERS}|tag|", []),  # a new name
        (f"refs|{ORDERS}|tag|--replace|eoy", ["eoy-2025"]),
        (f"compact|{ORDERS}|--zorder|", ["id", "day", "address.city"]),
        (f"compact|{ORDERS}|--sort-order|id,d", ["id,day"]),
        (f'compact|{ORDERS}|--sort-order|"d', ["day", "day(day)"]),
        (
            f"compact|{ORDERS}|--sort-order|'day(day), b",
            [
                "day(day), bucket[16](id)",
                "day(day), bucket[16](day)",
                "day(day), bucket[16](address.city)",
            ],
        ),
        (
            f'compact|{ORDERS}|--sort-order="id, t',
            ["id, truncate[10](id)", "id, truncate[10](address.city)"],
        ),
        (f'inspect|"{ORDERS}_', [f"{ORDERS}_old"]),
        (f"rewrite-manifests|{ORDERS}|--sort-by|", ["at_day"]),
        (f"inspect|{ORDERS}|files|--columns|file_path,file_f", ["file_path,file_format"]),
        (f"inspect|{ORDERS}|refs|--columns|snap", ["snapshot_id"]),
        (f"inspect|{ORDERS}|--concurrency|", []),
        (f"inspect|{ORDERS}|--storage-option|a=b|--ref|", []),
        ("inspect|--catalog-option|uri=sqlite:////x.db|prod.", []),
        ("inspect|/wh/", []),
        ("apply|", []),
        ("nonsense|", []),
    ],
)
def test_names_are_those_that_fit(found, line, names):
    assert found(line) == names


def test_sort_keys_that_are_offered_are_accepted(found, home):
    offered = found(f'compact|{ORDERS}|--sort-order|"')
    for key in offered:
        assert main(["compact", f"{home}/wh/sales/orders", "--sort-order", key, "-n", "-q"]) != 2
    assert {"id", "month(day)", "bucket[16](id)"} <= set(offered)


def test_a_table_in_a_folder_has_refs_too(found, home):
    assert found(f"inspect|{home}/wh/sales/orders|--ref|e") == ["eoy-2025"]


def completed(home: Path, folder: Path, *words: str, program: str | None = None) -> list[str]:
    """Let bash complete a line in a folder; return what it offers."""
    script = (
        f"source {ROOT}/completions/icectl.bash; compopt() {{ :; }}\n"
        'COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _icectl; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    path = f"{program or home / 'bin'}:/usr/bin:/bin"
    ended = subprocess.run(
        ["bash", "-c", script, "bash", "icectl", *words],
        capture_output=True,
        text=True,
        check=True,
        cwd=folder,
        env={"PATH": path, "HOME": str(home), "XDG_CONFIG_HOME": str(home)},
    )
    assert ended.stderr == ""
    return ended.stdout.splitlines()


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_bash_offers_tables_beside_files_and_runs_none_of_their_names(home, tmp_path):
    (tmp_path / "prod.sales.here now").touch()
    tables = completed(home, tmp_path, "inspect", "prod.sales.")
    assert tables == ["prod.sales.here now", "prod.sales.eu.", ORDERS, "prod.sales.orders_old"]
    refs = completed(home, tmp_path, "inspect", ORDERS, "--ref", "=")
    assert refs == ["main", "eoy-2025", "feature/x"]
    assert completed(home, tmp_path, "refs", ORDERS, "drop", "e") == ["eoy-2025"]
    assert [each.name for each in tmp_path.iterdir()] == ["prod.sales.here now"]


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_bash_expands_nothing_that_it_is_given(home, tmp_path):
    program = tmp_path / "bin" / "icectl"
    program.parent.mkdir()
    odd = ["$(touch ran)", "`touch ran`", "*", "a b", "${HOME}"]
    program.write_text("#!/bin/sh\ncat <<'END'\n" + "\n".join(odd) + "\nEND\n")
    program.chmod(0o755)
    place = tmp_path / "place"
    place.mkdir()
    for words in (("inspect", "t", "--ref", ""), ("refs", "t", "drop", ""), ("inspect", "")):
        assert completed(home, place, *words, program=str(program.parent)) == odd
    assert not list(place.iterdir())


def asked(home: Path, *words: str) -> tuple[int, str, str]:
    ended = subprocess.run(
        [home / "bin" / "icectl", "__complete", *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={"PATH": "/usr/bin:/bin", "HOME": str(home), "XDG_CONFIG_HOME": str(home)},
    )
    return ended.returncode, ended.stdout, ended.stderr


def test_what_fails_prints_nothing(home, tmp_path):
    broken = tmp_path / "icectl.toml"
    broken.write_text('[catalog.prod]\ntoken = "hunter2"\n')
    assert asked(home, "inspect", "gone.") == (0, "", "")
    assert asked(home, "inspect", "--config", str(broken), "") == (0, "", "")
    assert asked(home) == (0, "", "")


def test_a_catalog_that_never_answers_is_left_soon(home, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as server:
        config = tmp_path / "icectl.toml"
        config.write_text(f'[catalog.mute]\nuri = "http://127.0.0.1:{server.getsockname()[1]}"\n')
        code, out, err = asked(home, "inspect", "--config", str(config), "mute.")
    assert (out, err) == ("", "")
    assert code in (0, 3)  # 3 where the driver had to be stopped
