"""Every command on everything hostile: others' files, secrets and sockets stay untouched.

A command that is new has to get its words here. The quick tier takes some of all combinations, by
their place in the lists; the full tier takes all.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from icectl.cli import app
from icectl.table.reviewed import PLANNED as ACTS
from tests.builders.rows import current_metadata
from tests.catalogs.rest_fake import TABLE, Quick, fake
from tests.catalogs.rest_servers import python_server
from tests.cli.conftest import Ended
from tests.security import hostile
from tests.security.deadline import at_most
from tests.security.hostile import TABLES, Scene, build, run_line
from tests.security.hostile_servers import CATALOGS, STORES
from tests.security.test_plans import forge

WORDS: dict[str, tuple[str, ...]] = {
    "inspect": ("files",),
    "validate": ("--level", "data"),
    "repair": ("--yes",),
    "maintain": ("--yes",),
    "runs": (),
    "expire-snapshots": ("--older-than", "0s", "--retain-last", "1", "--yes"),
    "rewrite-manifests": ("--min-manifests", "1", "--yes"),
    "compact": ("--engine", "local", "--rewrite-all", "--yes"),
    "expire-rows": ("--where", "id < 50", "--yes-any-filter", "--max-fraction", "1", "--yes"),
    "erase": (
        "--where",
        "id < 50",
        "--max-fraction",
        "1",
        "--expire-history",
        "--drop-tags",
        "*",
        "--yes",
    ),
    "analyze": ("--engine", "local", "--full", "--exact-deletes", "--yes"),
    "remove-orphans": ("--older-than", "2d", "--max-fraction", "1", "--yes"),
    "refs": ("branch", "main", "--at", "main", "--max-ref-age", "9d", "--replace", "--yes"),
    "properties": ("set", "owner=icectl", "--yes"),
    "relocate": ("--to", "{folder}/relocated", "--new-uuid", "--yes"),
    "doctor": (),
    "apply": (),
    "migrate-v1-v2": ("--rewrite-manifests", "--yes"),
    "upgrade-to-v3": ("--convert-position-deletes", "--yes"),
    "upgrade-to-v4": ("--layout=sfc-1", "--eager", "--yes"),
}
"""What follows the table: whatever makes a command touch as much as it can."""

PLANNED = ("expire-snapshots", "rewrite-manifests", "compact", "remove-orphans", "upgrade-to-v4")
"""Commands whose plans `apply` gets in turn."""

OUTPUTS: tuple[tuple[str, ...], ...] = (
    (),
    ("--json",),
    ("-vv", "--color", "always"),
    ("--metrics-file", "{folder}/out.prom", "--quiet"),
)
SECONDS_OF_ONE = 60


def test_every_command_has_its_words():
    assert set(WORDS) == set(app.COMMANDS)


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    with hostile.scene(tmp_path) as made:
        yield made


def combinations(names: Sequence[str], step: int) -> list[Any]:
    """Each name with each command; all but every `step`th, a prime, is for the full tier."""
    return [
        pytest.param(
            name,
            command,
            id=f"{name}-{command}",
            marks=() if (at + 2 * place) % step == 0 else pytest.mark.full,
        )
        for at, name in enumerate(names)
        for place, command in enumerate(WORDS)
    ]


def plan_of(folder: Path, command: str, *target: str) -> Path:
    """The plan of a command."""
    place = folder / "plan.json"
    words = [word for word in WORDS[command] if word != "--yes"]
    ended = run_line([command, *target, *words, "-n", "--save-plan", str(place)])
    assert ended.code == 0, ended
    return place


def words_of(scene: Scene, command: str) -> list[str]:
    return [word.format(folder=scene.folder) for word in WORDS[command]]


def outputs(scene: Scene, turn: int) -> list[str]:
    return [word.format(folder=scene.folder) for word in OUTPUTS[turn % len(OUTPUTS)]]


def check_outputs(scene: Scene, ended: Ended) -> None:
    """The canaries are whole, and metrics and plans tell no secret either."""
    scene.check(ended)
    for name in ("out.prom", "plan.json", "deleted.txt"):
        written = scene.folder / name
        if written.exists():
            assert hostile.SECRET not in written.read_text()
            assert hostile.KEY not in written.read_text()


@pytest.mark.parametrize(("name", "command"), combinations(list(TABLES), 11))
def test_hostile_tables(scene, name, command):
    built = build(scene, version=1 if command == "migrate-v1-v2" else 2)
    turn = list(TABLES).index(name) + list(WORDS).index(command)
    if command == "apply":
        target = str(plan_of(scene.folder, PLANNED[turn % len(PLANNED)], str(scene.table)))
    else:
        target = str(scene.table)
    TABLES[name](scene, built)
    before = own_files(scene)
    with at_most(SECONDS_OF_ONE):
        ended = run_line([command, target, *words_of(scene, command), *outputs(scene, turn)])
    check_outputs(scene, ended)
    if ended.code in (2, 5, 10, 14, 15):
        assert before.items() <= own_files(scene).items(), ended


def own_files(scene: Scene) -> dict[str, bytes]:
    return {
        str(path): path.read_bytes()
        for path in scene.table.rglob("*")
        if path.is_file() and not path.is_symlink()
    }


@pytest.mark.parametrize(("name", "command"), combinations(list(CATALOGS), 13))
def test_hostile_catalogs(scene, name, command):
    build(scene, version=1 if command == "migrate-v1-v2" else 2)
    turn = list(CATALOGS).index(name) + list(WORDS).index(command)
    with fake(current_metadata(scene.table)) as served:
        assert served.server is not None
        options = ["--catalog-option", f"uri={served.server.uri}"]
        options += ["--catalog-option", f"token=env:{hostile.VARIABLE}"]
        target = TABLE
        if command == "apply":
            target = str(plan_of(scene.folder, PLANNED[turn % 2], TABLE, *options))
        CATALOGS[name](scene, served)
        words = [command, target, *words_of(scene, command), *options, *outputs(scene, turn)]
        with at_most(SECONDS_OF_ONE):
            ended = run_line(words, Quick())
    check_outputs(scene, ended)


@pytest.mark.parametrize(("name", "command"), combinations(list(STORES), 19))
def test_hostile_stores(scene, name, command):
    build(scene)
    turn = list(STORES).index(name) + list(WORDS).index(command)
    target = "s3://b/wh/t"
    options = []
    if command == "apply":
        place = plan_of(scene.folder, "expire-snapshots", str(scene.table))
        forge(place, lambda plan: plan.update(table=target))
        forge(place, lambda plan: plan["base"].update(location=target))
        target = str(place)
    with python_server(lambda seen: STORES[name](scene, seen)) as server:
        for key, value in (
            ("key", "OPERATORKEY"),
            ("secret", f"env:{hostile.VARIABLE}"),
            ("endpoint_url", server.uri),
        ):
            options += ["--storage-option", f"{key}={value}"]
        words = [command, target, *words_of(scene, command), *options, *outputs(scene, turn)]
        with at_most(SECONDS_OF_ONE):
            ended = run_line([*words, "--time-limit", "20s"], Quick())
        assert command in ("apply", "runs") or server.seen
        for seen in server.seen:
            assert hostile.SECRET not in str(seen.headers)
    check_outputs(scene, ended)


THEFT: dict[str, Any] = {
    "catalog_option": ["uri=http://{address}", f"token=env:{hostile.VARIABLE}"],
    "storage_option": ["endpoint_url=http://{address}", f"secret=env:{hostile.VARIABLE}"],
    "spark_conf": ["spark.python.daemon.module=evil"],
    "remote": "sc://{address}",
    "deleted_list": "{home}/letter.txt",
    "metrics_file": "{home}/letter.txt",
    "save_plan": "{home}/letter.txt",
    "config": "{home}/id.key",
    "dry_run": False,
}
"""Options that a plan has no say in."""


def in_scene(scene: Scene, value: Any) -> Any:
    if isinstance(value, list):
        return [in_scene(scene, one) for one in value]
    if isinstance(value, str):
        return value.format(address=scene.address, home=scene.home)
    return value


@pytest.mark.parametrize("command", [name for name in WORDS if name in ACTS])
def test_hostile_plans(scene, command):
    build(scene, version=1 if command == "migrate-v1-v2" else 2)
    place = plan_of(scene.folder, command, str(scene.table))
    sealed = place.read_text()
    before = own_files(scene)
    for option, value in THEFT.items():
        place.write_text(sealed)
        forge(place, lambda plan: plan["options"].update({option: in_scene(scene, value)}))  # noqa: B023
        for words in (["--dry-run"], ["--json"]):
            ended = run_line(["apply", str(place), *words])
            scene.check(ended)
            assert ended.code == 5, (option, ended)
    assert own_files(scene) == before


POLICIES = {
    "a secret of the environment": f"[catalog.c]\ntoken = 'env:{hostile.VARIABLE}'\n",
    "a file of others": "[[rule]]\ntables = '**'\n[rule.remove-orphans]\nquarantine = '{home}'\n",
    "a name that is obeyed": '[[rule]]\ntables = "x\\n::error::y\\u001b[8m"\n',
    "an option that is none": '"x\\n::error::y" = 1\n',
    "many levels": "a = " + "[" * 100_000,
    "a name of many levels": f"a{'.a' * 3000} = 1\n",
    "a number of digits": "steps = " + "9" * 5000,
    "Spark": "[compact]\nspark-conf = ['spark.python.daemon.module=evil']\n",
    "a key": "{key}",
}


@pytest.mark.parametrize("name", POLICIES)
def test_hostile_policies(scene, name):
    build(scene)
    place = scene.folder / "policy.toml"
    text = POLICIES[name].replace("{home}", str(scene.home)).replace("{key}", hostile.KEY)
    place.write_text(text)
    for words in (["-n"], ["--yes", "--json"]):
        command = ["maintain", str(scene.table), "--policy", str(place), "--untrusted-policy"]
        ended = run_line([*command, *words])
        if name != "a key":  # the operator may see what the operator has named
            scene.check(ended)
        assert ended.code != 1
