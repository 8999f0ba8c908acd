"""The policy of maintenance: a file of defaults and rules, and what of it holds for one table."""

import os
import stat
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from icectl.catalog.configured import flattened
from icectl.cli.patterns import covers, fixed_part, is_pattern
from icectl.cli.targets import parts_of
from icectl.commands.maintain.policy_keys import KEYS, SPARK_KEYS, Key, instead_of
from icectl.errors import Refused, UsageError
from icectl.units import print_count

_RULES, _TABLES = "rule", "tables"
_BUILT_IN = "built-in"
_HINT = "`icectl man maintain.toml` lists the keys"

Text = str | tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PolicyValue:
    """What a key has been given, as text, and where: the file, one of its rules, icectl itself."""

    text: Text
    origin: str

    @property
    def shown(self) -> str:
        """The value in one line."""
        return self.text if isinstance(self.text, str) else ", ".join(self.text)


@dataclass(frozen=True, slots=True)
class TablePolicy:
    """The values that hold for one table, by key; a key that nothing is said of is not there."""

    values: Mapping[str, PolicyValue]

    def read(self, name: str) -> Any:
        """Return the value of a key, read as the key wants it; None where nothing is said."""
        found = self.values.get(name)
        if found is None:
            return None
        parse = KEYS[name].parse
        if isinstance(found.text, str):
            return parse(found.text)
        return tuple(parse(one) for one in found.text)


@dataclass(frozen=True, slots=True)
class PolicyRule:
    """A part of a policy: the patterns of the tables that it is for, and what it says."""

    origin: str
    patterns: tuple[str, ...]
    values: Mapping[str, Text]

    def concerns(self, name: str) -> bool:
        """Return whether it is for a table of this name or location."""
        return any(covers(parts_of(pattern), parts_of(name)) for pattern in self.patterns)


@dataclass(frozen=True, slots=True)
class MaintenancePolicy:
    """Rules, of which later ones override earlier ones, key by key."""

    rules: tuple[PolicyRule, ...] = ()

    def of(self, name: str) -> TablePolicy:
        """Return what holds for a table of this name or location."""
        values = {
            key.name: PolicyValue(_default(key, key.default), _BUILT_IN)
            for key in KEYS.values()
            if key.default is not None
        }
        for rule in self.rules:
            if rule.concerns(name):
                values |= {key: PolicyValue(text, rule.origin) for key, text in rule.values.items()}
        return TablePolicy(values)


def idle_rules(
    policy: MaintenancePolicy,
    targets: Sequence[str],
    tables: Sequence[str],
    is_catalog: Callable[[str], bool],
) -> Iterator[str]:
    """Describe patterns of rules that match no table, though their tables are in the targets.

    A policy may have rules for tables that this run is not for; one whose catalog is not configured
    is for none. `tables` and `targets` are full names.
    """
    within = [parts_of(target) for target in targets if _is_whole(target)]
    for rule in policy.rules[1:]:
        for text in rule.patterns:
            pattern = parts_of(text)
            if any(covers(pattern, parts_of(table)) for table in tables):
                continue
            fixed = fixed_part(pattern)
            if fixed and fixed[0] and not is_catalog(fixed[0]):
                yield f"{rule.origin}: `{text}` names no configured catalog"
            elif any(_begins(fixed, fixed_part(each)) for each in within):
                yield f"{rule.origin}: `{text}` matches none of {print_count(len(tables), 'table')}"


def _begins(parts: Sequence[str], with_: Sequence[str]) -> bool:
    """Compare in lower case: a rule that matches nothing may be one in other letters."""
    return [part.lower() for part in parts[: len(with_)]] == [part.lower() for part in with_]


def _is_whole(target: str) -> bool:
    """Return whether a target stands for all tables below its fixed part."""
    parts = parts_of(target)
    return not any(is_pattern(part) for part in parts) or parts[-1] == "**"


def read_policy(path: str, *, is_trusted: bool = True) -> MaintenancePolicy:
    """Read a policy file. Raises: UsageError, which names the key and the rule.

    Refused, for keys of Spark in a file that is not trusted, or that others may change.
    """
    try:
        with Path(path).open("rb") as file:
            loaded = tomllib.loads(file.read().decode("utf-8"))
            others = _others_who_may_write(Path(path), os.fstat(file.fileno()))
    except (ValueError, RecursionError) as error:
        raise UsageError(f"`--policy`: {path} is not a TOML file: {error}", hint=_HINT) from error
    except OSError as error:
        raise UsageError(f"`--policy`: cannot read {path}: {error.strerror}") from error
    rules = loaded.pop(_RULES, [])
    if not isinstance(rules, list) or not all(isinstance(one, dict) for one in rules):
        raise UsageError(f"`{_RULES}` in {path} must be written `[[{_RULES}]]`", hint=_HINT)
    if _TABLES in loaded:
        hint = f"a `[[{_RULES}]]` with `{_TABLES}` is for some tables"
        raise UsageError(f"`{_TABLES}` in {path} stands outside of a rule", hint=hint)
    found = [PolicyRule(path, ("**",), _values(loaded, path))]
    for number, one in enumerate(rules, start=1):
        origin = f"rule {number} in {path}"
        patterns = _patterns(one.pop(_TABLES, None), origin)
        found.append(PolicyRule(origin, patterns, _values(one, origin)))
    for rule in found:
        for key in sorted(SPARK_KEYS & set(rule.values)):
            if not is_trusted or others is not None:
                raise Refused(
                    f"`{key}`, {rule.origin}: it can start programs, and "
                    f"{others if is_trusted else 'the policy is untrusted'}",
                    hint="take it out, and say it on the command line with "
                    f"`--{key.rpartition('.')[2]}`",
                    id="untrusted-policy",
                )
    return MaintenancePolicy(tuple(found))


def _others_who_may_write(path: Path, status: os.stat_result) -> str | None:
    """Return who beside the caller and root may change a file, or put another in its place."""
    folders = {path.absolute().parent, path.resolve().parent}
    for place, found in ((path, status), *((folder, folder.stat()) for folder in folders)):
        if found.st_uid not in (0, os.geteuid()):
            return f"{place} belongs to another user"
        if found.st_mode & 0o022 and not found.st_mode & stat.S_ISVTX:
            return f"others may write to {place}"
    return None


def _patterns(given: Any, origin: str) -> tuple[str, ...]:
    found = [given] if isinstance(given, str) else given
    if not isinstance(found, list) or not found or not all(isinstance(one, str) for one in found):
        raise UsageError(
            f"{origin} does not say which tables it is for",
            hint=f'`{_TABLES} = ["prod.sales.*"]` does',
        )
    for pattern in found:
        parts_of(pattern)
    return tuple(found)


def _values(loaded: Mapping[str, Any], origin: str) -> Mapping[str, Text]:
    found: dict[str, Text] = {}
    for name, value in flattened(loaded):
        key = KEYS.get(name)
        if key is None:
            raise _unknown(name, origin)
        text = _text(key, value, origin)
        check_text(key, text, origin)
        found[name] = text
    return found


def check_text(key: Key, text: Text, origin: str) -> None:
    """Raises: UsageError, where a text is no value of a key."""
    for one in (text,) if isinstance(text, str) else text:
        try:
            key.parse(one)
        except UsageError as error:
            hint = _HINT if error.hint == UsageError.default_hint else error.hint
            raise UsageError(f"`{key.name}`, {origin}: {error.message}", hint=hint) from error


def _unknown(name: str, origin: str) -> UsageError:
    instead = instead_of(name)
    close = [instead] if instead else get_close_matches(name, KEYS, n=1)
    hint = f"did you mean `{close[0]}`?" if close else _HINT
    return UsageError(f"unknown key `{name}`, {origin}", hint=hint)


def _text(key: Key, value: Any, origin: str) -> Text:
    if key.is_list:
        listed = value if isinstance(value, list) else [value]
        return tuple(_scalar(key, one, origin) for one in listed)
    return _scalar(key, value, origin)


def _scalar(key: Key, value: Any, origin: str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float) and str(value).strip():
        return str(value)
    wanted = "a list of texts" if key.is_list else "a text, a number or a boolean"
    raise UsageError(f"`{key.name}`, {origin}: it must be {wanted}", hint=_HINT)


def _default(key: Key, text: str | None) -> Text:
    assert text is not None
    return tuple(text.split(",")) if key.is_list else text
