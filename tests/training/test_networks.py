import pytest
import torch
import torchvision
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from pfl.errors import InputError
from pfl.training.networks import NETWORKS, Normalization, build


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_come_from_their_generator_alone(name):
    before = torch.get_rng_state()
    one, two = (build(name, 1, 16, 4, generator(7)).state_dict() for _ in range(2))
    other = build(name, 1, 16, 4, generator(8)).state_dict()
    assert torch.equal(before, torch.get_rng_state())
    assert all(torch.equal(one[key], two[key]) for key in one)
    weights = [key for key in one if one[key].ndim > 1]
    assert not any(torch.equal(one[key], other[key]) for key in weights)


@settings(max_examples=12)
@given(
    name=st.sampled_from(["lenet5", "resnet20"]),
    channels=st.sampled_from([1, 3]),
    size=st.integers(4, 40),
    classes=st.integers(2, 7),
)
def test_any_image_size_gives_class_scores(name, channels, size, classes):
    network = build(name, channels, size, classes, generator())
    scores = network(torch.randn(2, channels, size, size, generator=generator()))
    assert scores.shape == (2, classes)
    assert scores.isfinite().all()


@pytest.mark.parametrize("name", ["resnet18", "resnet34"])
def test_residual_networks_for_photographs_are_torchvisions(name):
    mine = build(name, 3, 96, 10, generator()).eval()
    theirs = torchvision.models.get_model(name, weights=None, num_classes=10).eval()
    pairs = zip(theirs.state_dict(), mine.state_dict().values(), strict=True)
    theirs.load_state_dict(dict(pairs))
    images = torch.randn(2, 3, 96, 96, generator=generator())
    with torch.no_grad():
        assert torch.equal(mine(images), theirs(images))


@pytest.mark.parametrize(
    ("name", "size", "count"),
    # LeNet-5: 456 + 2,416 + 48,120 + 10,164 + 850. ResNet-20 and ResNet-32: 0.27 and 0.46 million
    # in table 6 of the paper, here with the 2,752 weights of two projections.
    [("lenet5", 32, 62_006), ("resnet20", 32, 272_474), ("resnet32", 32, 466_906)],
)
def test_sizes_are_the_papers(name, size, count):
    network = build(name, 3, size, 10, generator())
    assert sum(weight.numel() for weight in network.parameters()) == count


def test_initial_weights_have_their_variance():
    network = build("resnet18", 3, 32, 10, generator())
    for name, module in network.named_modules():
        if isinstance(module, nn.Conv2d):
            fan_out = module.out_channels * module.kernel_size[0] * module.kernel_size[1]
            expected = (2 / fan_out) ** 0.5
            assert module.weight.std().item() == pytest.approx(expected, rel=0.1), name
    linear = network.classifier
    assert linear.weight.abs().max().item() <= 512**-0.5
    assert linear.weight.std().item() == pytest.approx((3 * 512) ** -0.5, rel=0.1)


def test_normalization_is_torchs_but_for_single_values():
    mine, theirs = Normalization(3), nn.BatchNorm2d(3)
    many, one = torch.randn(4, 3, 2, 2, generator=generator()), torch.full((1, 3, 1, 1), 5.0)
    assert torch.equal(mine(many), theirs(many))
    before = {key: value.clone() for key, value in mine.state_dict().items()}
    with pytest.raises(ValueError, match="more than 1 value"):
        theirs(one)
    assert torch.equal(mine(one), theirs.eval()(one))
    assert all(torch.equal(before[key], value) for key, value in mine.state_dict().items())


def test_one_image_can_be_trained_on():
    network = build("resnet18", 1, 8, 3, generator())
    network(torch.randn(1, 1, 8, 8, generator=generator())).sum().backward()
    assert all(weight.grad.isfinite().all() for weight in network.parameters())


def test_unknown_names_and_tiny_images_are_refused():
    with pytest.raises(InputError, match=r"rounds\.network is lenet: choose from lenet5"):
        build("lenet", 3, 32, 10, generator())
    with pytest.raises(InputError, match="3 pixels are too small"):
        build("lenet5", 3, 3, 10, generator())


@pytest.mark.parametrize("size", [8, 28, 32])
def test_pooling_before_the_rectifier_is_pooling_after_it(size):
    """To the last bit, gradients too: the plain LeNet-5 of the literature."""
    mine = build("lenet5", 3, size, 10, generator())
    layers = dict(mine.named_children())
    for n in "12":
        layers[f"pool{n}"], layers[f"relu{n}"] = layers[f"relu{n}"], layers[f"pool{n}"]
    theirs = nn.Sequential(*layers.values())
    images = torch.randn(9, 3, size, size, generator=generator())
    found = []
    for network in (mine, theirs):
        scores = network(images)
        mine.zero_grad()
        scores.square().sum().backward()
        found.append([scores.detach(), *(w.grad.clone() for w in mine.parameters())])
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))
