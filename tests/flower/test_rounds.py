"""Trained methods over Flower: the pipeline's rounds, private weights staying where they are."""

import csv
import json
from functools import partial

import numpy as np
import pytest
import torch
import yaml
from safetensors import safe_open
from safetensors.torch import load_file

pytest.importorskip("flwr")

from flwr.app import Array

from pfl.data.images.images import PixelArray, write_images
from pfl.data.samples.clients import read_clients, write_clients
from pfl.data.samples.index import TEST, TRAIN, Index, read_index, write_index
from pfl.data.tensors.federated_data import Holdout, federate
from pfl.data.tensors.pixels import pixel_view
from pfl.errors import InputError
from pfl.flower.messages.hello import Hello
from pfl.flower.server.rounds import _class_count
from pfl.runtime.class_prior import log_prior_ratio, shares
from pfl.runtime.values import Device, Precision
from pfl.training.settings import Models
from stages.train import train
from tests.flower.grid import node, play, virtual
from tests.synthetic import held_by
from tests.workspace import ROOT

CLIENTS, CLASSES, SIDE = 4, 3, 28
ROUNDS = {
    "network": "lenet5", "image-size": "auto", "augment": True, "rounds": 3, "epochs": 1,
    "batch-size": 8, "learning-rate": 0.05, "learning-rate-decay": 0.9, "momentum": 0.9,
    "nesterov": True, "weight-decay": 0.0005, "fraction": 0.75, "client-dropout": 0.2,
    "validation-fraction": 0.2, "evaluate-every": 2, "test": "downloaded", "precision": "fp32",
    "device": "cpu",
}  # fmt: skip
CD2 = {
    "ratio": 0.5, "cross": "both-shared", "increase": True, "average": True, "average-weight": 0.5,
    "average-ramp": 0.1, "average-every": "epoch", "distill": True, "distill-weight": 1.0,
    "detach": False,
}  # fmt: skip
OWN = ("local-test", "nll", "ece")
METHODS = {
    "cd2-pfed": CD2, "fedavg": {}, "ditto": {"attraction": 0.1}, "fedrod": {},
    "fedavg-prior": {"smoothing": 0.1},
}  # fmt: skip


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Images dealt to clients, and the parameter file."""
    folder = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(0)
    n, cut = 120, 80
    label = rng.integers(CLASSES, size=n).astype(np.int32)
    pixels = rng.integers(0, 60, (n, SIDE, SIDE, 1)) + 60 * label[:, None, None, None]
    write_images(folder / "images.h5", PixelArray(pixels.astype(np.uint8)), {})
    split = np.repeat([TRAIN, TEST], [cut, n - cut]).astype(np.uint8)
    names = tuple("abc")
    write_index(folder / "index.h5", Index(label, split, label * 0, names, ("all",)), {})
    owner = rng.integers(CLIENTS, size=n)
    write_clients(folder / "clients.h5", held_by(owner, label, cut, CLIENTS, CLASSES), {})
    (folder / "params.yaml").write_text(yaml.safe_dump({"rounds": ROUNDS, "train": METHODS}))
    return folder


def reference(data, method, out):
    """What the pipeline's stage makes of it."""
    flags = {name.replace("-", "_"): value for name, value in ROUNDS.items()}
    flags |= {"precision": Precision.fp32, "device": Device.cpu, "test": Models.DOWNLOADED}
    flags |= {"begin_from": ROOT / "data" / "begin"}
    train(
        method=method, seed=5, settings=f"{data}/params.yaml:train.{method}",
        images=data / "images.h5", index=data / "index.h5", clients_file=data / "clients.h5",
        report=out, out=out / "state.safetensors", scratch=out / "scratch", **flags,
    )  # fmt: skip
    return out


def run(data, out, method, faults=None, prepare=None, **settings):
    """One run over Flower; returns the grid."""
    config = {"params": str(data / "params.yaml"), "data": str(data), "report": str(out)}
    config |= {"clients-out": str(out), "method": method, "seed": 5, "clients": CLIENTS} | settings
    return play(config, virtual(CLIENTS), faults, prepare)


def shared(path):
    return {n: v for n, v in load_file(path).items() if n.startswith("shared/")}


def table(path):
    with path.open() as stream:
        return list(csv.DictReader(stream))


def check_equal(first, second):
    assert first.keys() == second.keys()
    assert all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize("method", METHODS)
def test_the_rounds_are_the_pipelines(data, tmp_path, method):
    theirs = reference(data, method, tmp_path / "pipeline")
    grid = run(data, tmp_path / "flower", method)
    check_equal(
        shared(tmp_path / "flower" / "shared.safetensors"), shared(theirs / "state.safetensors")
    )
    for own, other in zip(
        table(tmp_path / "flower" / "rounds.csv"), table(theirs / "rounds.csv"), strict=True
    ):
        assert own.items() <= other.items()
    for own, other in zip(
        table(tmp_path / "flower" / "per_client.csv"), table(theirs / "per_client.csv"), strict=True
    ):
        assert [own[name] for name in OWN] == [other[name] for name in OWN]
    own, other = (
        json.loads((folder / "metrics.json").read_text())[method]
        for folder in (tmp_path / "flower", theirs)
    )
    assert own["local-test"] == other["local-test"]
    assert None not in own["local-test"].values()
    bins = [(folder / "reliability.csv").read_text() for folder in (tmp_path / "flower", theirs)]
    assert bins[0] == bins[1]
    check_private(grid, theirs / "state.safetensors")


def check_private(grid, path):
    """What each client has kept at its node is what the pipeline has kept for it."""
    with safe_open(path, "pt") as file:
        kept = {}
        for key in file.keys():  # noqa: SIM118 (it is no mapping)
            kind, _, rest = key.partition("/")
            if kind != "shared":
                client, _, name = rest.partition("/")
                kept.setdefault(int(client), {})[f"{kind}/{name}"] = file.get_tensor(key)
    for client in range(CLIENTS):
        records = grid.contexts[node(client)].state.array_records
        if records:
            newest = records[max(records)]
            own = {name: torch.from_numpy(a.numpy()) for name, a in newest.items()}
            check_equal(own, kept.get(client, {}))


def test_a_client_keeps_the_model_with_its_own_prior(data, tmp_path):
    """It has everybody's class counts from the server, and its own at hand."""
    run(data, tmp_path, "fedavg-prior")
    index, owners = read_index(data / "index.h5"), read_clients(data / "clients.h5")
    nothing = torch.zeros((len(index.label), 1, 1, 1), dtype=torch.uint8)
    kept = Holdout(ROUNDS["validation-fraction"], 5)
    known = federate(index, owners, nothing, kept, partial(pixel_view, augment=False))
    bias = shared(tmp_path / "shared.safetensors")["shared/classifier.bias"].numpy()
    for client, one in known.clients.items():
        own = np.bincount(one.label.numpy(), minlength=CLASSES)
        ratio = log_prior_ratio(own, shares(known.class_count), 0.1)
        model = load_file(tmp_path / f"client-{client}" / "model.safetensors")
        np.testing.assert_allclose(model["classifier.bias"].numpy(), bias + ratio, atol=1e-6)


def test_class_counts_of_sites_are_summed_by_the_classes_names():
    told = {
        7: hello(0, ("a", "c"), [2, 3], 5),
        9: hello(1, ("b",), [4], 4),
        11: hello(2, ("a", "b", "c"), [0, 0, 0], 0),
    }
    assert _class_count(told, ("a", "b", "c")).tolist() == [2, 4, 3]


@pytest.mark.parametrize("count", [[1, 1], [3], [-1, 4], [1.5, 1.5], [True, 2]])
def test_class_counts_that_cannot_be_are_named(count):
    with pytest.raises(InputError, match=r"Client 3 counts .* samples of its 2 classes and has 3"):
        _class_count({1: hello(3, ("a", "b"), count, 3)}, ("a", "b"))


def hello(client, classes, count, samples):
    return Hello(client, {}, classes, {"class-count": count, "train": samples})


def test_only_methods_that_need_class_counts_ask_for_them(data, tmp_path):
    told = {}

    def look(message, answer):
        if message.metadata.message_type == "query.images":
            told[method] = json.loads(answer.content["hello"]["facts"])["class-count"]
        return answer

    for method in ("fedrod", "fedavg-prior"):
        run(data, tmp_path / method, method, faults={node(0): look})
    assert told["fedrod"] == [] and len(told["fedavg-prior"]) == CLASSES


def test_private_weights_are_in_no_message(data, tmp_path):
    sent = []

    def look(message, answer):
        if message.metadata.message_type == "train.round":
            sent.append({n: a.shape for n, a in answer.content["sent"].items()})
            assert set(message.content["shared"]) == set(answer.content["sent"])
        return answer

    run(data, tmp_path, "cd2-pfed", faults={node(0): look, node(1): look, node(2): look})
    with safe_open(tmp_path / "shared.safetensors", "pt") as file:
        whole = {n.partition("/")[2]: file.get_tensor(n).numel() for n in file.keys()}  # noqa: SIM118
    assert sent and all(
        sum(shape[0] for shape in one.values()) < sum(whole.values()) for one in sent
    )


def test_a_lost_upload_leaves_the_client_as_if_it_had_not_been_drawn(data, tmp_path, monkeypatch):
    """In the reference the client is not drawn: it must not have moved on."""
    everybody = {"fraction": 1.0, "client-dropout": 0.0}
    path = tmp_path / "params.yaml"
    path.write_text(yaml.safe_dump({"rounds": ROUNDS | everybody, "train": METHODS}))
    told = []

    def lost_once(message, answer):
        if message.metadata.message_type != "train.round":
            return answer
        told.append((message.content["told"]["round"], message.content["told"]["last"]))
        return None if told[-1][0] == 1 else answer

    settings = {"params": str(path), "on_fault": "go-on", "reply_seconds": 0.2}
    run(data, tmp_path / "lost", "cd2-pfed", faults={node(2): lost_once}, **settings)
    assert told == [(1, 0), (2, 0), (3, 2)]
    rounds = table(tmp_path / "lost" / "rounds.csv")
    assert [row["clients"] for row in rounds] == ["3", "4", "4"]
    found = shared(tmp_path / "lost" / "shared.safetensors")
    monkeypatch.setattr(
        "pfl.training.rounds.participants",
        lambda training, sizes, number: [k for k in range(CLIENTS) if (number, k) != (1, 2)],
    )
    run(data, tmp_path / "not-drawn", "cd2-pfed", params=str(path))
    check_equal(found, shared(tmp_path / "not-drawn" / "shared.safetensors"))


def test_a_restarted_node_is_found_out(data, tmp_path):
    grids = []

    def forget(message, answer):
        grids[0].contexts[node(1)].state.clear()
        return answer

    with pytest.raises(InputError, match=r"Client 1 .* has lost what it kept of round"):
        run(data, tmp_path, "cd2-pfed", faults={node(1): forget}, prepare=grids.append)


def changed(values):
    """A fault: the first entry of the upload is replaced."""

    def fault(message, answer):
        if message.metadata.message_type == "train.round":
            sent = answer.content["sent"]
            name = next(iter(sent))
            sent[name] = Array(values(sent[name].numpy()))
        return answer

    return fault


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (lambda a: a[:-1], "where torch.float32"),
        (lambda a: a.astype(np.float64), "torch.float64"),
        (lambda a: np.full_like(a, np.nan), "numbers that are not finite"),
    ],
)
def test_an_upload_that_makes_no_sense_is_named(data, tmp_path, values, message):
    faults = {node(k): changed(values) for k in range(CLIENTS)}
    with pytest.raises(InputError, match=rf"Client \d .*{message}"):
        run(data, tmp_path, "fedavg", faults=faults)
    run(data, tmp_path / "on", "fedavg", faults={node(0): changed(values)}, on_fault="go-on")
    assert json.loads((tmp_path / "on" / "metrics.json").read_text())["run"]["faults"]


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ({"fraction": 0.0}, r"rounds.fraction is 0.0: choose a number with 0 < x ≤ 1"),
        ({"epochs": True}, r"rounds\.epochs is True: it must be a whole number"),
        ({"precision": "bf61"}, r"rounds\.precision is 'bf61': choose from fp32, bf16"),
        ({"device": "gpu"}, r"rounds\.device is 'gpu': choose from auto, cpu, cuda"),
        ({"nesterov": "no"}, r"rounds\.nesterov is 'no': it must be true or false"),
        ({"augment": "no"}, r"rounds\.augment is 'no': it must be true or false"),
        ({"image-size": "large"}, r"rounds\.image-size is 'large': it must be auto or"),
        ({"network": "lenet6"}, r"rounds\.network is lenet6: choose from lenet5"),
        ({"test": "trained"}, r"rounds\.test is trained, but sites test the models that they"),
        ({"begin-from": "pyproject.toml"}, r"rounds\.begin-from is pyproject\.toml, which has a"),
    ],
)
def test_parameters_are_checked_at_the_server(data, tmp_path, section, message):
    path = tmp_path / "params.yaml"
    path.write_text(yaml.safe_dump({"rounds": ROUNDS | section, "train": METHODS}))
    with pytest.raises(InputError, match=message):
        run(data, tmp_path, "fedavg", params=str(path))


def test_an_unknown_method_is_refused(data, tmp_path):
    with pytest.raises(InputError, match=r"no train\.fedsgd"):
        run(data, tmp_path, "fedsgd")
