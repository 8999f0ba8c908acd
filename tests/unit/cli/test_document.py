"""Documents: what JSON, CSV and the schemas say."""

import json
import math
from typing import Any

import jsonschema
import pytest

from icectl.cli import document as document_module
from icectl.cli.document import (
    Listed,
    Outcome,
    clean,
    csv_text,
    document,
    document_schema,
    failure,
    id_text,
    json_line,
    json_parts,
    json_text,
    load_schema,
)
from icectl.errors import CommitUnknown, Refused, StorageError


def silent(console: object) -> None:
    """Render nothing."""


def test_values_that_json_lacks_become_names_and_lists():
    value = {1: (1, 2), "nan": math.nan, "up": math.inf, "down": -math.inf, "half": 0.5, "no": None}
    assert clean(value) == {
        "1": [1, 2], "nan": "NaN", "up": "Infinity", "down": "-Infinity", "half": 0.5, "no": None,
    }  # fmt: skip


def test_snapshot_ids_are_text_because_doubles_round_them():
    assert id_text(9007199254740993) == "9007199254740993"
    assert id_text(None) is None


def test_json_is_ascii_on_one_line_or_indented():
    assert json_text({"name": "größe", "n": 1}) == '{"name": "gr\\u00f6\\u00dfe", "n": 1}'
    assert json_text({"n": 1}, indent=2) == '{\n  "n": 1\n}'


STYLES: list[dict[str, Any]] = [
    {},
    {"indent": 2},
    {"sort_keys": True, "separators": (",", ":")},
]


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("count", [0, 1, 2, 2_001])
def test_listed_items_are_written_as_a_list_of_them_is(style, count):
    items = [{"path": f"/t/ü\n{number}", "of": [number, None]} for number in range(count)]
    listed = Listed(count, lambda: iter(items))
    names = Listed(count, lambda: (item["path"] for item in items))

    def built(files: Any, paths: Any) -> dict[str, Any]:
        group = {"files": files, "end": {}}
        return {"z": 1, "groups": [{"n": []}, group], "a": {"paths": paths, "x": []}}

    expected = json.dumps(built(items, [*names]), **style)
    assert "".join(json_parts(built(listed, names), **style)) == expected
    assert clean(built(listed, names)) == built(items, [*names])
    assert clean(built(listed, names), keeps_listed=True)["a"]["paths"] is names


def test_listed_items_are_made_as_they_are_written():
    made = 0

    def items() -> Any:
        nonlocal made
        for made in range(1, 10_001):
            yield {"n": made}

    seen = [made for _ in json_parts({"rows": Listed(10_000, items)})]
    assert sorted({*seen}) == [*range(0, 10_001, 1_000)]


def test_what_is_no_json_is_none_beside_a_list_either():
    with pytest.raises(TypeError, match="no JSON"):
        list(json_parts({"a": Listed(0, list), "b": object()}))


def test_a_row_is_one_line():
    assert json_line({"a": math.nan, "b": (1,)}) == '{"a": "NaN", "b": [1]}'


def test_csv_quotes_and_writes_nested_values_as_json():
    rows: list[dict[str, Any]] = [
        {"path": 'a,"b"', "count": 3, "live": True, "bounds": {"1": math.nan}, "ids": [1, 2]},
        {"path": None, "count": 0, "live": False, "bounds": None},
    ]
    assert csv_text(["path", "count", "live", "bounds", "ids"], rows) == (
        'path,count,live,bounds,ids\n"a,""b""",3,true,"{""1"": ""NaN""}","[1, 2]"\n,0,false,,\n'
    )


@pytest.mark.parametrize(
    ("error", "status"),
    [(Refused("r"), "refused"), (CommitUnknown("u"), "unknown"), (StorageError("s"), "failed")],
)
def test_failures_have_a_status_by_exit_code(error, status):
    built = failure(error, error.exit_code, "inspect")
    assert built["status"] == status
    assert built["error"]["exit"] == error.exit_code


def test_the_schema_of_a_command_joins_envelope_and_result(monkeypatch):
    envelope = load_schema("envelope")
    result = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$defs": {"count": {"type": "integer"}},
        "type": "object",
        "required": ["rows"],
        "properties": {"rows": {"$ref": "#/$defs/count"}},
        "additionalProperties": False,
    }
    several = load_schema("several-tables")
    loaded = {"envelope": envelope, "count": result, "several-tables": several}
    monkeypatch.setattr(document_module, "load_schema", lambda name: loaded[name])
    schema = document_schema("count")
    jsonschema.Draft202012Validator.check_schema(schema)
    good = document(Outcome("count", {"rows": 1}, silent))
    jsonschema.validate(json.loads(json_text(good)), schema)
    for broken in ({"rows": "1"}, {}, {"rows": 1, "more": 2}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({**good, "result": broken}, schema)
    jsonschema.validate(failure(Refused("no"), 5, "count"), schema)


def test_the_envelope_refuses_what_it_does_not_know():
    built = document(Outcome("inspect", {}, silent))
    for broken in ({"status": "ok"}, {"exit": 6}, {"more": 1}, {"table": {}}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({**built, **broken}, load_schema("envelope"))
