"""Every environment variable that icectl reads, and what it does."""

from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches

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

_PREFIX = "ICECTL_"
_OWN = [name.removeprefix(_PREFIX) for name in ENV_VARS if name.startswith(_PREFIX)]


def unknown_variables(environment: Iterable[str]) -> Iterator[str]:
    """Tell of each variable that looks like one of icectl's and is none, as for a misspelt one.

    What tests of icectl go by is left alone.
    """
    for name in sorted(environment):
        if not name.startswith(_PREFIX) or name in ENV_VARS or name.startswith(f"{_PREFIX}TEST_"):
            continue
        near = get_close_matches(name.removeprefix(_PREFIX), _OWN, n=1)
        meant = f"; did you mean {_PREFIX}{near[0]}?" if near else ""
        yield f"icectl knows no environment variable {name}{meant}"
