"""Beginning from a run's file: its weights at every client, whatever the method, or a sentence."""

from dataclasses import replace
from functools import partial

import pytest
import torch

from pfl.errors import InputError
from pfl.training.checkpoint import save_federation
from pfl.training.methods.ditto import ditto
from pfl.training.methods.fedavg import fedavg
from pfl.training.methods.fedper import fedper
from pfl.training.methods.lg_fed import End, lg_fed
from pfl.training.methods.local import local
from pfl.training.methods.registry import make_algorithm
from pfl.training.networks import build
from pfl.training.problem import make_problem
from pfl.training.rounds import begin
from pfl.training.split import merge
from pfl.training.warm_start import beginning_from, checkpoint_at
from tests.federations import equal, generator, place, play, problem, same, training
from tests.training.test_settings import PARAMS

LENET = partial(build, "lenet5", 1, 8, 3)
KEEPING = partial(fedper, private_layers=1)
LG = partial(lg_fed, shared_layers=1, shared_end=End.TOP)


def file_of(folder, make=fedavg, network=LENET, seed=0):
    """A run's file before the first round: the network's initial weights."""
    known = make_problem(training(seed=seed), network, make, (3, 4))
    path = folder / "seed.safetensors"
    save_federation(path, begin(known), {})
    return path


def test_the_initial_weights_of_the_same_seed_are_no_other_beginning(tmp_path):
    path = file_of(tmp_path)
    for seed in (0, 1):
        fresh = make_problem(training(seed=seed), LENET, fedavg, ())
        begun = make_problem(training(seed=seed), beginning_from(LENET, path), fedavg, ())
        assert equal(fresh.model.state_dict(), begun.model.state_dict()) == (seed == 0)
    assert beginning_from(LENET, None) is LENET


@pytest.mark.parametrize("make", [fedavg, KEEPING, LG, local, partial(ditto, attraction=0.1)])
def test_rounds_from_initial_weights_are_the_same_rounds(tmp_path, make):
    of = problem(make, rounds=2)
    path = tmp_path / "begin.safetensors"
    save_federation(path, begin(problem(fedavg)), {})
    model = beginning_from(lambda source: problem(make).model, path)(generator())
    assert same(play(replace(of, model=model))[0], play(of)[0])


@pytest.mark.parametrize("method", ["cd2-pfed", "fedper", "lg-fed", "local", "fedavg-ft"])
def test_every_client_begins_with_the_files_weights_whatever_it_keeps(tmp_path, method):
    path = file_of(tmp_path, seed=7)

    def make(model):
        return make_algorithm(method, model, PARAMS["train"][method], "train")

    file = make_problem(training(seed=7), LENET, fedavg, ()).model.state_dict()
    fresh, begun = (
        make_problem(training(), network, make, (3, 4))
        for network in (LENET, beginning_from(LENET, path))
    )
    for client in (0, 1):
        assert equal(first_state(begun, client), file)
        assert not equal(first_state(fresh, client), file)


def first_state(of, client):
    """The weights that a client trains from in the first round."""
    it = place(begin(of), client, 1)
    return merge(it.shared, it.member.private, of.split(it.member.last))


def test_a_folder_has_one_file_or_none(tmp_path):
    (tmp_path / "README.md").write_text("nothing")
    assert checkpoint_at(tmp_path) is None
    path = file_of(tmp_path)
    assert checkpoint_at(tmp_path) == checkpoint_at(path) == path
    (tmp_path / "other.safetensors").touch()
    with pytest.raises(InputError, match=r"holds other\.safetensors, seed\.safetensors: set "):
        checkpoint_at(tmp_path)
    with pytest.raises(InputError, match=r"rounds\.begin-from is .*no such file or folder"):
        checkpoint_at(tmp_path / "nowhere")


def refused(path, network=LENET):
    with pytest.raises(InputError) as told:
        beginning_from(network, path)(generator())
    return str(told.value)


@pytest.mark.parametrize(
    ("other", "named"),
    [
        (("lenet5", 3, 8, 3), "'conv1.weight' is (6, 3, 5, 5), and here it is (6, 1, 5, 5)"),
        (("lenet5", 1, 8, 10), "'classifier.bias' is (10,), and here it is (3,)"),
        (("resnet20", 1, 8, 3), "'classifier.weight' is (3, 64), and here it is (3, 84)"),
    ],
)
def test_another_network_is_refused_with_the_difference(tmp_path, other, named):
    assert named in refused(file_of(tmp_path, network=partial(build, *other)))


def test_a_missing_layer_is_named(tmp_path):
    small, large = (partial(build, name, 1, 8, 3) for name in ("resnet20", "resnet32"))
    assert "is not there, and here it is (" in refused(file_of(tmp_path, network=small), large)


def test_what_is_no_model_of_all_is_refused(tmp_path):
    federation, _ = play(problem(KEEPING), rounds=1)
    path = tmp_path / "kept.safetensors"
    save_federation(path, federation, {})
    assert "whose clients have private weights" in refused(path)
    path.write_bytes(b"no tensors")
    assert "damaged or no file of a run" in refused(path)
    torch.save({}, path)
    assert "damaged or no file of a run" in refused(path)
