"""The short form of :mod:`tests.faults.kills`."""

import numpy as np
import pytest

from tests.faults.kills import play


@pytest.mark.slow
def test_killed_at_random_moments_the_pipeline_ends_with_the_same_bytes(tmp_path):
    tally = play(tmp_path, 3, np.random.default_rng(0))
    assert tally.kills == 3
    assert tally.compared >= 1
