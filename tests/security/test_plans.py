"""Forged plans, whose hash is right: they get their command's own options, and nothing else."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from icectl.cli.options import SPARK_OPTIONS, Change, Common
from icectl.cli.registry import load_command
from icectl.env import Env
from icectl.table.reviewed import PLANNED
from tests.builders.table_builder import START_MS, TableBuilder, filled_table
from tests.builders.warehouse import rotten
from tests.catalogs.sql_servers import SqlServer
from tests.cli.conftest import Ended, Run
from tests.fault.changing import EXPIRE
from tests.fault.changing import run as run_line
from tests.stores.fixed_env import FixedEnv

NOW_MS = START_MS + 30 * 86_400_000
COMMON = sorted({*Common.__dataclass_fields__, *Change.__dataclass_fields__} - {"shell"})
Forge = Callable[[dict[str, Any]], None]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A plan that expires snapshots of a table."""
    table = filled_table(tmp_path / "t", *([number] for number in range(3)))
    found = tmp_path / "plan.json"
    words = [EXPIRE[0], str(table.directory), *EXPIRE[1:], "-n", "--save-plan", str(found)]
    assert run_line(words)[0] == 0
    return found


def forge(place: Path, change: Forge) -> None:
    """Change a plan, and give it the hash of what it says then."""
    plan = json.loads(place.read_text())
    change(plan)
    del plan["hash"]
    text = json.dumps(plan, sort_keys=True, separators=(",", ":"))
    plan["hash"] = "sha256:" + hashlib.sha256(text.encode()).hexdigest()
    place.write_text(json.dumps(plan))


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def apply(place: Path, *words: str) -> tuple[int, dict[str, Any]]:
    return run_line(["apply", str(place), "--json", *words])


def test_the_hash_of_a_forged_plan_is_right(place):
    forge(place, lambda plan: None)
    assert apply(place, "--dry-run")[1]["status"] == "planned"
    assert apply(place)[1]["status"] == "done"


@pytest.mark.parametrize("name", [*COMMON, *sorted(SPARK_OPTIONS)])
def test_options_of_the_run_are_refused(place, name):
    values: dict[str, Any] = {"dry_run": False, "yes": True, "verbose": 2}
    forge(place, lambda plan: plan["options"].update({name: values.get(name, "x")}))
    before = contents(place.parent)
    for words in (["--dry-run"], [], ["--allow-newer"]):
        code, document = apply(place, *words)
        assert (code, document["error"]["id"]) == (5, "plan-option"), document
        assert f"`{name}`" in document["error"]["message"]
    assert contents(place.parent) == before


def test_a_plan_of_a_compaction_starts_no_program(tmp_path):
    table = filled_table(tmp_path / "t", *([number] for number in range(3)))
    place = tmp_path / "plan.json"
    words = ["compact", str(table.directory), "--rewrite-all", "-n", "--save-plan", str(place)]
    assert run_line([*words, "--engine", "local"])[0] == 0
    for name, value in {
        "spark_conf": ["spark.python.daemon.module=evil_daemon"],
        "master": "spark://thief:7077",
        "remote": "sc://thief:15002",
        "deleted_list": str(tmp_path / "overwritten"),
        "save_plan": str(tmp_path / "overwritten"),
        "storage_option": ["secret=env:HOME"],
    }.items():
        text = place.read_text()
        forge(place, lambda plan: plan["options"].update({name: value}))  # noqa: B023
        assert apply(place, "--dry-run")[0] == apply(place)[0] == 5
        place.write_text(text)
    forge(
        place,
        lambda plan: plan["settings"].update(
            {"compact.master": {"value": "spark://thief:7077", "layer": "file"}}
        ),
    )
    assert apply(place)[0] == 5
    assert not (tmp_path / "overwritten").exists()


def test_every_planned_option_is_one_of_the_command_itself():
    for name in PLANNED:
        command = load_command(name)
        assert set(command.planned_options) < command.parameters
        assert not set(command.planned_options) & {*COMMON, *SPARK_OPTIONS, "tables"}


def test_a_plan_keeps_nothing_of_how_it_was_run(tmp_path, monkeypatch):
    table = filled_table(tmp_path / "t", [1])
    place = tmp_path / "plan.json"
    monkeypatch.setenv("ICECTL_COMPACT_MASTER", "spark://own:7077")
    monkeypatch.setenv("STORE_SECRET", "hidden-in-the-environment")
    secrets = [
        "spark.hadoop.fs.azure.account.key.acct.dfs.core.windows.net=hidden",
        "spark.hadoop.fs.azure.sas.fixed.token.acct.dfs.core.windows.net=hidden",
    ]
    given = [word for secret in secrets for word in ("--spark-conf", secret)]
    more = ["--storage-option", "secret=env:STORE_SECRET", "--temp-dir", str(tmp_path)]
    words = ["compact", str(table.directory), "-n", "--save-plan", str(place), "--engine", "spark"]
    assert run_line([*words, *given, *more])[0] == 0
    text = place.read_text()
    assert json.loads(text)["options"] == {"branch": "main", "job_order": "none", "engine": "spark"}
    assert "hidden" not in text
    assert "own:7077" not in text


def test_a_plan_with_a_password_in_an_address_is_not_written(tmp_path):
    table = TableBuilder(tmp_path / "t")
    place = tmp_path / "plan.json"
    words = ["remove-orphans", str(table.directory), "-n", "--save-plan", str(place), "--json"]
    code, document = run_line([*words, "--equal-authority", "a://u:hidden@host=b"])
    assert (code, place.exists()) == (2, False)
    assert "hidden" not in json.dumps(document)


def set_option(name: str, value: Any) -> Forge:
    return lambda plan: plan["options"].update({name: value})


def set_member(name: str, value: Any) -> Forge:
    return lambda plan: plan.update({name: value})


def nested(depth: int) -> Any:
    found: Any = []
    for _ in range(depth):
        found = [found]
    return found


ODD: dict[str, Forge] = {
    "result without members": set_member("result", {}),
    "result that is a list": set_member("result", [1]),
    "result with ids of a million digits": lambda plan: plan["result"]["expired"][0].update(
        snapshot_id="9" * 1_000_000
    ),
    "base without members": set_member("base", {}),
    "base that is null": set_member("base", None),
    "options that are a list": set_member("options", ["dry_run"]),
    "settings that are a text": set_member("settings", "x"),
    "a setting of an unknown layer": lambda plan: plan["settings"].update(
        {"expire-snapshots.retain-last": {"value": "1", "layer": "none"}}
    ),
    "a setting that is not a number": lambda plan: plan["settings"].update(
        {"expire-snapshots.retain-last": {"value": "x", "layer": "file"}}
    ),
    "a table that is a number": set_member("table", 5),
    "a table that is several": set_member("table", "/**"),
    "a table with NUL": set_member("table", "/tmp/\0"),
    "an instant that is a text": set_member("instant_ms", "now"),
    "an instant that is nested": set_member("instant_ms", nested(900)),
    "an instant before 1970": set_member("instant_ms", -(10**30)),
    "an instant in the future": set_member("instant_ms", 10**30),
    "a fraction of an instant": set_member("instant_ms", 0.5),
    "a metadata file that is a list": set_member("metadata_file", []),
    "a command that is a list": set_member("command", ["expire-snapshots"]),
    "an option that is a number": set_option("retain_last", 5),
    "a number of digits": lambda plan: plan["settings"].update(
        {"expire-snapshots.retain-last": {"value": "9" * 5000, "layer": "file"}}
    ),
    "an option that is true": set_option("older_than", True),
    "ids that are one text": set_option("expire_id", "1"),
    "ids that are numbers": set_option("expire_id", [1, [2]]),
    "a switch that is a text": set_option("keep_files", "no"),
    "another member": set_member("more", 1),
}


@pytest.mark.parametrize("name", ODD)
def test_odd_values_end_in_one_clear_error(place, name, capsys):
    forge(place, ODD[name])
    before = contents(place.parent)
    for words in ([], ["--dry-run"], ["--allow-newer"]):
        code, document = apply(place, *words)
        assert code in (2, 5), document
        assert document["error"]["message"]
        assert "Traceback" not in capsys.readouterr().err
    assert contents(place.parent) == before


@pytest.mark.parametrize(
    "text",
    ["[" * 100_000, '{"plan": 1, "hash": NaN}', '{"plan": 1, "hash": 5, "x": ' + "9" * 5000 + "}",
     '{"plan": [], "hash": []}', '{"plan": 1, "hash": "\\ud800"}', ""],
)  # fmt: skip
def test_text_that_is_no_plan_ends_in_one_clear_error(tmp_path, text, capsys):
    place = tmp_path / "plan.json"
    place.write_text(text)
    code, document = apply(place)
    assert code in (2, 5, 14)
    assert document["error"]["message"]
    assert "Traceback" not in capsys.readouterr().err


# -- plans of maintenance -----------------------------------------------------------------------


@pytest.fixture
def of_many(
    server: SqlServer, prepared: Callable[[str, Env], Run], tmp_path: Path
) -> Callable[..., Ended]:
    """Runs `icectl apply` on the plan of a warehouse of one table; the plan is in `plan.json`."""
    rotten(server, "rotten", appends=3)
    policy = tmp_path / "maintain.toml"
    policy.write_text(
        "[compact]\nengine = 'spark'\nfiles-to-save = 2\nspark-conf = 'a.token=my-secret'\n"
    )
    run_apply = prepared("apply", FixedEnv(NOW_MS))
    words = ("main", "-n", "--save-plan", tmp_path / "plan.json", "--policy", policy)
    ended = run_apply(*words, command="maintain")
    assert (ended.code, "not in the plan" in ended.err) == (0, True), ended.err
    return lambda *words: run_apply(tmp_path / "plan.json", "--json", *words)


def test_a_plan_of_maintenance_has_no_key_of_spark(of_many, tmp_path):
    place = tmp_path / "plan.json"
    plan = json.loads(place.read_text())
    assert plan["tables"][0]["steps"][0]["command"] == "compact"
    assert "my-secret" not in place.read_text()
    assert not {"compact.spark-conf", "compact.master", "window"} & set(plan["policies"][0])
    assert of_many("--dry-run").code == 0
    text = place.read_text()
    for key, value in {
        "compact.spark-conf": ["spark.python.daemon.module=evil"],
        "compact.master": "spark://thief:7077",
        "compact.remote": "sc://thief:15002",
        "remove-orphans.spark-conf": ["spark.python.daemon.module=evil"],
        "remove-orphans.master": "spark://thief:7077",
    }.items():
        forge(
            place,
            lambda plan: plan["policies"][0].update({key: {"value": value, "origin": ""}}),  # noqa: B023
        )
        ended = of_many("--dry-run")
        assert (ended.code, ended.document["error"]["id"]) == (5, "plan-option"), key
        place.write_text(text)
    forge(
        place,
        lambda plan: plan["tables"][0]["steps"][0]["settings"].update(
            {"compact.master": {"value": "spark://thief:7077", "layer": "file"}}
        ),
    )
    assert of_many().code == 5


def step(plan: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = plan["tables"][0]["steps"][0]
    return found


ODD_OF_MANY: dict[str, Forge] = {
    "a table twice": lambda plan: plan["tables"].append(plan["tables"][0]),
    "a step appears twice": lambda plan: plan["tables"][0]["steps"].append(step(plan)),
    "a policy is missing": lambda plan: plan["tables"][0].update(policy=7),
    "a result without members": lambda plan: step(plan).update(result={}),
    "a command without a plan": lambda plan: step(plan).update(command="validate"),
    "a policy of numbers": lambda plan: plan["policies"][0].update({"steps": 5}),
    "a text for a list": lambda plan: plan["policies"][0]["steps"].update(value="compact"),
    "a list for a text": lambda plan: plan["policies"][0]["enabled"].update(value=["true"]),
    "no number": lambda plan: plan["policies"][0]["compact.files-to-save"].update(value="x"),
    "no order": lambda plan: plan["policies"][0].update(
        {"compact.job-order": {"value": "x", "origin": ""}}
    ),
    "no tables": lambda plan: plan.pop("tables"),
}


@pytest.mark.parametrize("name", ODD_OF_MANY)
def test_odd_values_of_a_plan_of_maintenance_end_in_one_clear_error(of_many, tmp_path, name):
    forge(tmp_path / "plan.json", ODD_OF_MANY[name])
    ended = of_many()
    assert ended.code in (2, 5), ended.out
    assert ended.document["error"]["message"]
    assert "Traceback" not in ended.err


def test_apply_is_given_the_options_of_spark(place):
    code, document = apply(place, "--dry-run", "--master", "local[2]")
    assert (code, document["error"]["message"]) == (
        2,
        "`--master`: `expire-snapshots` has no such option",
    )


def test_no_plan_lets_files_outside_the_table_go(tmp_path):
    table = filled_table(tmp_path / "t", [1])
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "left.parquet").write_bytes(b"somebody's")
    place = tmp_path / "plan.json"
    words = ["remove-orphans", str(table.directory), "-n", "--save-plan", str(place), "--json"]
    code, document = run_line([*words, "--location", str(outside), "--delete-outside"])
    assert (code, document["error"]["id"]) == (5, "plan-option"), document
    assert not place.exists()
    assert run_line(words)[0] == 0

    def reach_out(plan: dict[str, Any]) -> None:
        plan["options"].update({"location": [str(outside)], "delete_outside": True})

    forge(place, reach_out)
    code, document = apply(place)
    assert (code, document["error"]["id"]) == (5, "plan-option"), document
    assert "`--delete-outside`" in document["error"]["message"]
    assert (outside / "left.parquet").exists()
