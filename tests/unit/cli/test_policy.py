"""The policy of maintenance: rules, what of them holds for a table, and what is refused."""

from pathlib import Path

import pytest

from icectl.cli.settings import HEALTH_LIMITS, resolve
from icectl.commands.maintain.policy import (
    KEYS,
    RENAMED_KEYS,
    MaintenancePolicy,
    read_policy,
    thresholds_in,
)
from icectl.errors import UsageError


def policy(folder: Path, text: str) -> MaintenancePolicy:
    file = folder / "maintain.toml"
    file.write_text(text)
    return read_policy(str(file))


def test_later_rules_override_earlier_ones_key_by_key(tmp_path):
    found = policy(
        tmp_path,
        """
        [expire-snapshots]
        older-than = "7d"
        retain-last = 5
        [[rule]]
        tables = ["prod.sales.*", "/wh/*/*"]
        expire-snapshots.older-than = "2d"
        compact.files-to-save = 50
        [[rule]]
        tables = "prod.*.orders"
        steps = ["compact"]
        [rule.compact]
        files-to-save = 9
        """,
    )
    orders = found.of("prod.sales.orders").values
    file = tmp_path / "maintain.toml"
    assert {
        key: (orders[key].shown, orders[key].origin.replace(str(file), "FILE"))
        for key in (
            "expire-snapshots.retain-last", "expire-snapshots.older-than", "compact.files-to-save",
            "steps", "remove-orphans.older-than",
        )
    } == {
        "expire-snapshots.retain-last": ("5", "FILE"),
        "expire-snapshots.older-than": ("2d", "rule 1 in FILE"),
        "compact.files-to-save": ("9", "rule 2 in FILE"),
        "steps": ("compact", "rule 2 in FILE"),
        "remove-orphans.older-than": ("3d", "built-in"),
    }  # fmt: skip
    assert found.of("/wh/db/t").read("compact.files-to-save") == 50
    assert found.of("prod.other.t").read("compact.files-to-save") == 0
    assert found.of("prod.other.t").read("expire-snapshots.retain-last") == 5


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("[compact]\nfiles-to-sav = 5", "unknown key `compact.files-to-sav`, FILE",
         "did you mean `compact.files-to-save`?"),
        ("[[rule]]\ntables = 'a.*'\nwindows = '1'", "unknown key `windows`, rule 1 in FILE",
         "did you mean `window`?"),
        ("[remove-orphans]\nallow-recent = true", "unknown key `remove-orphans.allow-recent`, FILE",
         "did you mean `remove-orphans.older-than`?"),
        ("[remove-orphans]\nolder-than = '23h'",
         ("`remove-orphans.older-than`, FILE: `23h` is under a day, and other writers may still "
          "use younger files"),
         "run `icectl remove-orphans TABLE --allow-recent`, only if no writer is active"),
        ("steps = ['compat']",
         ("`steps`, FILE: `compat` is not one of `expire-rows`, `erase`, `compact`, "
          "`rewrite-manifests`, `analyze`, "
          "`expire-snapshots`, `remove-orphans`"), "`icectl man maintain.toml` lists the keys"),
        ("[[rule]]\nenabled = false", "rule 1 in FILE does not say which tables it is for",
         '`tables = ["prod.sales.*"]` does'),
        ("tables = 'a.*'", "`tables` in FILE is outside a rule",
         "a `[[rule]]` with `tables` is for some tables"),
        ("[rule]\ntables = 'a.*'", "`rule` in FILE must be written `[[rule]]`",
         "`icectl man maintain.toml` lists the keys"),
        ("enabled = []", "`enabled`, FILE: it must be a string, a number or a boolean",
         "`icectl man maintain.toml` lists the keys"),
        ("[budget]\nrewrite-bytes = 5", "`budget.rewrite-bytes`, FILE: `5` is not a size",
         "give a number with a unit, 64MB or 64MiB, or 1024 or more bytes"),
        ("xyzzy = 1", "unknown key `xyzzy`, FILE", "`icectl man maintain.toml` lists the keys"),
    ],
)  # fmt: skip
def test_mistakes_are_named_with_their_place_and_the_way_out(tmp_path, text, message, hint):
    with pytest.raises(UsageError) as caught:
        policy(tmp_path, text)
    told = caught.value.message.replace(str(tmp_path / "maintain.toml"), "FILE")
    assert (told, caught.value.hint) == (message, hint)


def test_what_is_no_file_is_wrong_usage(tmp_path):
    with pytest.raises(UsageError, match=r"cannot read .*: No such file or directory"):
        read_policy(str(tmp_path / "none.toml"))
    with pytest.raises(UsageError, match="is not a TOML file"):
        policy(tmp_path, "a = = b")


def test_options_that_would_act_on_every_run_or_on_one_table_are_no_keys():
    absent = {
        "compact.rewrite-all", "compact.branch", "expire-snapshots.snapshot-id",
        "remove-orphans.allow-recent", "remove-orphans.location", "remove-orphans.inventory",
    }  # fmt: skip
    assert not absent & set(KEYS)
    assert {
        "compact.target-file-size", "compact.where", "compact.engine", "rewrite-manifests.sort-by",
        "expire-snapshots.keep-daily", "remove-orphans.quarantine",
    } <= set(KEYS)  # fmt: skip


@pytest.mark.parametrize(("old", "new"), RENAMED_KEYS.items())
def test_a_former_name_is_the_new_one_with_a_warning(tmp_path, old, new):
    value = {"DURATION": "2d", "BOOL": "true"}.get(KEYS[new].metavar, "1")
    found = policy(tmp_path, f"[[rule]]\ntables = 'a.*'\n{old} = {value!r}")
    assert found.of("a.b").values[new].text == value
    (warning,) = found.renamed
    assert f"`{old}` in rule 1 in {tmp_path}" in warning
    assert f"is now `{new}`" in warning


def test_limits_of_health_are_the_thresholds_of_a_policy_without_them(tmp_path):
    file = tmp_path / "icectl.toml"
    file.write_text(
        "[health]\n" + "\n".join(f'{limit.option[2:]} = "2.5, 5"' for limit in HEALTH_LIMITS)
    )
    base = thresholds_in(resolve({}, {}, str(file)))
    assert len(base) == len(HEALTH_LIMITS)
    found = MaintenancePolicy(base=base).of("a.b")
    assert found.read("compact.files-to-save") == 3  # counts are whole
    assert found.read("expire-snapshots.reclaimable") == 2.5
    assert f"`health.files-to-save` in {file}" in found.values["compact.files-to-save"].origin
    assert thresholds_in(resolve({}, {}, "/dev/null")) == {}
