"""One try, what it may do, and the values to try."""

import datetime
import decimal
import fractions
import json
import signal
import warnings

import numpy as np

REFUSALS = (ValueError, TypeError, OSError)
SECONDS = 60  # after which a try counts as hung


class Hang(BaseException):
    """A try took too long."""


class WrongError(AssertionError):
    """A try did something that it must not do."""


class NoRepr:
    """An object that cannot even be shown."""

    def __repr__(self):
        raise RuntimeError("no repr")


DEEP = json.loads("[" * 900 + "]" * 900)
EVIL = [
    *(None, True, "", "x", "1e5", "\0", "é", b"x", -1, 0, 1, 2, 2**31 - 1, 2**31, 2**63, 2**64),
    *(10**400, -(10**400), 0.5, -0.5, 2.0, float("nan"), float("inf"), 1e308, 5e-324, 1e-8, 1j),
    *(fractions.Fraction(1, 3), decimal.Decimal("0.1"), datetime.timedelta(1)),
    *(np.int8(3), np.uint64(2**63), np.float32(0.5), np.timedelta64(3, "s"), np.True_),
    *([], [1], [[1], [1, 2]], (), (1, 2), {}, {"a": 1}, {1}, range(3), DEEP, NoRepr(), NoRepr, len),
    *(np.zeros(0), np.zeros((2, 2)), np.array([np.nan, 1.0]), np.array(["a"]), np.array([1j, 0])),
    *(np.array(5), np.array([2**63], dtype=np.uint64), np.zeros((2, 3), dtype="m8[s]")),
    *(np.full((2, 3), -7), np.zeros((2, 3), dtype=np.int8), np.array([None, 1])),
]


def attempt(what, call):
    """Make one try; return whether it was refused. Anything else than that raises WrongError."""

    def rang(*_):
        raise Hang(what)

    before = signal.signal(signal.SIGALRM, rang)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            call()
    except REFUSALS as error:
        if not str(error).strip():
            raise WrongError(f"{what}: refused without a word") from error
        return True
    except WrongError:
        raise
    except (Exception, Hang) as error:
        raise WrongError(f"{what}: {type(error).__name__}: {error}") from error
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    return False


def shown(value):
    try:
        return repr(value)[:60]
    except Exception:
        return type(value).__name__
