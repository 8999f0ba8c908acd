"""Requests under way at once: never more than allowed, fewer while a store throttles."""

import threading

import pytest

from icectl.storage.buckets.requests import InFlight
from icectl.storage.open import requests_at_once


class SlowDown(Exception):
    pass


def slow_down():
    raise SlowDown


def throttled_once(flight):
    with pytest.raises(SlowDown):
        flight.run(slow_down)


def flight_of(most):
    return InFlight(most, lambda error: isinstance(error, SlowDown))


def test_no_more_requests_run_than_are_allowed():
    flight, running, most, lock = flight_of(3), 0, [0], threading.Lock()
    enough = threading.Barrier(3)

    def request():
        nonlocal running
        with lock:
            running += 1
            most[0] = max(most[0], running)
        enough.wait(5)
        with lock:
            running -= 1

    threads = [threading.Thread(target=flight.run, args=(request,)) for _ in range(9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [3]


def test_throttling_halves_them_and_never_ends_them():
    flight = flight_of(48)
    for allowed in (24, 12, 6, 3, 1, 1):
        throttled_once(flight)
        assert flight.allowed == allowed


def test_requests_of_one_wave_count_once():
    flight, started = flight_of(8), threading.Barrier(8)

    def request():
        started.wait(5)
        raise SlowDown

    threads = [threading.Thread(target=throttled, args=(flight, request)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert flight.allowed == 4


def throttled(flight, request):
    with pytest.raises(SlowDown):
        flight.run(request)


def test_successes_allow_more_again_and_other_failures_do_not():
    flight = flight_of(4)
    throttled_once(flight)
    for _ in range(9):
        with pytest.raises(ZeroDivisionError):
            flight.run(lambda: 1 // 0)
    assert flight.allowed == 2
    for _ in range(2):
        flight.run(lambda: None)
    assert flight.allowed == 3
    for _ in range(30):
        flight.run(lambda: None)
    assert flight.allowed == 4


def test_stores_are_asked_for_more_at_once_than_disks():
    assert requests_at_once(None, "/wh/t") == requests_at_once(None, "file:/wh/t") == 8
    assert requests_at_once(None, "s3://b/t") == requests_at_once(None, "gs://b/t") == 48
    assert requests_at_once(3, "s3://b/t") == 3
