import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pfl.heads import create_heads, open_heads


@given(st.integers(1, 4), st.integers(1, 6), st.integers(2, 4), st.integers(0, 2**32 - 1))
def test_heads_come_back_as_float32(tmp_path_factory, clients, m, d, seed):
    rng = np.random.default_rng(seed)
    local, own = rng.normal(size=(2, clients, m, d))
    alpha = rng.uniform(size=clients)
    path = tmp_path_factory.mktemp("h") / "heads.h5"
    with create_heads(path, (clients, m, d), 1.0) as file:
        for k in range(clients):
            file.add(k, local[k], own[k], float(alpha[k]))
    with open_heads(path) as heads:
        assert heads.shape == (clients, m, d)
        np.testing.assert_array_equal(heads.local(0, clients), local.astype(np.float32))
        np.testing.assert_array_equal(heads.personalized(0, clients), own.astype(np.float32))
        np.testing.assert_array_equal(heads.personalized(1, clients), own[1:].astype(np.float32))
        np.testing.assert_array_equal(heads.alpha, alpha)
