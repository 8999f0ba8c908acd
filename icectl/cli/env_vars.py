"""Every environment variable that icectl reads, and what it does."""

from collections.abc import Mapping

from icectl.cli.settings import SETTINGS

ENV_VARS: Mapping[str, str] = {
    "ICECTL_CONFIG": "the configuration file, where `--config` names none",
    **{setting.variable: f"`{setting.key}`: {setting.help}" for setting in SETTINGS},
    "PYICEBERG_HOME": "the folder of PyIceberg's `.pyiceberg.yaml`, whose catalogs are known",
    "PYICEBERG_CATALOG__NAME__KEY": "property KEY of catalog NAME; `__` in it is a dot, `_` a dash",
    "NO_COLOR": "no colour where `--color` and `ICECTL_COLOR` say nothing",
    "FORCE_COLOR": "colour even where the output is no terminal; `NO_COLOR` wins",
    "TERM": "`dumb` means neither colour nor a progress bar",
    "COLUMNS": "columns of the terminal, where it does not tell",
    "XDG_CONFIG_HOME": "the folder of `icectl/icectl.toml`, where it is not `~/.config`",
}
"""In the order in which the manual lists them."""
