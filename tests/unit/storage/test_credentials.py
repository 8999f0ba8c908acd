"""Credentials that someone hands out for a time: options that hold now, and those after them."""

import pickle
from dataclasses import replace

import pytest
from botocore.loaders import Loader

from icectl.errors import StorageError
from icectl.storage.credentials import Renewed, endpoint_of
from icectl.storage.open import StorageOptions, open_store


class Vendor:
    """Gives keys for a beginning of locations, numbered from 1; a new one when they ended."""

    def __init__(self, ends=True):
        self.number, self.ends, self.asked = 1, ends, 0

    def __call__(self):
        self.asked += 1
        return {"s3://b/t/": {"key": f"vEnDeD-{self.number}", "secret": "s"}, "s3:": {"key": "k"}}

    def expire(self):
        self.number += self.ends
        return self.ends


def test_options_are_the_same_object_as_long_as_they_hold():
    given = {"key": "1"}
    renewed = Renewed(lambda: dict(given))
    first = renewed.current()
    assert first == {"key": "1"}
    assert renewed.current() is first
    given["key"] = "2"
    assert renewed.current() == {"key": "2"}


def test_what_ended_early_can_be_asked_for_anew_where_there_is_one_to_ask():
    vendor = Vendor()
    renewed = Renewed(lambda: vendor()["s3://b/t/"], vendor.expire)
    assert renewed.current()["key"] == "vEnDeD-1"
    assert renewed.renew()
    assert renewed.current()["key"] == "vEnDeD-2"
    assert renewed.ends
    never = Vendor(ends=False)
    assert not Renewed(lambda: never()["s3:"], never.expire).renew()
    assert not Renewed(dict).renew()
    assert not Renewed(dict).ends


def test_the_longest_beginning_counts_and_the_users_own_options_win():
    options = StorageOptions({"region": "mine"}, renewed=Vendor()).now()
    assert options.of("s3://b/t/data/a") == {"key": "vEnDeD-1", "secret": "s", "region": "mine"}
    assert options.of("s3://b/other/a") == {"region": "mine"}  # half a login is none
    options = StorageOptions({"key": "k", "secret": "mine"}, renewed=Vendor()).now()
    assert options.of("s3://b/t/data/a") == {"key": "k", "secret": "mine"}


def test_nothing_is_asked_before_the_first_use(fixed_env):
    vendor = Vendor()
    open_store(StorageOptions(renewed=vendor), fixed_env)
    assert vendor.asked == 0


class Broken(Vendor):
    """Has no credentials to give."""

    def __call__(self):
        raise StorageError("the catalog vends no credentials")


def test_a_catalog_that_vends_nothing_is_told_of(fixed_env):
    store = open_store(StorageOptions(renewed=Broken()), fixed_env)
    with pytest.raises(StorageError, match="vends no credentials"):
        store.read("s3://b/t/a")


def test_options_with_a_vendor_cross_to_other_processes_and_show_no_secrets(fixed_env):
    options = pickle.loads(pickle.dumps(replace(StorageOptions(), renewed=Vendor())))
    assert options.now().of("s3://b/t/a")["key"] == "vEnDeD-1"
    assert "vEnDeD" not in repr(options) + repr(open_store(options, fixed_env))


def test_a_service_is_where_botocore_looks_for_it():
    for partition in Loader().load_data("partitions")["partitions"]:
        domain = partition["outputs"]["dnsSuffix"]
        for region in partition["regions"]:
            if region.endswith("-global"):  # stands for no place
                continue
            assert endpoint_of("glue", region) == f"https://glue.{region}.{domain}"
