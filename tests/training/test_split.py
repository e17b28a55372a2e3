"""A split takes a state apart and puts it together; only the shared part is ever sent."""

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given

from pfl.training.split import (
    all_private,
    average,
    check_split,
    keep,
    merge,
    nothing_private,
    packed_bytes,
    private_where,
    upload,
)
from tests.federations import equal, generator, network

STATE = network(normalized=True).state_dict()


def random_split(seed):
    g = generator(seed)
    return {
        name: torch.rand(value.shape, generator=g) < torch.rand((), generator=g)
        for name, value in STATE.items()
    }


def random_state(seed):
    g = generator(seed)
    return {
        name: torch.randn(value.shape, generator=g)
        if value.is_floating_point()
        else torch.randint(0, 99, value.shape, generator=g)
        for name, value in STATE.items()
    }


seeds = st.integers(0, 10**6)


@given(seeds, seeds)
def test_shared_and_private_elements_partition_the_state(a, b):
    state, split = random_state(a), random_split(b)
    sent, kept = upload(state, split), keep(state, split)
    for name, value in state.items():
        parts = [part[name] for part in (sent, kept) if name in part]
        assert sorted(torch.cat(parts).tolist()) == sorted(value.flatten().tolist())
        assert len(kept.get(name, ())) == split[name].sum()


@given(seeds, seeds, seeds)
def test_merge_undoes_taking_apart(a, b, c):
    state, other, split = random_state(a), random_state(b), random_split(c)
    assert equal(merge(state, keep(state, split), split), state)
    mixed = merge(other, keep(state, split), split)
    assert equal(keep(mixed, split), keep(state, split))
    assert equal(upload(mixed, split), upload(other, split))


@given(seeds, seeds)
def test_nothing_private_is_in_an_upload(a, b):
    state, split = random_state(a), random_split(b)
    marked = {name: torch.where(split[name], 77, value) for name, value in state.items()}
    changed = {name: torch.where(split[name], -5, value) for name, value in state.items()}
    assert equal(upload(marked, split), upload(changed, split))


@given(seeds, seeds)
def test_an_upload_counts_its_own_elements(a, b):
    state, split = random_state(a), random_split(b)
    shared = sum(int((~split[name]).sum()) * state[name].element_size() for name in state)
    assert packed_bytes(upload(state, split)) == shared


def test_whole_splits():
    state = random_state(0)
    assert upload(state, all_private(state)) == {} == keep(state, nothing_private(state))
    assert packed_bytes(upload(state, nothing_private(state))) == sum(
        value.numel() * value.element_size() for value in state.values()
    )
    split = private_where(state, lambda name: name.startswith("9."))
    assert set(keep(state, split)) == {"9.weight", "9.bias"}
    check_split(state, split)


def test_merge_shares_no_memory():
    state, split = random_state(0), random_split(0)
    merged = merge(state, keep(state, split), split)
    before = {name: value.clone() for name, value in state.items()}
    for value in merged.values():
        value.zero_()
    assert equal(state, before)


@given(seeds, seeds, st.lists(st.floats(0.1, 1e4), min_size=1, max_size=9))
def test_the_average_of_equal_states_is_that_state(a, b, weights):
    state, split = random_state(a), random_split(b)
    sent = upload(state, split)
    assert equal(average(state, [sent] * len(weights), weights, split), state)


@given(seeds)
def test_the_average_is_weighted_and_leaves_private_elements_alone(seed):
    split = random_split(seed)
    server, a, b = random_state(1), random_state(2), random_state(3)
    mean = average(server, [upload(a, split), upload(b, split)], [3.0, 1.0], split)
    assert equal(keep(mean, split), keep(server, split))
    for name, value in mean.items():
        expected = (3 * a[name].double() + b[name].double()) / 4
        if not value.is_floating_point():
            expected = expected.round()
        torch.testing.assert_close(
            value[~split[name]], expected.to(value.dtype)[~split[name]], rtol=1e-6, atol=1e-6
        )


def test_check_split_names_what_is_wrong():
    state, split = random_state(0), dict(random_split(0))
    with pytest.raises(ValueError, match=r"9\.bias"):
        check_split(state, {name: mask for name, mask in split.items() if name != "9.bias"})
    with pytest.raises(ValueError, match=r"9\.bias"):
        check_split(state, split | {"9.bias": torch.zeros(7, dtype=torch.bool)})
