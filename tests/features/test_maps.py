"""Features of observations: by hand, random waves, and what is refused."""

import numpy as np
import pytest

from lowswitch import features

EXAMPLES = np.array([[0.0, 10.0], [2.0, 30.0], [4.0, 20.0]])


def test_features_by_hand():
    deviation = np.sqrt(8 / 3)
    plain = features.standardised(EXAMPLES)
    assert plain([4.0, 20.0]) == pytest.approx([1, 2 / deviation, 0])
    assert plain.size == 3
    squares = features.polynomial(EXAMPLES, degree=2)
    u, v = 2 / deviation, 10 / np.sqrt(200 / 3)
    assert squares([4.0, 30.0]) == pytest.approx([1, u, v, u * u, u * v, v * v])
    assert features.one_hot(3)(1).tolist() == [0, 1, 0]
    assert features.one_hot(3)(np.array([2, 0])).tolist() == [[0, 0, 1], [1, 0, 0]]
    twice = features.own(lambda rows: 2 * rows, size=2, inputs=2)
    assert twice([1.0, 2.0]).tolist() == [2, 4]


def test_random_fourier_features_approximate_the_gaussian_kernel():
    """With 20,000 waves z(x).z(y) is exp(-|x - y|^2 / 2) within 5 standard errors."""
    examples = np.random.default_rng(0).normal(size=(500, 2))
    made = features.fourier(examples, size=20_000)
    x, y = examples[:2]
    apart = (x - y) / examples.std(axis=0)
    waved = made(x)[3:] @ made(y)[3:]
    assert waved == pytest.approx(np.exp(-0.5 * apart @ apart), abs=5 / np.sqrt(20_000))
    again = features.fourier(examples, size=20_000)
    assert (again(x) == made(x)).all()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: features.standardised([[1.0, 2.0], [1.0, 3.0]]), "column 0 .* is always 1"),
        (lambda: features.standardised([1.0, 2.0]), r"observations \[n, D\], at least two"),
        (lambda: features.standardised([[1.0], [np.nan]]), "examples must be finite"),
        (lambda: features.standardised(EXAMPLES)([1.0]), "observations with 2 numbers"),
        (lambda: features.standardised(EXAMPLES)([1.0, np.nan]), "observations must be finite"),
        (lambda: features.one_hot(3)(3), "states must be whole numbers from 0 to 2"),
        (
            lambda: features.own(lambda rows: rows, size=3, inputs=2)([1.0, 2.0]),
            r"must be \[n, 3\] for n observations",
        ),
        (lambda: features.own(3, size=3, inputs=2), "function must take observations"),
    ],
)
def test_features_that_cannot_be_made_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
