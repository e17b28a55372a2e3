import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pfl.fedhip.families.table import Family
from pfl.fedhip.heads import create_heads, open_heads
from pfl.fedhip.selection.candidates import PersonalizeSettings, candidates
from pfl.fedhip.selection.choice import Chosen


@given(st.integers(1, 4), st.integers(1, 6), st.integers(2, 4), st.integers(0, 2**32 - 1))
def test_heads_come_back_as_float32_with_their_choice(tmp_path_factory, clients, m, d, seed):
    rng = np.random.default_rng(seed)
    local, own = rng.normal(size=(2, clients, m, d))
    every = candidates(PersonalizeSettings(Family.AUTO, None, None, None), rng.uniform(1e-3, 1e3))
    chosen = rng.integers(0, len(every), (clients, 2))
    losses = rng.uniform(size=(clients, len(every)))
    losses[:, 0] = np.nan
    path = tmp_path_factory.mktemp("h") / "heads.h5"
    with create_heads(path, (clients, m, d), every, {"family": "auto"}) as file:
        for k in range(clients):
            file.add(k, Chosen(local[k], own[k], *chosen[k].tolist(), losses[k]))
    with open_heads(path) as heads:
        assert heads.shape == (clients, m, d)
        np.testing.assert_array_equal(heads.local(0, clients), local.astype(np.float32))
        np.testing.assert_array_equal(heads.personalized(0, clients), own.astype(np.float32))
        np.testing.assert_array_equal(heads.personalized(1, clients), own[1:].astype(np.float32))
        assert repr(heads.candidates) == repr(every)  # NaN differs from itself
        assert repr(heads.chosen_local) == repr(tuple(every[i] for i in chosen[:, 0]))
        assert repr(heads.chosen) == repr(tuple(every[i] for i in chosen[:, 1]))
        np.testing.assert_array_equal(heads.losses, losses)
