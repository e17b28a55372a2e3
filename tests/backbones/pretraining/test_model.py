"""The masked autoencoder's network, the linear probe, and the encoder as a file."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from pfl.artifacts.tensors import BROKEN, load_tensors, save_tensors
from pfl.backbones.mae.encoder import Architecture, positions
from pfl.backbones.mae.encoder_file import Encoder, load_encoder, save_encoder
from pfl.backbones.pretraining.masking import draw_visible, hidden_patches
from pfl.backbones.pretraining.model import Decoder
from pfl.backbones.pretraining.patches import patchify
from pfl.backbones.pretraining.probe import encoder_features, probe_accuracy
from pfl.backbones.pretraining.recipe import encoder_weights
from pfl.errors import InputError
from pfl.ridge.gcv import GlobalPath, choose_beta
from pfl.ridge.linalg import ridge_fit, spectrum, syrk
from tests.backbones.tiny_autoencoder import ARCHITECTURE, autoencoder, images, learner
from tests.nets import generator

TOKENS = ARCHITECTURE.tokens


@pytest.fixture(scope="module")
def model():
    return autoencoder().eval()


def batch():
    patches = torch.randn(3, TOKENS, 12, generator=generator(2))
    return patches, draw_visible(3, TOKENS, 4, generator(3))


def test_hidden_pixels_reach_neither_the_encoder_nor_the_prediction(model):
    patches, visible = batch()
    hidden = hidden_patches(visible, TOKENS)[:, :, None]
    other = torch.where(hidden, torch.full_like(patches, torch.nan), patches)
    assert torch.equal(model.encode(other, visible), model.encode(patches, visible))
    assert torch.equal(model(other, visible), model(patches, visible))


def test_every_visible_pixel_reaches_every_prediction(model):
    patches, visible = batch()
    patches.requires_grad_()
    model(patches, visible)[:, :, 0].sum().backward()
    touched = (patches.grad != 0).all(2)
    assert torch.equal(touched, ~hidden_patches(visible, TOKENS))


def test_with_all_patches_the_encoder_is_timm_s_own_network(model):
    pixels = torch.randn(2, 3, 8, 8)
    everything = torch.arange(TOKENS).expand(2, -1)
    seen = model.encode(patchify(pixels, 2), everything)
    assert torch.allclose(seen, model.encoder.forward_features(pixels), atol=1e-5)
    assert torch.allclose(seen.mean(1), model.encoder(pixels), atol=1e-5)


def test_the_order_of_visible_patches_does_not_matter(model):
    patches, visible = batch()
    turned = visible.flip(1)
    outputs = model.encode(patches, visible)
    assert torch.allclose(model.encode(patches, turned).flip(1), outputs, atol=1e-5)
    assert torch.allclose(model(patches, turned), model(patches, visible), atol=1e-5)


def test_positions_tell_places_apart_and_are_not_trained(model):
    places = positions(4, 8)[0]
    assert len(np.unique(places.numpy().round(6), axis=0)) == 16
    assert torch.equal(model.encoder.pos_embed[0], places)
    assert not model.encoder.pos_embed.requires_grad


def test_weights_come_from_the_generator_alone(model):
    before = torch.get_rng_state()
    torch.manual_seed(5)
    again, other = autoencoder(), autoencoder(1)
    torch.manual_seed(5)
    assert torch.equal(torch.rand(2), torch.rand(2, generator=generator(5)))
    torch.set_rng_state(before)
    for name, value in model.state_dict().items():
        assert torch.equal(again.state_dict()[name], value)
        assert value.isfinite().all()
    assert not torch.equal(other.pixels.weight, model.pixels.weight)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"image_size": 9}, "multiple of 2"),
        ({"image_size": 2}, "from 4 on"),
        ({"width": 6}, "pretrain.width"),
        ({"heads": 3}, "pretrain.heads"),
    ],
)
def test_architectures_that_do_not_work_out_are_refused(change, named):
    with pytest.raises(InputError, match=named):
        replace(ARCHITECTURE, **change)
    with pytest.raises(InputError, match="decoder-heads"):
        Decoder(4, 1, 3)


def test_the_probe_is_leave_one_out_of_the_ridge_that_it_chose():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 40)
    features = rng.normal(size=(40, 6)) + np.eye(3, 6)[labels]
    eigen = spectrum(syrk(features))
    targets = np.eye(3)[labels]
    beta = choose_beta(GlobalPath(eigen, eigen.vectors.T @ features.T @ targets, 40))
    right = 0
    for i in range(40):
        others = np.arange(40) != i
        head = ridge_fit(features[others], targets[others], beta)
        right += int((features[i] @ head).argmax() == labels[i])
    assert 10 < right < 40
    assert probe_accuracy(features, labels, 3) == right / 40


def test_features_are_those_of_the_weights_that_would_be_kept():
    trained, of = learner(), images(5)
    trained.average = {k: v + 0.1 for k, v in trained.average.items()}
    own = trained.model.encoder.eval()(of.batch(slice(None)))
    assert not np.allclose(encoder_features(trained, of), own.detach().numpy())
    trained.model.encoder.load_state_dict(encoder_weights(trained))
    own = trained.model.encoder(of.batch(slice(None)))
    assert np.allclose(encoder_features(trained, of), own.detach().numpy(), atol=1e-6)


def test_grey_images_have_three_equal_channels():
    seen = images(4, channels=1).batch(slice(None))
    assert seen.shape == (4, 3, 8, 8)
    assert torch.equal(seen[:, 0], seen[:, 2])
    mean, std = images(4, channels=1).statistics
    assert len(mean) == len(std) == 3


def encoder(model):
    weights = {name: value.clone() for name, value in model.encoder.state_dict().items()}
    training = {"epochs": 1, "images": 2}
    return Encoder(ARCHITECTURE, [0.1, 0.2, 0.3], [0.4, 0.5, 0.6], weights, training)


def test_an_encoder_comes_back_as_it_was_in_the_same_bytes(tmp_path, model):
    one, two = tmp_path / "one.safetensors", tmp_path / "two.safetensors"
    save_encoder(one, encoder(model))
    read = load_encoder(one)
    assert read.architecture == Architecture(8, 2, 8, 2, 2)
    assert (read.mean, read.std) == ([0.1, 0.2, 0.3], [0.4, 0.5, 0.6])
    save_encoder(two, read)
    assert one.read_bytes() == two.read_bytes()


def test_other_files_are_no_encoders(tmp_path, model):
    path = tmp_path / "x.safetensors"
    save_encoder(path, encoder(model))
    data = bytearray(path.read_bytes())
    data[-2] ^= 1
    for content in (bytes(data), bytes(data[:100]), b"", b"no tensors" * 50):
        path.write_bytes(content)
        with pytest.raises(InputError, match=r"x\.safetensors is no encoder.*data/pretrained"):
            load_encoder(path)
    save_tensors(path, {"a": torch.zeros(2)}, {"round": 3})
    with pytest.raises(InputError, match="its format is 'None'"):
        load_encoder(path)


def test_tensors_and_facts_are_protected(tmp_path):
    path = tmp_path / "x.safetensors"
    save_tensors(path, {"a": torch.arange(3.0)}, {"epoch": 7})
    tensors, facts = load_tensors(path)
    assert facts == {"epoch": 7}
    assert torch.equal(tensors["a"], torch.arange(3.0))
    path.write_bytes(path.read_bytes().replace(b": 7", b": 8"))
    with pytest.raises(BROKEN, match="changed after"):
        load_tensors(path)
