"""What scripts rely on between versions: members of JSON stay, and changes have a version."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from icectl import __version__
from icectl.cli.document import document_schema
from icectl.cli.registry import COMMANDS

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "golden" / "json-members.txt"


def members(schema: Any, place: str, definitions: Mapping[str, Any]) -> Iterator[str]:
    """Yield each member that a schema knows, with its types: `result.removed: integer`."""
    if not isinstance(schema, dict):
        return
    if "$ref" in schema:
        name = schema["$ref"].removeprefix("#/$defs/")
        others = {key: value for key, value in definitions.items() if key != name}  # may recur
        yield from members(definitions.get(name), place, others)
        return
    for other in schema.get("anyOf", ()):
        yield from members(other, place, definitions)
    types = schema.get("type")
    for kind in [types] if isinstance(types, str) else types or ():
        yield f"{place}: {kind}"
    for name, value in schema.get("properties", {}).items():
        yield from members(value, f"{place}.{name}", definitions)
    yield from members(schema.get("items"), f"{place}[]", definitions)


def known() -> set[str]:
    found: set[str] = set()
    for command in COMMANDS:
        if command != "apply":  # which prints the document of the command in its plan
            schema = document_schema(command)
            found |= set(members(schema, command, schema.get("$defs", {})))
    return found


def test_members_of_documents_are_only_added(request):
    """`--update-golden` writes new ones down; a change of `schema` starts the list again."""
    if request.config.getoption("--update-golden"):
        listed = set(GOLDEN.read_text().splitlines()) if GOLDEN.exists() else set()
        GOLDEN.write_text("".join(f"{line}\n" for line in sorted(listed | known())))
    listed = set(GOLDEN.read_text().splitlines())
    assert listed - known() == set()


def test_changes_are_those_of_this_version_or_of_a_later_one():
    changes = (ROOT / "docs" / "CHANGELOG.md").read_text("utf-8")
    first, *_ = re.findall(r"^## (.*)$", changes, flags=re.MULTILINE)
    number, _, unreleased = first.partition(" ")
    parts = [tuple(map(int, version.split("."))) for version in (number, __version__)]
    if unreleased:
        assert unreleased == "(unreleased)"
        assert parts[0] > parts[1]
    else:
        assert parts[0] == parts[1]
