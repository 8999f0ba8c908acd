"""Table properties: defaults, texts, bad texts."""

import pytest

from icectl.errors import Refused
from icectl.format.properties import KNOWN, known_property, last_orphan_scan_ms, read

# Defaults of the reference implementation's TableProperties.
DEFAULTS = [
    ("history.expire.max-snapshot-age-ms", 432_000_000),
    ("history.expire.min-snapshots-to-keep", 1),
    ("history.expire.max-ref-age-ms", 9_223_372_036_854_775_807),
    ("gc.enabled", True),
    ("write.metadata.previous-versions-max", 100),
    ("write.metadata.delete-after-commit.enabled", False),
    ("write.metadata.compression-codec", "none"),
    ("write.metadata.path", None),
    ("write.data.path", None),
    ("write.target-file-size-bytes", 536_870_912),
    ("write.distribution-mode", "hash"),
    ("write.delete.target-file-size-bytes", 67_108_864),
    ("commit.manifest.target-size-bytes", 8_388_608),
    ("commit.retry.num-retries", 4),
    ("commit.retry.min-wait-ms", 100),
    ("commit.retry.max-wait-ms", 60_000),
    ("commit.retry.total-timeout-ms", 1_800_000),
    ("schema.name-mapping.default", None),
    ("write.format.default", "parquet"),
    ("write.parquet.compression-codec", "zstd"),
    ("write.parquet.compression-level", None),
    ("write.parquet.row-group-size-bytes", 134_217_728),
    ("write.parquet.page-size-bytes", 1_048_576),
    ("write.parquet.page-row-limit", 20_000),
    ("write.parquet.dict-size-bytes", 2_097_152),
    ("write.parquet.bloom-filter-max-bytes", 1_048_576),
    ("write.metadata.metrics.max-inferred-column-defaults", 100),
    ("write.object-storage.enabled", False),
    ("write.object-storage.partitioned-paths", True),
    ("write.object-storage.path", None),
    ("write.folder-storage.path", None),
    ("write.location-provider.impl", None),
    ("write.metadata.metrics.default", None),
    # sfc-1 1.7.
    ("icectl.v4.root.max-data-files", 1_000),
    ("icectl.v4.root.max-delete-entries", 5_000),
    ("icectl.v4.mdv.inline-max-bytes", 16_384),
    ("icectl.v4.mdv.inline-total-max-bytes", 1_048_576),
    ("icectl.v4.leaf.max-entries", 1_000_000),
    ("icectl.v4.affinity.enabled", True),
    ("icectl.v4.relative-locations", False),
    ("icectl.statistics.keep", True),
    ("icectl.ttl.column", None),
    ("icectl.ttl.age", None),
    ("icectl.maintain.enabled", True),
    ("icectl.maintain.last-orphan-scan", None),
    ("icectl.v4.legacy-leaves.rewrite-ratio", 0.25),
    ("icectl.v4.mdv.rewrite-ratio", 0.25),
]


@pytest.mark.parametrize(("name", "default"), DEFAULTS)
def test_r021_an_absent_property_has_the_default_of_the_reference_implementation(name, default):
    assert read({}, KNOWN[name]) == default


def test_every_property_is_described_and_has_a_tested_default():
    assert set(KNOWN) == {name for name, _ in DEFAULTS}
    assert all(item.description for item in KNOWN.values())


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("history.expire.max-snapshot-age-ms", "3600000", 3_600_000),
        ("history.expire.min-snapshots-to-keep", " 5 ", 5),
        ("history.expire.min-snapshots-to-keep", "0", 1),
        ("gc.enabled", "FALSE", False),
        ("gc.enabled", "TRUE", True),
        ("write.metadata.previous-versions-max", "0", 1),
        ("write.metadata.previous-versions-max", "7", 7),
        ("write.metadata.delete-after-commit.enabled", "true", True),
        ("write.metadata.compression-codec", "GZIP", "gzip"),
        ("write.data.path", "s3://b/data", "s3://b/data"),
        ("write.data.path", "", None),
        ("write.target-file-size-bytes", "200", 200),
        ("write.parquet.compression-level", "-5", -5),
    ],
)
def test_a_property_is_read_from_its_text(name, text, value):
    assert read({name: text, "other": "x"}, KNOWN[name]) == value


NO_MODE = "not none, counts, truncate(LENGTH) or full"


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("history.expire.max-snapshot-age-ms", "5d", "not a whole number"),
        ("history.expire.max-snapshot-age-ms", "1_000", "not a whole number"),
        ("history.expire.max-snapshot-age-ms", "-1", "less than 0"),
        ("history.expire.min-snapshots-to-keep", "-1", "less than 0"),
        ("gc.enabled", "no", "not true or false"),
        ("write.target-file-size-bytes", "0", "less than 1"),
        ("write.target-file-size-bytes", "512MB", "not a whole number"),
        ("write.metadata.compression-codec", "zstd", "not one of none, gzip"),
        ("write.metadata.metrics.default", "truncate(0)", NO_MODE),
        ("write.metadata.metrics.column.a.b", "all", NO_MODE),
    ],
)
def test_a_bad_text_is_refused_with_its_name_and_the_way_out(name, text, reason):
    with pytest.raises(Refused) as caught:
        read({name: text}, known_property(name))
    assert caught.value.message == f"table property `{name}` is `{text}`: {reason}"
    assert caught.value.exit_code == 5
    assert f"properties TABLE unset {name}` restores its default" in str(caught.value.hint)


NEW, FORMER = "icectl.maintain.last-orphan-scan", "icectl.maintain.orphans-looked-for"
FIRST, SECOND = "1970-01-01T00:00:01Z", "1970-01-01T00:00:02Z"


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({}, None), ({NEW: FIRST}, 1_000), ({FORMER: FIRST}, 1_000),
        ({FORMER: FIRST, NEW: SECOND}, 2_000), ({NEW: "soon"}, None),
    ],
)  # fmt: skip
def test_the_last_scan_is_read_under_both_names(properties, expected):
    assert last_orphan_scan_ms(properties, 5_000) == expected
