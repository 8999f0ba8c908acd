"""Parsing, resolving and comparing locations; sfc-1 2.6."""

import pyarrow as pa
import pytest

from icectl.storage import location as locations

LOCAL_SPELLINGS = ["file:/wh/t/a.parquet", "file:///wh/t/a.parquet", "/wh/t/a.parquet"]
LOCAL_SPELLINGS += ["file://localhost/wh/t/a.parquet", "FILE:///wh/t/a.parquet"]


@pytest.mark.parametrize("spelling", LOCAL_SPELLINGS)
def test_spellings_of_a_local_file_have_one_path_and_one_comparison_key(spelling):
    assert locations.local_path(spelling) == "/wh/t/a.parquet"
    assert locations.comparison_key(spelling) == locations.comparison_key("/wh/t/a.parquet")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("s3://b/t/a", "s3a://b/t/a"), ("s3://b/t/a", "s3://b/t//a"),
        ("s3://b/t/a%20b", "s3://b/t/a b"), ("/wh/t/a", "/wh/t//a"),
        ("/wh/t/a", "file://elsewhere/wh/t/a"), ("hdfs://host:8020/t/a", "hdfs:/t/a"),
        ("/t/a", "hdfs:/t/a"), ("data/a", "/data/a"),
    ],
)  # fmt: skip
def test_comparison_keys_know_no_other_equivalence(one, other):
    assert locations.comparison_key(one) != locations.comparison_key(other)


@pytest.mark.parametrize(
    ("location", "key"),
    [
        ("s3://bucket/t/data/a.parquet", "/t/data/a.parquet"),
        ("s3a://other/t/data/a.parquet", "/t/data/a.parquet"),
        ("file:/t/data/a.parquet", "/t/data/a.parquet"),
        ("file:///t/data/a.parquet", "/t/data/a.parquet"),
        ("/t//data///a.parquet", "/t/data/a.parquet"),
        ("t/data/a.parquet", "/t/data/a.parquet"),
        ("hdfs:/t/data/a.parquet", "/t/data/a.parquet"),
        ("hdfs://nn:8020//t/data/a.parquet", "/t/data/a.parquet"),
        ("s3://b/t/dt=2024-01-01%2012%3A00/a+b", "/t/dt=2024-01-01 12:00/a+b"),
        ("s3://b/t/a%2F%2Fb", "/t/a/b"),
        ("file:/t/c=a%252Fb/%2525", "/t/c=a/b/%"),
        ("s3://b/wh/./t//../u/a", "/wh/u/a"),
        ("hdfs://nn:8020/wh/t/x/..", "/wh/t"),
        ("/t/%2e%2E/a", "/a"),
        ("/../t/a.b/..c/d.", "/t/a.b/..c/d."),
        ("s3://b/t/100%/a", "/t/100%/a"),
        ("s3://b/t/%FF", "/t/\ufffd"),
        ("abfss://box@account.dfs.core.windows.net/t/a", "/t/a"),
    ],
)
def test_loosest_key_keeps_what_no_spelling_changes(location, key):
    assert locations.loosest_key(location) == key
    column = pa.chunked_array([[location, None], [location]], pa.string())
    assert locations.loosest_keys(column).to_pylist() == [key, None, key]


def test_loosest_keys_of_nothing_are_nothing():
    assert locations.loosest_keys(pa.chunked_array([], pa.string())).to_pylist() == []


@pytest.mark.parametrize(
    ("location", "scheme"),
    [("s3://b/k", "s3"), ("S3A://b/k", "s3a"), ("/p", ""), ("c:/p", ""), ("a/b:c", ""), ("", "")],
)
def test_a_scheme_has_two_characters_or_more(location, scheme):
    assert locations.scheme(location) == scheme


@pytest.mark.parametrize(
    ("location", "base", "within"),
    [
        ("/wh/t/data/x", "/wh/t", True), ("/wh/t/data/x", "/wh/t/", True),
        ("file:///wh/t/data/x", "/wh/t", True), ("/wh/t", "/wh/t/", True),
        ("/wh/t2/data/x", "/wh/t", False), ("/wh", "/wh/t", False),
        ("/wh/t/../u/x", "/wh/t", False), ("/wh/t/..x/y", "/wh/t", True),
        ("s3://b/t/x", "s3a://b/t", False), ("s3://b/x", "s3://b", True),
        ("s3://bb/x", "s3://b", False), ("/x", "/", True),
    ],
)  # fmt: skip
def test_is_within_goes_by_whole_names(location, base, within):
    assert locations.is_within(location, base) is within


@pytest.mark.parametrize(
    ("location", "parent", "name"),
    [
        ("s3://b/t/metadata/v1.metadata.json", "s3://b/t/metadata", "v1.metadata.json"),
        ("s3://b/t", "s3://b", "t"),
        ("s3://b/t/", "s3://b", "t"),
        ("/a", "/", "a"),
        ("file:///a", "file:///", "a"),
        ("file:/a", "file:/", "a"),
        ("a", ".", "a"),
        ("/", "/", ""),
    ],
)
def test_parent_and_name_split_at_the_last_slash(location, parent, name):
    assert locations.parent(location) == parent
    assert locations.name(location) == name


def test_join_puts_one_slash_between():
    assert locations.join("s3://b/t/", "/metadata/", "x") == "s3://b/t/metadata/x"
    assert locations.join("/", "x") == "/x"


@pytest.mark.parametrize(
    "path",
    [
        "/wh/t/data/at=2024-01-01T10:00:00/a.parquet", "/wh/file:/a.parquet",
        "/wh/s3://b/a.parquet", "/wh//localhost/a.parquet", "/wh///a.parquet",
    ],
)  # fmt: skip
@pytest.mark.parametrize("before", ["", "file:", "file://", "file://localhost"])
def test_what_looks_like_a_scheme_or_a_host_further_on_belongs_to_the_path(path, before):
    assert locations.local_path(f"{before}{path}") == path
    assert locations.comparison_key(f"{before}{path}") == f"file:{path}"


@pytest.mark.parametrize("location", ["file://host/p", "s3://b/k"])
def test_only_paths_of_this_machine_have_a_local_path(location):
    with pytest.raises(ValueError, match=location):
        locations.local_path(location)


@pytest.mark.parametrize(
    ("location", "root"),
    [("s3://b/k", "s3://b"), ("hdfs://nn:1/k", "hdfs://nn:1"), ("/p", ""), ("file:/p", "file:")],
)
def test_root_is_scheme_and_authority(location, root):
    assert locations.root(location) == root


def test_messages_show_no_password():
    assert locations.redacted("ftp://me:s3cret@host/p") == "ftp://me:***@host/p"
    assert locations.redacted("abfss://box@account/p") == "abfss://box@account/p"
