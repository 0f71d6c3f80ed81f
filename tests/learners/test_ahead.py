"""The planning of `few` is compiled in a second process, once, and never in the way."""

import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

import lowswitch as ls
from lowswitch.kernels import compile as kernel_compile
from lowswitch.kernels import exploitation
from lowswitch.kernels.evidence import believe
from lowswitch.kernels.model_draws import curious, plan_on_draw
from lowswitch.learners import ahead

PLANNING = (believe, curious, plan_on_draw, exploitation.exploit)


@pytest.fixture
def begun(monkeypatch):
    """The commands of second processes, as if nothing were compiled yet; each only sleeps."""
    commands, begin = [], subprocess.Popen

    def popen(command, **options):
        commands.append((command, options["env"]))
        return begin([sys.executable, "-c", "import time; time.sleep(30)"])

    monkeypatch.setattr(kernel_compile, "is_missing", lambda kernel: True)
    monkeypatch.delenv(ahead.HELPER, raising=False)
    monkeypatch.setattr(ahead, "cores", lambda: 2)
    monkeypatch.setattr(ahead.subprocess, "Popen", popen)
    ahead.compile_ahead.cache_clear()
    yield commands
    helper = ahead.compile_ahead()
    if helper is not None:
        helper.kill()
        helper.wait()
    ahead.compile_ahead.cache_clear()


def learned(**options):
    learner = ls.Learner(
        ls.few(deployments=2), horizon=2, states=3, actions=2, episodes=40, seed=1, **options
    )
    for _ in range(40):
        states = np.zeros(2, dtype=int)
        actions = [learner.act(0, step=h).action for h in range(2)]
        learner.tell(states, actions, np.ones(2))
    return learner


def test_what_the_second_process_compiles_is_what_few_calls():
    ahead.plan_once()
    before = [set(kernel.overloads) for kernel in PLANNING]
    assert all(before)
    assert learned().deployments == 2
    assert [set(kernel.overloads) for kernel in PLANNING] == before


def test_one_process_is_begun_and_nobody_waits_for_it(begun):
    learner = learned()
    learned()
    ((command, environment),) = begun
    assert "plan_once" in command[-1]
    assert environment[ahead.HELPER]
    assert ahead.compile_ahead().poll() is None
    assert learner.deployments == 2


@pytest.mark.parametrize("reason", ["compiled", "one core", "is the second", "another learner"])
def test_no_process_is_begun_without_need(begun, monkeypatch, reason):
    algorithm = ls.psrl() if reason == "another learner" else ls.few(deployments=2)
    if reason == "compiled":
        monkeypatch.setattr(kernel_compile, "is_missing", lambda kernel: False)
    elif reason == "one core":
        monkeypatch.setattr(ahead, "cores", lambda: 1)
    elif reason == "is the second":
        monkeypatch.setenv(ahead.HELPER, "1")
    ls.Learner(algorithm, horizon=2, states=3, actions=2, episodes=40)
    assert not begun


def test_without_room_for_a_process_everything_is_compiled_here(begun, monkeypatch):
    def refuse(*_, **__):
        raise OSError("no room")

    monkeypatch.setattr(ahead.subprocess, "Popen", refuse)
    assert learned().deployments == 2
    assert ahead.compile_ahead() is None


def test_a_kernel_is_missing_until_it_is_compiled_or_kept():
    def kernel(overloads, index, cache=None):
        file = SimpleNamespace(_load_index=lambda: index)
        return SimpleNamespace(
            overloads=overloads, _cache=cache or SimpleNamespace(_cache_file=file)
        )

    assert kernel_compile.is_missing(kernel({}, {}))
    assert not kernel_compile.is_missing(kernel({1: 1}, {}))
    assert not kernel_compile.is_missing(kernel({}, {1: "file"}))
    assert not kernel_compile.is_missing(kernel({}, {}, kernel_compile.NullCache()))
    assert not kernel_compile.is_missing(lambda: None)  # without numba's compiler
