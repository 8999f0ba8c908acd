"""`icectl validate` on tables of other writers: every recorded fault, and no unexplained one."""

import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from icectl.cli import app
from tests.builders.foreign_table import facts_of

Findings = list[dict[str, str]]

EXPECTED = Path(__file__).parents[2].parent / "shared" / "fixtures" / "expected.json"
TABLES = sorted(json.loads(EXPECTED.read_text())["tables"]) if EXPECTED.exists() else []

ELSEWHERE = "iceberg-cxx/v_20240913__iceberg"
"""Its data lies in a bucket that nobody here can reach."""

BARE_HEADERS = "manifests that a tool wrote anew without the key-value metadata of R-060"
EXPLAINED: dict[str, dict[str, str]] = {
    "dremio/internal_metadata_inconsistent_partitions": {
        "R-053": "made so: one manifest has another number of partition fields than the spec",
        "R-068": "the same manifest: its partition record is not that of the spec",
        "R-031": "its summaries say 0 bytes",
        "R-060": BARE_HEADERS,
        "R-062": "its entries have no snapshot id, which version 1 requires",
    },
    "duckdb-iceberg/add_columns_with_defaults": {
        "R-182": "version 2 metadata with column defaults"
    },
    "duckdb-iceberg/moved_positional_delete_path": {
        "R-060": BARE_HEADERS,
        "R-092": "its data files were replaced by others with made-up values",
        "R-121": "its delete files were written anew, out of order",
        "R-130": "its data files were replaced by others with made-up values",
    },
    "duckdb-iceberg/struct_filter_issue": {"R-060": BARE_HEADERS},
    "duckdb-iceberg/unknown_puffin": {
        "R-060": BARE_HEADERS,
        "R-063": "a Puffin file is listed as a data file",
        "R-097": "both columns have another type in schema 0",
    },
    "impala/ice_puffin": {"R-002": "generated metadata files of other tables lie in its folder"},
    "impala/iceberg_avro_mixed": {
        "R-002": "metadata files of the table it was copied from lie beside its own",
        "R-060": BARE_HEADERS,
    },
    "impala/iceberg_migrated_complex_test": {
        "R-060": BARE_HEADERS,
        "R-099": "pyarrow cannot read its Parquet footer: not checked, a warning",
    },
    "impala/iceberg_v2_delete_different_equality_ids": {
        "R-123": "made so: position delete files listed as equality deletes"
    },
    "trino/invalid_compression_codec_none_parquet": {
        "R-018": "made so: its `write.parquet.compression-codec` is `NONE`, which is no codec"
    },
}
"""What is reported beyond the recorded faults, and why it is true."""

BARE = frozenset(
    {
        "impala/airports_orc",
        "impala/complextypestbl_iceberg_orc",
        "impala/iceberg_alltypes_part_orc",
        "impala/iceberg_migrated_alter_test",
        "impala/iceberg_v2_delete_both_eq_and_pos",
        "impala/iceberg_v2_delete_equality_multi_eq_ids",
        "impala/iceberg_v2_delete_equality_partition_evolution",
        "impala/iceberg_v2_delete_pos_and_multi_eq_ids",
        "impala/iceberg_v2_equality_delete_schema_evolution",
        "impala/iceberg_v2_no_deletes",
        "impala/iceberg_v2_no_deletes_orc",
        "impala/iceberg_v2_partitioned_position_deletes",
        "impala/iceberg_v2_positional_delete_all_rows_orc",
        "impala/iceberg_v2_positional_not_all_data_files_have_delete_files",
        "impala/iceberg_v2_positional_not_all_data_files_have_delete_files_orc",
        "impala/iceberg_v2_positional_update_all_rows",
        "impala/iceberg_with_puffin_stats",
        "trino/mv_expired_snapshots_source_table",
    }
)
"""Tables where that is BARE_HEADERS alone."""


Validate = Callable[[str], Findings]


@pytest.fixture
def validate(fixtures_dir: Path, capsys: pytest.CaptureFixture[str]) -> Validate:
    """Findings of all snapshots of a table at level data."""

    def run(name: str) -> Findings:
        facts = facts_of(fixtures_dir, name)
        directory = fixtures_dir / name
        maps = [f"{item['from']}={directory}/" for item in facts["prefix_map"]]
        arguments = [argument for one in maps for argument in ("--path-map", one)]
        place = f"{directory}/{facts['metadata_file']}"
        app.main(["validate", place, "--level", "data", "--all-snapshots", "--json", *arguments])
        document = json.loads(capsys.readouterr().out)
        assert document["error"] is None
        found: Findings = document["result"]["findings"]
        return found

    return run


def recorded(facts: dict[str, Any]) -> list[tuple[str, str, str]]:
    """(rule, end of the subject, part of the message) of every recorded fault."""
    faults = []
    for text in facts["observations"]:
        if found := re.match(r"manifest_length (\d+) != file size (\d+): (.*)", text):
            faults.append(("R-050", found[3], f"{found[2]} as stored"))
        elif found := re.match(r"file_size_in_bytes (\d+) != size on disk (\d+): (.*)", text):
            faults.append(("R-063", found[3], f"{int(found[2]):,} bytes"))
        elif found := re.match(
            r"snapshot (\d+) summary ([\w-]+)=(\d+), manifests give (\d+)", text
        ):
            faults.append(("R-031", found[1], f"{found[2]} is {found[3]}, not {found[4]}"))
        elif found := re.match(r"parent (\d+) of snapshot (\d+) is not in snapshots", text):
            faults.append(("R-030", found[2], f"its parent {found[1]} is not in `snapshots`"))
        else:
            raise AssertionError(text)
    return faults


def implied(facts: dict[str, Any]) -> set[str]:
    """Rules that what is known of the copy explains: files that were not copied, and the like."""
    rules = {rule for rule, _, _ in recorded(facts)}
    rules |= {"R-034"} if facts["missing_files_count"] else set()
    rules |= {"R-024"} if facts["metadata_log"]["missing_locally"] else set()
    absolute = facts["location"].startswith("/") or ":" in facts["location"][:8]
    return rules | (set() if absolute else {"R-164"})


def every_third(names: Iterable[str]) -> list[Any]:
    """Names, of which the quick tier has every third."""
    full = pytest.mark.full
    return [pytest.param(name, marks=full if at % 3 else ()) for at, name in enumerate(names)]


@pytest.mark.parametrize("name", every_third(name for name in TABLES if name != ELSEWHERE))
def test_every_recorded_fault_is_found_and_the_rest_is_explained(validate, fixtures_dir, name):
    facts = facts_of(fixtures_dir, name)
    findings = validate(name)
    for rule, subject, message in recorded(facts):
        assert [
            one
            for one in findings
            if one["rule"] == rule
            and one["subject"].endswith(subject)
            and message in one["message"]
        ], (rule, subject, message)
    reported = {one["rule"] for one in findings if one["severity"] != "info"}
    explained = {"R-060"} if name in BARE else set(EXPLAINED.get(name, {}))
    assert reported - implied(facts) == explained - implied(facts)
