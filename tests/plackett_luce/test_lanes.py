"""Eight doubles at once: exp(-x) and 1 - exp(-x) to the last bits."""

import numpy as np

from saferank.plackett_luce import lanes


def test_decay_is_right_to_the_last_bits():
    rng = np.random.default_rng(0)
    x = np.r_[rng.uniform(-700, 700, 4000), np.exp(rng.uniform(-700, 6.5, 4000)), np.zeros(8)]
    kept, gone = np.empty_like(x), np.empty_like(x)
    lanes.decays(x, kept, gone)
    np.testing.assert_allclose(kept, np.exp(-x), rtol=1e-15)
    np.testing.assert_allclose(gone, -np.expm1(-x), rtol=1e-15)
