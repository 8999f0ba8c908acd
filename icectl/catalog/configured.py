"""Catalogs as they are configured: icectl's own file, PyIceberg's file and variables, options.

PyIceberg's configuration is read as PyIceberg reads it, except a file in the working directory. For
each key, the first of option, environment and file counts. `.pyiceberg.yaml` adds nothing to
a catalog in icectl.toml. All these sources belong to the operator, so `env:NAME` is resolved in
each of them, and nowhere else.
"""

import base64
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from icectl.catalog.identifier import dotted_name
from icectl.errors import TableNotFound, Unsupported, UsageError
from icectl.units import is_text, names_secret

PYICEBERG_FILE = ".pyiceberg.yaml"
PYICEBERG_HOME = "PYICEBERG_HOME"
_PREFIX = "pyiceberg_catalog__"

_KINDS = {"rest": "rest", "sql": "sql", "jdbc": "sql", "hive": "hive", "glue": "glue"}
_KIND_OF_URI = (
    (("http",), "rest"),
    (("thrift",), "hive"),
    (("sqlite", "postgresql", "mysql", "mariadb", "jdbc:"), "sql"),
)
_NEEDS_URI = frozenset({"rest", "sql", "hive"})
_NO_SECRETS = re.compile(r"(enabled|uri|endpoint|expires-at|-ms|-seconds|scope|type|provider)$")
_PASSWORDS = re.compile(
    r"://[^/?#@:]*:([^/?#@]+)@|[?&;][^=&;]*(?:password|pwd|secret|token)[^=&;]*=([^&;]+)",
    re.IGNORECASE,
)
_SENT_TOGETHER = (
    ("auth.basic.username", "auth.basic.password"),
    ("rest.auth.basic.username", "rest.auth.basic.password"),
    ("auth.oauth2.client_id", "auth.oauth2.client_secret"),
    ("auth.oauth2.client-id", "auth.oauth2.client-secret"),
)
"""A user and a secret, which servers are shown as one."""

_PLAIN_VALUE = re.compile(r"true|false|\d*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class CatalogSettings:
    """How one catalog is reached: its kind (`rest`, `sql`, `hive` or `glue`) and its properties.

    `origins` tells in words where each property comes from.
    """

    name: str
    kind: str
    properties: Mapping[str, str] = field(repr=False)
    origins: Mapping[str, str]

    @property
    def secrets(self) -> Sequence[str]:
        """Values, and parts of values, that must not be shown, as they are sent too."""
        properties = self.properties
        secrets = [value for key, value in properties.items() if is_secret_property(key, value)]
        if "credential" in properties:
            secrets.append(properties["credential"].partition(":")[2])
        secrets += [
            base64.b64encode(f"{properties.get(user, '')}:{properties[password]}".encode()).decode()
            for user, password in _SENT_TOGETHER
            if password in properties
        ]
        passwords = [text for value in properties.values() for text in passwords_in(value)]
        secrets += [text for password in passwords for text in {password, unquote(password)}]
        return secrets

    def lines(self) -> Iterator[str]:
        """Yield each property with its origin, for `--verbose`; secrets and headers are hidden."""
        for key, value in sorted(self.properties.items()):
            is_hidden = key.startswith("header.") or is_secret_property(key, value)
            shown = "***" if is_hidden else value
            for password in passwords_in(shown):
                shown = shown.replace(password, "***")
            yield f"catalog: {self.name}.{key} = {shown} ({self.origins[key]})"


@dataclass(frozen=True, slots=True)
class ConfiguredValue:
    """One property as it was written, and where."""

    text: str
    origin: str


Layer = Mapping[str, Mapping[str, ConfiguredValue]]
"""Properties by key, by the name of their catalog, all in lower case."""


@dataclass(frozen=True, slots=True)
class Configuration:
    """Every catalog that is configured, by its name in lower case."""

    catalogs: Layer

    def __contains__(self, name: str) -> bool:
        return name.lower() in self.catalogs

    def settings(
        self, name: str, environment: Mapping[str, str], options: Mapping[str, str]
    ) -> CatalogSettings:
        """Return one catalog's settings, `options` being properties on the command line.

        A catalog may be configured by these alone. The name stays as it was written: SQL catalogs
        tell their tables by it. Raises: UsageError; TableNotFound, for a catalog that is not
        configured; Unsupported.
        """
        values = dict(self.catalogs.get(name.lower(), {}))
        values |= {
            key.lower(): ConfiguredValue(text, "`--catalog-option`")
            for key, text in options.items()
        }
        if not values:
            raise self.unknown(name)
        properties = {
            key: from_environment(value.text, environment, f"property `{key}` of catalog `{name}`")
            for key, value in values.items()
        }
        origins = {key: value.origin for key, value in values.items()}
        return CatalogSettings(name, _kind(name, properties), properties, origins)

    def unknown(self, name: str, following: tuple[str, ...] = ()) -> TableNotFound:
        """Return the error for a catalog that is not configured; `following` are parts behind it.

        With a single catalog, the name may be one in it.
        """
        known = sorted(self.catalogs)
        near = get_close_matches(name.lower(), known, n=1)
        listed = ", ".join(f"`{catalog}`" for catalog in known)
        if near:
            hint = f"did you mean `{near[0]}`? configured catalogs: {listed}"
        elif len(known) == 1 and following:
            full_name = dotted_name((known[0], name, *following))
            hint = f"did you mean `{full_name}`? configured catalogs: {listed}"
        elif known:
            hint = f"configured catalogs: {listed}"
        else:
            hint = (
                "none is configured: put `[catalog.NAME]` into ~/.config/icectl/icectl.toml or "
                f"the file of `--config`, or use PyIceberg's {PYICEBERG_FILE} in your home or in "
                f"{PYICEBERG_HOME}; the location of a table contains a `/`"
            )
        return TableNotFound(f"there is no catalog `{name}`", hint=hint, id="catalog-not-found")


def read_configuration(
    environment: Mapping[str, str], own: Layer, folders: Callable[[], Sequence[Path]]
) -> Configuration:
    """Return all catalogs that are configured; `own` are those of icectl.toml.

    `folders` are where PyIceberg's file may lie beside the one that PYICEBERG_HOME names; the first
    file that says something counts. Raises: UsageError, for a file that cannot be read.
    """
    home = environment.get(PYICEBERG_HOME)
    places = [*([Path(home)] if home else []), *folders()]
    files = {**_first_file(places), **own}
    variables = _from_variables(environment)
    return Configuration(
        {name: {**files.get(name, {}), **variables.get(name, {})} for name in {*files, *variables}}
    )


def own_layer(loaded: Mapping[str, Any], file: Path) -> Layer:
    """Return the catalogs of icectl.toml. Raises: UsageError, for an odd value or a secret."""
    catalogs: dict[str, dict[str, ConfiguredValue]] = {}
    for name, table in loaded.items():
        if not isinstance(table, Mapping):
            raise UsageError(f"`catalog.{name}` in {file} must be a table of properties")
        catalogs[name.lower()] = {
            key.lower(): _without_secret(file, name, key, value) for key, value in flattened(table)
        }
    return catalogs


def is_secret_property(key: str, value: str) -> bool:
    """Return whether a property of this name holds a credential."""
    words = key.lower().replace("_", "-")
    if _NO_SECRETS.search(words) or _PLAIN_VALUE.fullmatch(value):
        return False
    return names_secret(words) or words == "header.authorization"


def passwords_in(text: str) -> list[str]:
    """The passwords of a URI as they are written: behind the user's name, and behind the `?`."""
    return [match[1] or match[2] for match in _PASSWORDS.finditer(text)]


def _first_file(folders: Sequence[Path]) -> Layer:
    for folder in folders:
        file = folder / PYICEBERG_FILE
        if file.is_file() and (layer := _read_yaml(file)):
            return {
                name: {
                    key.lower(): ConfiguredValue(str(value), f"`{file}`")
                    for key, value in flattened(properties)
                }
                for name, properties in (layer.get("catalog") or {}).items()
                if isinstance(properties, Mapping)
            }
    return {}


def _read_yaml(file: Path) -> Mapping[str, Any]:
    """PyIceberg's file, all values as texts and all keys in lower case."""
    import yaml

    try:
        loaded = yaml.BaseLoader(file.read_text("utf-8")).get_single_data()
    except (OSError, UnicodeDecodeError, RecursionError, yaml.YAMLError) as error:
        reason = " ".join(str(error).split())
        raise UsageError(f"cannot read the catalogs in {file}: {reason}") from error
    if loaded in (None, ""):
        return {}
    catalogs = loaded.get("catalog", {}) if isinstance(loaded, dict) else None
    if not isinstance(catalogs, dict) and catalogs != "":
        raise UsageError(f"{file} has no catalogs by name under `catalog:`")
    lowered: Mapping[str, Any] = _lowered(loaded)
    return lowered


def _lowered(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return {str(key).lower(): _lowered(item) for key, item in value.items()}


def _from_variables(environment: Mapping[str, str]) -> Layer:
    """Properties by variables: `PYICEBERG_CATALOG__MY_CAT__S3__REGION` is `s3.region` of my-cat."""
    catalogs: dict[str, dict[str, ConfiguredValue]] = {}
    for variable, text in environment.items():
        if not variable.lower().startswith(_PREFIX):
            continue
        name, _, key = variable[len(_PREFIX) :].lower().partition("__")
        if name and key:
            properties = catalogs.setdefault(name.replace("_", "-"), {})
            plain = key.replace("__", ".").replace("_", "-")
            properties[plain] = ConfiguredValue(text, f"`{variable}`")
    return catalogs


def flattened(table: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield values with their keys, those of tables within joined by dots."""
    left = list(table.items())[::-1]
    while left:  # of as many levels as somebody may write
        name, value = left.pop()
        if isinstance(value, Mapping):
            left.extend((f"{name}.{below}", item) for below, item in list(value.items())[::-1])
        else:
            yield name, value


def _without_secret(file: Path, name: str, key: str, value: Any) -> ConfiguredValue:
    place = f"`catalog.{name}.{key}` in {file}"
    if isinstance(value, bool):
        value = "true" if value else "false"
    if not isinstance(value, str | int):
        raise UsageError(f"{place} must be a string, a whole number or a boolean")
    text = str(value)
    if not text.startswith("env:") and (is_secret_property(key, text) or passwords_in(text)):
        raise UsageError(
            f"{place} looks like a secret, and secrets are not allowed there",
            hint=f'`{key} = "env:NAME"` takes it from the environment variable NAME',
        )
    return ConfiguredValue(text, place)


def from_environment(text: str, environment: Mapping[str, str], what: str) -> str:
    """Return the value that a text of the operator's stands for: `env:NAME` is that variable's.

    One end of line at its end, as in files of secrets, is none of it. Raises: UsageError.
    """
    value = text
    if text.startswith("env:"):
        value = _of_variable(text, environment, what)
    if not is_text(value):
        raise UsageError(f"{what} is not text in UTF-8")
    return value


def _of_variable(text: str, environment: Mapping[str, str], what: str) -> str:
    variable = text.removeprefix("env:")
    if not variable:
        raise UsageError(f"{what}: `env:` is not followed by the name of a variable")
    if variable not in environment:
        raise UsageError(f"{what}: environment variable `{variable}` is not set")
    return environment[variable].removesuffix("\n").removesuffix("\r")


def _kind(name: str, properties: Mapping[str, str]) -> str:
    """Return the kind that the properties name, or their URI. Raises: UsageError; Unsupported."""
    named, uri = properties.get("type", "").lower(), properties.get("uri", "")
    if "py-catalog-impl" in properties:
        raise Unsupported(f"catalog `{name}` is a Python class, which icectl does not run")
    if named and named not in _KINDS:
        raise Unsupported(
            f"catalog `{name}` has type `{named}`, which icectl does not support",
            hint=f"it knows {', '.join(f'`{kind}`' for kind in sorted(set(_KINDS)))}"
            + ("; name tables of a Hadoop catalog by location" if named == "hadoop" else ""),
        )
    kind = _KINDS.get(named) or next(
        (kind for starts, kind in _KIND_OF_URI if uri.lower().startswith(starts)), None
    )
    if kind is None or (kind in _NEEDS_URI and not uri):
        what = "`uri`" if not uri else "`type`, and its `uri` does not imply one"
        raise UsageError(
            f"catalog `{name}` has no {what}",
            hint="set it in icectl.toml, with `--catalog-option`, or in the environment as "
            f"PYICEBERG_CATALOG__{name.upper().replace('-', '_')}__{'TYPE' if uri else 'URI'}",
        )
    return kind
