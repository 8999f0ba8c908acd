"""Signals: the first waits for a shielded step, the second does not."""

import os
import signal

import pytest

from icectl.cli.signals import Interrupts, Terminated

pytestmark = pytest.mark.usefixtures("signals_as_on_a_terminal")


def send(*numbers: signal.Signals) -> None:
    for number in numbers:
        os.kill(os.getpid(), number)


def shielded(interrupts: Interrupts, steps: list[str], *numbers: signal.Signals) -> None:
    with interrupts.handled():
        with interrupts.shield():
            send(*numbers)
            steps.append("finished")
        steps.append("went on")


@pytest.mark.parametrize(
    ("number", "ending"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, Terminated)]
)
def test_outside_a_shield_a_signal_ends_the_run_at_once(number, ending):
    with pytest.raises(ending), Interrupts(print).handled():
        send(number)


@pytest.mark.parametrize(
    ("number", "ending"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, Terminated)]
)
def test_a_shielded_step_is_finished_first(number, ending):
    told: list[str] = []
    steps: list[str] = []
    with pytest.raises(ending):
        shielded(Interrupts(told.append), steps, number)
    assert steps == ["finished"]
    assert told == ["finishing the step in progress; interrupt again to stop at once"]


def test_a_second_signal_cuts_the_step():
    steps: list[str] = []
    with pytest.raises(Terminated):
        shielded(Interrupts(lambda text: None), steps, signal.SIGINT, signal.SIGTERM)
    assert steps == []


def test_a_signal_is_not_lost_when_the_step_fails():
    interrupts = Interrupts(lambda text: None)

    def failing() -> None:
        with interrupts.handled(), interrupts.shield():
            send(signal.SIGINT)
            raise ValueError("the store is gone")

    with pytest.raises(KeyboardInterrupt) as caught:
        failing()
    assert isinstance(caught.value.__context__, ValueError)


def test_a_shield_without_a_signal_changes_nothing():
    interrupts = Interrupts(print)
    with interrupts.handled(), interrupts.shield():
        pass
    with interrupts.handled(), interrupts.shield():
        pass


def test_handlers_are_put_back_and_an_ignored_signal_stays_ignored():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        usual = signal.getsignal(signal.SIGTERM)
        with Interrupts(print).handled():
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
            assert signal.getsignal(signal.SIGTERM) is not usual
        assert signal.getsignal(signal.SIGTERM) is usual
    finally:
        signal.signal(signal.SIGINT, before)
