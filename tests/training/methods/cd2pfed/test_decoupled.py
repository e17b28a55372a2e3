import subprocess
import sys
from copy import deepcopy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from pfl.training.methods.cd2pfed.channels import Cross, crossing, private_channels
from pfl.training.methods.cd2pfed.decoupled import decouple
from pfl.training.methods.cd2pfed.tracing import trace
from pfl.training.networks import NETWORKS, Normalization, build
from tests.nets import KINDS, channel_split, drawn, generator, images, plain, residual
from tests.workspace import ROOT

kinds = st.sampled_from(sorted(KINDS))
ratios = st.integers(1, 99).map(lambda percent: percent / 100)
WIDTHS = {"plain": (4, 6, 5), "residual": (4, 6)}


def parts(network, ratio):
    """Masks of the elements of g(w_0) and of g(w_i); the classifier's bias is in both."""
    found, state = trace(network), network.state_dict()
    private = channel_split(network, ratio, Cross.BOTH_SHARED)
    between = crossing(found, state, ratio)
    shared = {name: ~mask for name, mask in private.items()}
    own = {name: mask & ~between[name] for name, mask in private.items()}
    for name in own:
        if name == "classifier.bias" or name.endswith("num_batches_tracked"):
            own[name] = torch.ones_like(own[name])
    return shared, own


def small(kind, network, mask, widths):
    """A network of its own with these widths, its weights taken out of ``network``."""
    alone = KINDS[kind](widths).double()
    state = network.state_dict()
    cut = {
        name: state[name][mask[name]].reshape(value.shape)
        for name, value in alone.state_dict().items()
    }
    alone.load_state_dict(cut)
    return alone


@settings(max_examples=25)
@given(kind=kinds, ratio=ratios, seed=st.integers(0, 99))
def test_sub_networks_are_small_networks_with_the_sliced_weights(kind, ratio, seed):
    network = drawn(KINDS[kind](), seed)
    shared, private = parts(network, ratio)
    kept = [private_channels(width, ratio) for width in WIDTHS[kind]]
    left = [width - n for width, n in zip(WIDTHS[kind], kept, strict=True)]
    logits = decouple(trace(network), network, ratio)(images())
    for mask, widths, found in ((shared, left, logits.shared), (private, kept, logits.private)):
        alone = small(kind, network, mask, tuple(widths))
        expected = alone(images())
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)
        wanted = torch.autograd.grad(expected.sum(), list(alone.parameters()))
        got = torch.autograd.grad(found.sum(), list(network.parameters()), retain_graph=True)
        for (name, _), gradient, flow in zip(network.named_parameters(), wanted, got, strict=True):
            inside = flow[mask[name]].reshape(gradient.shape)
            torch.testing.assert_close(inside, gradient, rtol=1e-7, atol=1e-9)
            assert not flow[~mask[name]].any()


@settings(max_examples=25)
@given(kind=kinds, ratio=ratios)
def test_joint_scores_and_statistics_are_the_networks_own_bit_for_bit(kind, ratio):
    network = drawn(KINDS[kind]())
    alone = deepcopy(network)
    logits = decouple(trace(network), network, ratio)(images())
    assert torch.equal(logits.joint, alone(images()))
    states = zip(network.state_dict().values(), alone.state_dict().values(), strict=True)
    assert all(torch.equal(one, other) for one, other in states)


@pytest.mark.parametrize("name", NETWORKS)
def test_named_networks_run_decoupled(name):
    network = build(name, 1, 16, 4, generator()).to(memory_format=torch.channels_last)
    batch = torch.randn(3, 1, 16, 16, generator=generator())
    alone = deepcopy(network)
    logits = decouple(trace(network), network, 0.3)(batch)
    assert torch.equal(logits.joint, alone(batch))
    assert logits.shared.shape == logits.private.shape == (3, 4)
    assert not torch.equal(logits.shared, logits.private)


NARROW_PROJECTION = """
import torch
from torch import nn
from pfl.training.methods.cd2pfed.decoupled import decouple
from pfl.training.methods.cd2pfed.tracing import trace
from tests.nets import drawn, generator

def gradients(dtype, layout):
    network = drawn(nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 32, 1, stride=2), nn.ReLU(),
        nn.Flatten(), nn.Linear(512, 3),
    )).to(dtype, memory_format=layout)
    batch = torch.randn(8, 1, 8, 8, generator=generator()).to(dtype)
    logits = decouple(trace(network), network, 0.33)(batch)
    return torch.autograd.grad((logits.shared + logits.private).sum(), list(network.parameters()))

exact = gradients(torch.float64, torch.contiguous_format)
for _ in range(20):
    for found, expected in zip(gradients(torch.float32, torch.channels_last), exact, strict=True):
        scale = float(expected.abs().max())
        torch.testing.assert_close(found.double(), expected, rtol=0, atol=1e-5 * scale)
"""


@pytest.mark.parametrize("threads", [1, 2])
def test_narrow_projections_stay_within_their_memory(threads):
    """Of 5 channels, which oneDNN's gradient of a strided 1 × 1 convolution does not bear."""
    code = f"import torch; torch.set_num_threads({threads})\n{NARROW_PROJECTION}"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, timeout=120)


def test_a_trace_serves_every_network_of_the_same_architecture():
    found = trace(plain())
    network = drawn(plain(), 5)
    other = decouple(found, network, 0.5)(images())
    own = decouple(trace(network), network, 0.5)(images())
    assert torch.equal(other.private, own.private)


def test_the_shared_sub_network_depends_on_shared_elements_alone():
    network = drawn(residual())
    private = channel_split(network, 0.5, Cross.BOTH_SHARED)
    before = decouple(trace(network), network, 0.5)(images())
    with torch.no_grad():
        for name, weight in network.named_parameters():
            weight[private[name]] += 1.0
    after = decouple(trace(network), network, 0.5)(images())
    assert torch.equal(before.shared, after.shared)
    assert not torch.equal(before.private, after.private)
    assert not torch.equal(before.joint, after.joint)


class InPlace(nn.Module):
    """Adds and multiplies in place, by what is cut from the joint network and what is not."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(2, 4, 3, padding=1)
        self.second = nn.Conv2d(4, 4, 3, padding=1)
        self.relu = nn.ReLU(inplace=True)
        self.classifier = nn.Linear(4, 3)

    def forward(self, x):
        cut = self.relu(self.first(x))
        mixed = self.relu(self.second(cut))
        cut = torch.tanh(cut)
        cut += mixed
        cut *= 2.0
        return self.classifier(cut.mean((2, 3)))


def test_operations_in_place_do_no_harm():
    network = drawn(InPlace())
    logits = decouple(trace(network), network, 0.5)(images())
    assert torch.equal(logits.joint, network(images()))
    (logits.joint + logits.shared + logits.private).sum().backward()
    half = slice(0, 2)
    first = nn.functional.conv2d(
        images(), network.first.weight[half], network.first.bias[half], padding=1
    ).relu()
    mixed = nn.functional.conv2d(
        first, network.second.weight[half, half], network.second.bias[half], padding=1
    ).relu()
    pooled = ((first.tanh() + mixed) * 2).mean((2, 3))
    expected = pooled @ network.classifier.weight[:, half].T + network.classifier.bias
    torch.testing.assert_close(logits.shared, expected, rtol=1e-12, atol=1e-12)


def test_single_values_are_normalized_by_running_statistics():
    network = drawn(
        nn.Sequential(
            nn.Conv2d(2, 4, 8),
            Normalization(4),
            nn.Conv2d(4, 4, 1),
            Normalization(4),
            nn.Flatten(),
            nn.Linear(4, 3),
        )
    )
    logits = decouple(trace(network), network, 0.5)(images(1))
    assert torch.equal(logits.joint, deepcopy(network).eval()(images(1)))
    assert logits.private.isfinite().all()
    assert logits.shared.isfinite().all()
