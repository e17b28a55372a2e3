"""Training: it learns, it is a function of its parameters, and a stopped run ends the same."""

import errno
from dataclasses import replace

import pytest
import torch

from pfl.backbones.pretraining import training
from pfl.backbones.pretraining.recipe import encoder_weights
from pfl.backbones.pretraining.training import STATE, save_learner, train_epochs
from pfl.errors import InputError
from tests.backbones.tiny_autoencoder import RECIPE, images, learner
from tests.nets import generator


class Stopped(Exception):
    pass


def probe(of):
    return {"probe": float(sum(v.double().sum() for v in encoder_weights(of).values()))}


def trained(folder, recipe=RECIPE):
    return train_epochs(learner(recipe), images(), recipe, folder, probe, 2)


def stored(of, folder):
    save_learner(folder / "last.safetensors", of)
    return (folder / "last.safetensors").read_bytes()


def stop_after(monkeypatch, epochs):
    original, done = training.train_epoch, []

    def limited(*arguments):
        if len(done) == epochs:
            raise Stopped
        done.append(1)
        return original(*arguments)

    monkeypatch.setattr(training, "train_epoch", limited)


@pytest.mark.parametrize("ema", [0.0, 0.5])
@pytest.mark.parametrize("epochs", [0, 1, 2])
def test_a_stopped_run_ends_with_the_same_bytes(tmp_path, monkeypatch, epochs, ema):
    recipe = replace(RECIPE, ema=ema)
    whole = trained(tmp_path / "whole", recipe)
    with monkeypatch.context() as patch:
        stop_after(patch, epochs)
        with pytest.raises(Stopped):
            trained(tmp_path / "stopped", recipe)
    resumed = trained(tmp_path / "stopped", recipe)
    assert resumed.history == whole.history
    assert stored(resumed, tmp_path) == stored(whole, tmp_path)
    assert [("probe" in row) for row in whole.history] == [True, False, True, True]


def test_a_damaged_state_is_told_and_not_believed(tmp_path, monkeypatch, caplog):
    whole = trained(tmp_path / "whole")
    with monkeypatch.context() as patch:
        stop_after(patch, 2)
        with pytest.raises(Stopped):
            trained(tmp_path / "stopped")
    path = tmp_path / "stopped" / STATE
    data = bytearray(path.read_bytes())
    data[-5] ^= 1
    path.write_bytes(data)
    again = trained(tmp_path / "stopped")
    assert "all are trained again" in caplog.text
    assert stored(again, tmp_path) == stored(whole, tmp_path)


def test_a_disk_that_fails_is_no_damaged_state(tmp_path, monkeypatch):
    def fail(path, learner):
        raise OSError(errno.EIO, "x")

    trained(tmp_path)
    monkeypatch.setattr(training, "load_learner", fail)
    with pytest.raises(OSError, match="x"):
        trained(tmp_path)


def test_it_learns_to_predict_what_is_hidden(tmp_path):
    recipe = replace(RECIPE, epochs=25, ema=0.0)
    losses = [row["loss"] for row in trained(tmp_path, recipe).history[1:]]
    assert losses[0] > 0.9
    assert losses[-1] < 0.8 * losses[0]


def test_the_seed_and_nothing_global_decides(tmp_path):
    torch.manual_seed(1)
    one = stored(trained(tmp_path / "1"), tmp_path)
    torch.manual_seed(2)
    assert stored(trained(tmp_path / "2"), tmp_path) == one
    assert stored(trained(tmp_path / "3", replace(RECIPE, seed=4)), tmp_path) != one


def test_without_epochs_nothing_changes(tmp_path):
    recipe = replace(RECIPE, epochs=0)
    after = trained(tmp_path, recipe)
    assert [row["epoch"] for row in after.history] == [0]
    after.history.clear()
    assert stored(after, tmp_path) == stored(learner(recipe), tmp_path)


def test_the_average_follows_the_weights(tmp_path):
    """After one step from w₀ to w₁ it is e·w₀ + (1 − e)·w₁; without it, the weights are kept."""
    recipe = replace(RECIPE, epochs=1, warmup=0.0, batch=20, ema=0.25)
    before, after = learner(recipe), trained(tmp_path / "1", recipe)
    plain = trained(tmp_path / "2", replace(recipe, ema=0.0))
    moved = 0
    for name, value in encoder_weights(after).items():
        first, last = before.average[name], encoder_weights(plain)[name]
        moved += int(not torch.equal(first, last))
        assert torch.allclose(value, 0.25 * first + 0.75 * last, atol=1e-6)
    assert moved > 10


def test_vectors_and_fixed_positions_do_not_decay():
    of = learner()
    decays = {
        id(p): group["weight_decay"] for group in of.optimizer.param_groups for p in group["params"]
    }
    for name, parameter in of.model.named_parameters():
        if not parameter.requires_grad:
            assert name == "encoder.pos_embed"
            assert id(parameter) not in decays
        else:
            vector = name.endswith("bias") or "norm" in name or name == "mask_token"
            assert decays[id(parameter)] == (0.0 if vector else RECIPE.weight_decay), name


def test_each_epoch_draws_other_masks_and_each_batch_too():
    of, batch = learner(), images().batch(slice(0, 8))
    masks = generator(0)
    losses = {float(training.batch_loss(of, batch, RECIPE, masks).detach()) for _ in range(4)}
    assert len(losses) == 4


def test_diverging_is_told(tmp_path):
    with pytest.raises(InputError, match=r"diverged in epoch \d.*learning-rate"):
        trained(tmp_path, replace(RECIPE, lr=1e30, warmup=0.0))


@pytest.mark.parametrize(
    ("change", "named"),
    [({"smallest_crop": 0.0}, "smallest-crop"), ({"ema": 1.0}, "ema"), ({"warmup": 3.0}, "warmup")],
)
def test_recipes_that_lead_nowhere_are_refused(change, named):
    with pytest.raises(InputError, match=named):
        replace(RECIPE, **change)
