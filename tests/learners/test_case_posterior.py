"""The linear algebra of the posterior over cases; `tests/ledger/test_feature_evidence.py` has what
it says about proposals.
"""

import numpy as np
import pytest
from scipy.linalg import solve_triangular

from lowswitch.learners.case_posterior import _solved


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("shape", [(1,), (5,), (5, 1), (5, 2), (21, 400)])
def test_a_triangular_system_is_solved_as_scipy_solves_it(shape, transposed):
    generator = np.random.default_rng(0)
    data = generator.normal(size=(30, shape[0]))
    factor = np.linalg.cholesky(data.T @ data + np.eye(shape[0]))
    right = generator.normal(size=shape[::-1]).T
    expected = solve_triangular(factor, right, lower=True, trans=int(transposed))
    found = _solved(factor, right, transposed=transposed)
    assert found.shape == shape
    assert found == pytest.approx(expected, rel=1e-12)
