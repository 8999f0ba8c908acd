"""Credentials that a catalog vends for a time: who asks for new ones, and when."""

import pickle
from dataclasses import replace

import pytest

from icectl.errors import StorageError
from icectl.storage.credentials import Renewed, Vended
from icectl.storage.open import StorageOptions, open_store

HOUR_MS = 3_600_000


class Vendor:
    """Gives keys numbered from 1, each for an hour."""

    def __init__(self, env, life_ms=HOUR_MS):
        self.env, self.life_ms, self.count = env, life_ms, 0

    def __call__(self):
        self.count += 1
        ends_ms = None if self.life_ms is None else self.env.now_ms() + self.life_ms
        return Vended({"key": f"key-{self.count}", "secret": "s"}, ends_ms)


def test_nothing_is_asked_before_the_first_use(fixed_env):
    vendor = Vendor(fixed_env)
    renewed = Renewed({"endpoint_url": "http://s3"}, vendor, fixed_env)
    assert vendor.count == 0
    expected = {"endpoint_url": "http://s3", "key": "key-1", "secret": "s"}
    assert renewed.current() == expected
    assert renewed.current() is renewed.current()


@pytest.mark.parametrize(
    ("life_ms", "renewed_after_ms"), [(HOUR_MS, HOUR_MS - 300_000), (60_000, 30_000)]
)
def test_new_ones_are_asked_for_before_the_end(fixed_env, life_ms, renewed_after_ms):
    renewed = Renewed({}, Vendor(fixed_env, life_ms), fixed_env)
    assert renewed.current()["key"] == "key-1"
    fixed_env.sleep((renewed_after_ms - 1) / 1000)
    assert renewed.current()["key"] == "key-1"
    fixed_env.sleep(0.001)
    assert renewed.current()["key"] == "key-2"


def test_what_does_not_end_is_asked_for_once(fixed_env):
    renewed = Renewed({}, Vendor(fixed_env, None), fixed_env)
    renewed.current()
    fixed_env.sleep(10 * HOUR_MS)
    assert renewed.current()["key"] == "key-1"


def test_what_ended_early_can_be_asked_for_anew(fixed_env):
    renewed = Renewed({}, Vendor(fixed_env), fixed_env)
    renewed.current()
    assert renewed.renew()
    assert renewed.current()["key"] == "key-2"
    assert not Renewed({"key": "k"}, None, fixed_env).renew()


def fail():
    raise StorageError("the catalog vends no credentials")


def test_a_catalog_that_vends_nothing_is_told_of(fixed_env):
    store = open_store(StorageOptions(refresh=fail), fixed_env)
    with pytest.raises(StorageError, match="vends no credentials"):
        store.read("s3://b/t/a")


def vend():
    return Vended({"key": "vEnDeD-key"})


def test_options_with_a_refresher_cross_to_other_processes_and_show_no_secrets(fixed_env):
    options = pickle.loads(pickle.dumps(replace(StorageOptions(), refresh=vend)))
    assert options.refresh().options == {"key": "vEnDeD-key"}
    assert "vEnDeD" not in repr(vend()) + repr(open_store(options, fixed_env))
