import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pfl.training.methods.cd2pfed.channels import Cross, crossing, private_channels
from pfl.training.methods.cd2pfed.tracing import trace
from pfl.training.networks import build
from tests.nets import KINDS, channel_split, generator, plain

kinds = st.sampled_from(sorted(KINDS))
crosses = st.sampled_from(list(Cross))
percents = st.integers(0, 100)


@given(channels=st.integers(2, 600), percent=st.integers(1, 99))
def test_private_channels_are_the_ceiling_in_exact_arithmetic(channels, percent):
    exact = math.ceil(Fraction(percent, 100) * channels)
    assert private_channels(channels, percent / 100) == min(exact, channels - 1)


@given(channels=st.integers(2, 600), ratio=st.floats(0, 1), more=st.floats(0, 1))
def test_private_channels_grow_with_the_ratio_and_leave_both_parts_one(channels, ratio, more):
    few, many = (private_channels(channels, value) for value in sorted((ratio, more)))
    assert 0 <= few <= many <= channels
    assert all((private_channels(channels, x) > 0) == (x > 0) for x in (ratio, more))
    assert all((private_channels(channels, x) < channels) == (x < 1) for x in (ratio, more))


@given(kind=kinds, percent=percents, cross=crosses)
def test_a_split_has_one_mask_for_every_entry(kind, percent, cross):
    network = KINDS[kind]()
    split = channel_split(network, percent / 100, cross)
    state = network.state_dict()
    assert split.keys() == state.keys()
    for name, mask in split.items():
        assert mask.dtype == torch.bool
        assert mask.shape == state[name].shape


@given(kind=kinds, percents=st.tuples(percents, percents), cross=crosses)
def test_what_is_private_stays_private_as_the_ratio_grows(kind, percents, cross):
    network = KINDS[kind]()
    small, large = (channel_split(network, p / 100, cross) for p in sorted(percents))
    assert all(bool((large[name] | ~small[name]).all()) for name in small)


@pytest.mark.parametrize("cross", Cross)
@pytest.mark.parametrize("kind", KINDS)
def test_at_the_ends_all_is_shared_or_private(kind, cross):
    network = KINDS[kind]()
    assert not any(mask.any() for mask in channel_split(network, 0.0, cross).values())
    assert all(mask.all() for mask in channel_split(network, 1.0, cross).values())


# Of the plain network: (hidden output channels or None, hidden input channels or None, positions).
AXES = {
    "conv1.weight": (4, None, 1),
    "norm1.weight": (4, None, 1),
    "norm1.bias": (4, None, 1),
    "norm1.running_mean": (4, None, 1),
    "norm1.running_var": (4, None, 1),
    "norm1.num_batches_tracked": (None, None, 1),
    "conv2.weight": (6, 4, 1),
    "conv2.bias": (6, None, 1),
    "depthwise.weight": (6, None, 1),
    "depthwise.bias": (6, None, 1),
    "fc.weight": (5, 6, 4),
    "fc.bias": (5, None, 1),
    "classifier.weight": (None, 5, 1),
    "classifier.bias": (None, None, 1),
}


def owner(name, position, percent, cross):
    """Whether one element of the plain network is private, from the text of the rules."""
    out, inner, positions = AXES[name]

    def private(channel, channels):
        kept = min(math.ceil(Fraction(percent, 100) * channels), channels - 1)
        return channel >= channels - kept

    by_output = out is not None and private(position[0], out)
    by_input = inner is not None and private(position[1] // positions, inner)
    if out is None or inner is None:
        return by_output or by_input
    rules = {
        Cross.OUTPUT: by_output,
        Cross.INPUT: by_input,
        Cross.EITHER: by_output and by_input,
    }
    return rules.get(cross, by_output or by_input)


@pytest.mark.parametrize("cross", Cross)
@pytest.mark.parametrize("percent", [1, 34, 50, 99])
def test_each_element_belongs_to_whom_the_rules_say(percent, cross):
    network = plain()
    split = channel_split(network, percent / 100, cross)
    for name, mask in split.items():
        for place in np.ndindex(*mask.shape):
            assert bool(mask[place]) == owner(name, place, percent, cross), (name, place)


@given(kind=kinds, percent=percents)
def test_crossing_weights_are_private_under_the_default_rule(kind, percent):
    network = KINDS[kind]()
    between = crossing(trace(network), network.state_dict(), percent / 100)
    split = channel_split(network, percent / 100, Cross.BOTH_SHARED)
    assert all(bool((split[name] | ~between[name]).all()) for name in split)
    cut = {name for name, mask in between.items() if mask.any()}
    assert not {name for name in cut if name.startswith(("stem", "norm", "conv1", "class"))}
    assert bool(cut) == (0 < percent < 100)


def test_half_of_the_channels_share_a_quarter_of_the_hidden_weights():
    split = channel_split(build("resnet18", 3, 32, 10, generator()), 0.5, Cross.BOTH_SHARED)
    shared = sum(int((~mask).sum()) for mask in split.values())
    assert shared / sum(mask.numel() for mask in split.values()) == pytest.approx(0.25, abs=0.01)
