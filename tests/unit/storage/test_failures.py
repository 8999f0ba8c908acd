"""Trying again what failed for a passing reason."""

import pytest

from icectl.storage.failures import retry


class Flaky:
    """An action that fails some times, then gives 7."""

    def __init__(self, *errors):
        self.errors = list(errors)

    def __call__(self):
        if self.errors:
            raise self.errors.pop(0)
        return 7


def run(action, env):
    return retry(
        action,
        env,
        is_transient=lambda error: isinstance(error, TimeoutError),
        translated=lambda error: LookupError(str(error)),
    )


def test_pauses_double(fixed_env):
    assert run(Flaky(TimeoutError(), TimeoutError(), TimeoutError()), fixed_env) == 7
    assert fixed_env.slept == [0.2, 0.4, 0.8]


def test_the_sixth_failure_is_the_last(fixed_env):
    action = Flaky(*(TimeoutError(str(number)) for number in range(1, 8)))
    with pytest.raises(LookupError, match=r"^'?6'?$"):
        run(action, fixed_env)
    assert fixed_env.slept == [0.2, 0.4, 0.8, 1.6, 3.2]


def test_what_does_not_pass_is_not_tried_again(fixed_env):
    action = Flaky(ValueError("no"), TimeoutError())
    with pytest.raises(LookupError, match="no"):
        run(action, fixed_env)
    assert fixed_env.slept == []
    assert len(action.errors) == 1


def test_an_error_that_has_no_translation_keeps_its_own_traceback(fixed_env):
    problem = ValueError("bug")
    with pytest.raises(ValueError, match="bug") as caught:
        retry(
            Flaky(problem), fixed_env, is_transient=lambda _: False, translated=lambda error: error
        )
    assert caught.value is problem
    assert problem.__cause__ is None
