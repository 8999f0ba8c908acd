"""Settings: which layer wins, what is refused, and where each value came from."""

import os
from pathlib import Path
from typing import get_type_hints

import pytest

from icectl.cli.options import Common, declared_options, read_options
from icectl.cli.registry import COMMANDS, load_command
from icectl.cli.settings import (
    COLOR,
    CONCURRENCY,
    ENV_VARS,
    EXPIRE_CLEAN_METADATA,
    EXPIRE_RETAIN_LAST,
    HEALTH_LIMITS,
    METRICS_FILE,
    PRICES,
    PROGRESS,
    RENAMED_KEYS,
    SETTINGS,
    TIME_LIMIT,
    VALIDATE_LEVEL,
    Layer,
    Origin,
    resolve,
    unknown_variables,
    variable_of,
)
from icectl.errors import UsageError


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "icectl.toml"


def test_option_beats_environment_beats_file_beats_built_in(file):
    config = str(file)
    environment = {"ICECTL_CONCURRENCY": "3"}
    file.write_text("concurrency = 2\n")
    assert resolve({"concurrency": "4"}, environment, config).read(CONCURRENCY) == 4
    assert resolve({}, environment, config).read(CONCURRENCY) == 3
    assert resolve({}, {}, config).read(CONCURRENCY) == 2
    file.write_text("")
    assert resolve({}, {}, config).read(CONCURRENCY) is None


def test_the_origin_of_each_value_is_kept(file):
    file.write_text("time-limit = '15m'\n")
    settings = resolve({"concurrency": "4"}, {"ICECTL_COLOR": "never"}, str(file))
    assert settings.origin(CONCURRENCY) == Origin(Layer.OPTION, "--concurrency")
    assert settings.origin(COLOR) == Origin(Layer.ENVIRONMENT, "ICECTL_COLOR")
    assert settings.origin(TIME_LIMIT) == Origin(Layer.FILE, f"`time-limit` in {file}")
    assert settings.origin(PROGRESS) == Origin(Layer.BUILT_IN, "built-in")
    assert settings.read(TIME_LIMIT) == 900_000


def test_an_empty_variable_counts_as_not_set():
    settings = resolve({}, {"ICECTL_CONCURRENCY": "", "XDG_CONFIG_HOME": "/none"}, None)
    assert settings.read(CONCURRENCY) is None


def test_keys_of_a_command_stand_in_its_section(file):
    file.write_text(
        "[expire-snapshots]\nretain-last = 5\nclean-expired-metadata = true\n"
        "[validate]\nlevel = 'data'\n"
    )
    settings = resolve({}, {"ICECTL_EXPIRE_SNAPSHOTS_RETAIN_LAST": "9"}, str(file))
    assert settings.read(EXPIRE_RETAIN_LAST) == 9
    assert settings.read(EXPIRE_CLEAN_METADATA) is True
    assert settings.read(VALIDATE_LEVEL) == "data"


def test_the_file_of_the_configuration_folder_is_found(tmp_path):
    folder = tmp_path / "icectl"
    folder.mkdir()
    (folder / "icectl.toml").write_text("concurrency = 2\n")
    settings = resolve({}, {"XDG_CONFIG_HOME": str(tmp_path)}, None)
    assert settings.read(CONCURRENCY) == 2
    assert settings.file == folder / "icectl.toml"


def test_a_user_without_a_home_has_no_file(monkeypatch):
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 2**31 - 7)  # a container's, in no list of users
    assert resolve({}, {}, None).file is None


def test_a_named_file_replaces_that_of_the_folder(tmp_path, file):
    file.write_text("concurrency = 5\n")
    environment = {"XDG_CONFIG_HOME": str(tmp_path), "ICECTL_CONFIG": str(file)}
    assert resolve({}, environment, None).read(CONCURRENCY) == 5
    with pytest.raises(UsageError, match="`ICECTL_CONFIG`: there is no file `/none`"):
        resolve({}, {"ICECTL_CONFIG": "/none"}, None)


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("concurency = 2", "unknown key `concurency` in ", "did you mean `concurrency`?"),
        ("[expire]\nretain-last = 2", "unknown key `expire.retain-last` in ", None),
        ("[storage]\n", "unknown key `storage` in ", "`man icectl.toml` lists the keys"),
        ("retain-last = 2", "unknown key `retain-last` in ", None),
        ("[validate]\nlevel = 'deep'", "`validate.level` in ", None),
        ("concurrency = 1.5", "`concurrency` in ", None),
        ("concurrency = [1]", "`concurrency` in ", None),
        ("concurrency = 0", "`concurrency` in ", None),
        ("concurrency = true", "`concurrency` in ", None),
        ("progress = 'maybe'", "`progress` in ", None),
        ("color = 'blue'", "`color` in ", None),
        ("concurrency = ", "", None),
    ],
)
def test_what_makes_no_sense_in_the_file_is_wrong_usage(file, text, message, hint):
    file.write_text(text)
    with pytest.raises(UsageError) as caught:
        resolve({}, {}, str(file))
    assert caught.value.message.startswith(message)
    assert str(file) in caught.value.message
    if hint is not None:
        assert caught.value.hint == hint


@pytest.mark.parametrize("key", ["key", "secret", "account_key", "sas_token", "PASSWORD"])
def test_no_secret_may_stand_in_the_file(file, key):
    file.write_text(f"[storage-options]\n{key} = 'hunter2'\n")
    with pytest.raises(UsageError) as caught:
        resolve({}, {}, str(file))
    assert f"`storage-options.{key}`" in caught.value.message
    assert "hunter2" not in f"{caught.value.message}{caught.value.hint}"
    file.write_text(f"[storage-options]\n{key} = 'env:NAME'\nregion = 'eu'\n")
    assert resolve({}, {}, str(file)).storage_options == {key: "env:NAME", "region": "eu"}


def test_a_bad_value_names_where_it_stands():
    with pytest.raises(UsageError, match="`ICECTL_TIME_LIMIT`: `5` is not a duration") as caught:
        resolve({}, {"ICECTL_TIME_LIMIT": "5"}, None)
    assert caught.value.hint == "give a number with a unit: 90s 15m 24h 7d 2w"


def test_an_empty_text_of_the_file_is_wrong_usage(file):
    file.write_text('[remove-orphans]\nquarantine = ""\n')
    with pytest.raises(UsageError) as raised:
        resolve({}, {}, str(file))
    assert raised.value.message == f"`remove-orphans.quarantine` in {file} is empty"


def test_lines_tell_what_concerns_the_command(file):
    file.write_text("[validate]\nfail-on = 'warning'\n")
    settings = resolve({}, {"ICECTL_METRICS_FILE": "/m"}, str(file))
    inspect_lines = list(settings.lines("inspect"))
    assert "setting: metrics-file = /m (ICECTL_METRICS_FILE)" in inspect_lines
    assert not any("validate" in line for line in inspect_lines)
    assert f"setting: validate.fail-on = warning (`validate.fail-on` in {file})" in list(
        settings.lines("validate")
    )
    assert settings.read(METRICS_FILE) == Path("/m")


def test_every_setting_has_a_documented_variable():
    assert {setting.variable for setting in SETTINGS} <= set(ENV_VARS)
    assert len({setting.key for setting in SETTINGS}) == len(SETTINGS)


def test_every_setting_with_an_option_is_its_one_declaration():
    declared = [*declared_options(Common).values()]
    for name in COMMANDS:
        request = get_type_hints(load_command(name).function).get("request")
        declared += declared_options(request).values() if request is not None else ()
    of_settings = {id(option.setting) for option in declared if option.setting is not None}
    without = {setting.key for setting in SETTINGS if id(setting) not in of_settings}
    assert without == {
        "progress", "state-dir", "default-catalog", "erase.requested-at", "erase.deadline",
        *(setting.key for setting in (*HEALTH_LIMITS, *PRICES)),
    }  # fmt: skip


@pytest.mark.parametrize("name", COMMANDS)
def test_an_option_with_choices_takes_its_default(name):
    request = get_type_hints(load_command(name).function).get("request")
    if request is not None:
        assert set(read_options(request())) == set(declared_options(request))


@pytest.mark.parametrize(("old", "new"), RENAMED_KEYS.items())
def test_a_former_name_counts_with_a_warning(file, old, new):
    section, _, name = old.partition(".")
    file.write_text(f'[{section}]\n{name} = "2, 5"\n')
    (setting,) = [one for one in SETTINGS if one.key == new]
    in_file = resolve({}, {}, str(file))
    assert in_file.read(setting) == (2, 5)
    assert list(in_file.renamed) == [
        f"`{old}` in {file} is now `{new}`; the next release drops the old name"
    ]
    environment = {variable_of(old): "3, 6"}
    both = resolve({}, environment, str(file))
    assert both.read(setting) == (3, 6)
    assert len(both.renamed) == 2
    assert resolve({}, {**environment, setting.variable: "4, 7"}, None).read(setting) == (4, 7)
    assert list(unknown_variables(environment)) == []
