"""FedHiP over Flower: the pipeline's bytes, exact joining and leaving, faults that are named."""

import csv
import io
import json
import pickle
import shutil
from dataclasses import replace

import h5py
import numpy as np
import pytest
import yaml

pytest.importorskip("flwr")

from flwr.app import Array

from pfl.data.features.features import open_features, write_features
from pfl.data.samples.clients import read_clients, write_clients
from pfl.data.samples.index import Index, read_index, write_index
from pfl.errors import InputError
from pfl.evaluation.metrics import HEADS
from pfl.fedhip.families.table import Family
from pfl.fedhip.selection.candidates import Prior
from pfl.fedhip.uploads import open_uploads, packed_bytes
from stages.aggregate import aggregate
from stages.evaluate import evaluate
from stages.gram import gram
from stages.personalize import personalize
from tests.flower.grid import node, play, virtual
from tests.plain_heads import plain_heads
from tests.synthetic import write_federation

CLIENTS, WIDTH, CLASSES = 4, 6, 3
PARAMETERS = {
    "aggregate": {"beta": "auto", "leave-out": [], "secure": False, "neighbors": "auto"},
    "personalize": {
        "family": "auto", "alpha": "auto", "beta": "auto", "rho": "auto", "shrinkage": "auto",
        "pull": "auto", "prior": "auto", "smoothing": "auto",
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory):
    """The pipeline's data folder with what its stages make of it."""
    folder = tmp_path_factory.mktemp("pipeline")
    write_federation(folder, CLIENTS, WIDTH, CLASSES, training=90, testing=40)
    (folder / "server.h5").unlink()
    places = {"index": folder / "index.h5", "clients_file": folder / "clients.h5"}
    places["features"] = folder / "features.h5"
    seen = {"project": 0, "lift": 0, "norm": "none", "seed": 0}
    gram(**places, **seen, out=folder / "uploads.h5")
    aggregate(
        uploads=folder / "uploads.h5", out=folder / "server.h5", members=folder / "members.h5",
        upload=folder / "upload.json", beta="auto", leave_out=[], secure=False, neighbors="auto",
        privacy_epsilon="none", privacy_delta=1e-5, privacy_seed="secret",
    )  # fmt: skip
    personalize(
        **places, **seen, server=folder / "server.h5", members=folder / "members.h5",
        out=folder / "heads.h5", family=Family.AUTO, alpha="auto", beta="auto",
        rho="auto", shrinkage="auto", pull="auto", prior=Prior.AUTO, smoothing="auto",
    )  # fmt: skip
    evaluate(
        **places, **seen, server=folder / "server.h5", heads=folder / "heads.h5",
        upload=folder / "upload.json", report=folder / "report",
    )  # fmt: skip
    (folder / "params.yaml").write_text(yaml.safe_dump(PARAMETERS))
    return folder


def run(pipeline, out, nodes=None, faults=None, prepare=None, **settings):
    """One run; returns the grid."""
    config = {"params": str(pipeline / "params.yaml"), "data": str(pipeline)}
    config |= {"report": str(out), "clients-out": str(out)} | settings
    return play(config, nodes or virtual(CLIENTS), faults, prepare)


def reports(out):
    return json.loads((out / "metrics.json").read_text())


def check_heads(pipeline, path, client):
    """A client has kept exactly what the pipeline made for it."""
    with h5py.File(pipeline / "heads.h5") as theirs, h5py.File(path) as own:
        assert datasets(own) == datasets(theirs)
        assert own.attrs["temperature"] == theirs.attrs["temperature"]
        for name in datasets(theirs):
            if name.startswith("candidate/") or name in ("share", "personalized/family"):
                expected = theirs[name][...]
            else:
                expected = theirs[name][client : client + 1]
            assert own[name][...].tobytes() == expected.tobytes(), name


def datasets(file):
    """Names of all arrays."""
    found = set()
    file.visititems(lambda name, one: isinstance(one, h5py.Dataset) and found.add(name))
    return found


def test_sums_and_heads_are_the_pipelines_to_the_byte(pipeline, tmp_path):
    run(pipeline, tmp_path)
    assert (tmp_path / "server.h5").read_bytes() == (pipeline / "server.h5").read_bytes()
    for client in range(CLIENTS):
        check_heads(pipeline, tmp_path / f"client-{client}" / "heads.h5", client)


def own_folder(pipeline, folder, client):
    """A site that has its own samples alone, in the pipeline's order."""
    folder.mkdir()
    index, held = read_index(pipeline / "index.h5"), read_clients(pipeline / "clients.h5")
    rows = np.sort(np.concatenate([held.train.of(client), held.test.of(client)]))
    own = Index(index.label[rows], index.split[rows], index.group[rows], index.classes, ("here",))
    write_index(folder / "index.h5", own, {})
    with open_features(pipeline / "features.h5") as features:
        values = features.rows(0, len(features))[rows]
        facts = {"step": features.step, "backbone": features.backbone, "saturated": 0}
    write_features(folder / "features.h5", values.shape, lambda i, j: values[i:j], facts)
    return folder


@pytest.fixture(scope="module")
def sites(pipeline, tmp_path_factory):
    """A folder for each client."""
    root = tmp_path_factory.mktemp("sites")
    return [own_folder(pipeline, root / f"site-{k}", k) for k in range(CLIENTS)]


def site_nodes(sites, out):
    return {
        50 + k: {"client": k, "data": str(folder), "out": str(out / f"site-{k}")}
        for k, folder in enumerate(sites)
    }


def test_sites_with_their_own_folders_give_the_same(pipeline, sites, tmp_path):
    run(pipeline, tmp_path, site_nodes(sites, tmp_path), data="/nowhere")
    assert (tmp_path / "server.h5").read_bytes() == (pipeline / "server.h5").read_bytes()
    for client in range(CLIENTS):
        check_heads(pipeline, tmp_path / f"site-{client}" / "heads.h5", client)


def test_a_real_site_reads_no_folder_that_the_server_names(pipeline, tmp_path):
    with pytest.raises(InputError, match="does not know its number or its data"):
        run(pipeline, tmp_path, {1: {"client": 0}})


def test_only_counts_and_sums_come_back_with_the_answer(pipeline, tmp_path):
    """Numbers of the heads and of their tests, of one size whatever the samples."""
    seen = {}

    def look(message, answer):
        seen[message.metadata.message_type] = answer.content
        return answer

    run(pipeline, tmp_path, faults={node(1): look})
    assert set(seen["train.moments"]["sent"]) <= {"gram", "class", "count", "cross"}
    assert not seen["evaluate.heads"].array_records and not seen["evaluate.heads"].config_records
    told = dict(seen["evaluate.heads"]["metrics"].items())
    by_head = {f"{head}:{part}": size for head in HEADS for part, size in BY_HEAD.items()}
    sizes = {name: len(value) if isinstance(value, list) else 0 for name, value in told.items()}
    assert sizes == {**OF_CLIENT, **by_head, **{f"external-test:{head}": 0 for head in HEADS}}


OF_CLIENT = {
    "train": 0, "test": 0, "external-test": 0, "choice:local": 0, "choice:equation-14": 0,
    "member": 5, "stack": 5, "prior": 0,
}  # fmt: skip
BY_HEAD = {
    "hits": 0, "by-bin:loss": 0, "by-bin:count": 15, "by-bin:hits": 15, "by-bin:confidence": 15
}  # fmt: skip


def test_the_report_is_the_pipelines(pipeline, tmp_path):
    """Every cell and number that a client can tell by itself, to the last digit."""
    run(pipeline, tmp_path)
    own, theirs = (
        list(csv.DictReader((folder / "per_client.csv").open()))
        for folder in (tmp_path, pipeline / "report")
    )
    missing = theirs[0].keys() - own[0].keys()
    assert {name.split(":")[0] for name in missing} == {
        "classes", "global-test", "global-test-own-prior"
    }  # fmt: skip
    assert own[0].keys() < theirs[0].keys() and len(own) == len(theirs) == CLIENTS
    for mine, line in zip(own, theirs, strict=True):
        assert mine == {name: line[name] for name in mine}
    told, made = reports(tmp_path), reports(pipeline / "report")
    assert told["run"]["clients-without-test"] == 1
    assert told["run"]["families"] == made["run"]["families"]
    with open_uploads(pipeline / "uploads.h5") as sent:
        size = sum(packed_bytes(sent.of(client)) for client in range(CLIENTS))
    for head in HEADS:
        mine, expected = told[f"fedhip:{head}"], made[f"fedhip:{head}"]
        assert mine["local-test"] == expected["local-test"]
        assert mine["global-test"] is None
        assert mine["upload-bytes"] == (0 if head == "local" else size)


def test_a_simulation_tests_on_the_group_that_takes_no_part(pipeline, tmp_path):
    """The sums do not know it, and each client's head is right on it as often as a loop counts."""
    data, out = shutil.copytree(pipeline, tmp_path / "data"), tmp_path / "out"
    index, held = read_index(data / "index.h5"), read_clients(data / "clients.h5")
    dealt = np.concatenate([held.train.sample, held.test.sample])
    external = np.setdiff1d(np.arange(len(index.label)), dealt)
    facts = {"index-sha256": index.sha256}
    write_clients(data / "clients.h5", replace(held, external=external), facts)
    run(data, out)
    assert (out / "server.h5").read_bytes() == (pipeline / "server.h5").read_bytes()
    table = np.genfromtxt(out / "per_client.csv", delimiter=",", names=True, deletechars="")
    with open_features(data / "features.h5") as features:
        rows = features.rows(0, len(features))[external].astype(np.float32)
        rows = rows * features.step
    for client in range(CLIENTS):
        kept = plain_heads(out / f"client-{client}" / "heads.h5", out / "server.h5")
        assert set(kept) == set(HEADS)
        for name, (head,) in kept.items():
            found = head.scores(rows, own=False).argmax(1) == index.label[external]
            np.testing.assert_allclose(
                table[f"external-test:{name}"][client], found.mean(), atol=1e-6
            )
    means = reports(out)["fedhip:personalized"]["external-test"]
    assert means["mean"] == pytest.approx(table["external-test:personalized"].mean(), abs=1e-6)


def total_without(pipeline, out, client):
    """server.h5 of a run in which a client never was."""
    nodes = {n: c for n, c in virtual(CLIENTS).items() if c["partition-id"] != client}
    run(pipeline, out, nodes)
    return (out / "server.h5").read_bytes()


def test_leaving_is_as_never_having_joined(pipeline, tmp_path):
    state = str(tmp_path / "state")
    run(pipeline, tmp_path / "all", state=state)
    run(pipeline, tmp_path / "left", state=state, leave="2")
    expected = total_without(pipeline, tmp_path / "never", 2)
    assert (tmp_path / "left" / "server.h5").read_bytes() == expected
    assert reports(tmp_path / "left")["run"]["clients"] == CLIENTS - 1
    again = run(pipeline, tmp_path / "again", state=state)
    assert (tmp_path / "again" / "server.h5").read_bytes() == (pipeline / "server.h5").read_bytes()
    assert [n for n, kind in again.asked if kind == "train.moments"] == [node(2)]


def few_classes(pipeline, folder, client):
    """A site that knows the classes that it has only, and numbers them in its own way."""
    own_folder(pipeline, folder, client)
    index = read_index(folder / "index.h5")
    present = np.roll(np.unique(index.label), client)
    label = np.array([present.tolist().index(one) for one in index.label], np.int32)
    names = tuple(index.classes[one] for one in present)
    write_index(folder / "index.h5", replace(index, label=label, classes=names), {})
    return folder


def test_sites_may_know_their_own_classes_only(pipeline, tmp_path):
    folders = [few_classes(pipeline, tmp_path / f"few-{k}", k) for k in range(CLIENTS)]
    run(pipeline, tmp_path, site_nodes(folders, tmp_path))
    assert (tmp_path / "server.h5").read_bytes() == (pipeline / "server.h5").read_bytes()
    for client in range(CLIENTS):
        check_heads(pipeline, tmp_path / f"site-{client}" / "heads.h5", client)


def test_a_class_that_is_new_to_a_kept_sum_is_told(pipeline, sites, tmp_path):
    state = str(tmp_path / "state")
    run(pipeline, tmp_path, site_nodes(sites[:3], tmp_path), state=state)
    strange = own_folder(pipeline, tmp_path / "strange", 3)
    index = read_index(strange / "index.h5")
    names = (*index.classes[:-1], "unheard of")
    write_index(strange / "index.h5", replace(index, classes=names), {})
    with pytest.raises(InputError, match=r"Client 3 .* does not have \(unheard of\)"):
        run(pipeline, tmp_path, site_nodes([*sites[:3], strange], tmp_path), state=state)


def test_who_is_left_out_by_the_parameters_takes_no_part(pipeline, tmp_path):
    path = tmp_path / "params.yaml"
    left_out = PARAMETERS["aggregate"] | {"leave-out": [2]}
    path.write_text(yaml.safe_dump(PARAMETERS | {"aggregate": left_out}))
    grid = run(pipeline, tmp_path, params=str(path))
    assert (tmp_path / "server.h5").read_bytes() == total_without(pipeline, tmp_path / "never", 2)
    assert [kind for number, kind in grid.asked if number == node(2)] == ["query.features"]


def test_leaving_needs_membership(pipeline, tmp_path):
    with pytest.raises(InputError, match="Client 1 cannot leave"):
        run(pipeline, tmp_path, leave="1")


def test_who_connects_while_others_send_is_in_the_sum(pipeline, tmp_path):
    late, grids = node(3), []

    def absent(grid):
        grid.connected.remove(late)
        grids.append(grid)

    def meanwhile(message, answer):
        if message.metadata.message_type == "train.moments":
            grids[0].connected.append(late)
        return answer

    run(pipeline, tmp_path, faults={node(0): meanwhile}, prepare=absent)
    assert (tmp_path / "server.h5").read_bytes() == (pipeline / "server.h5").read_bytes()


def tampered(change):
    """A fault: the client's upload is changed before it is sent."""

    def fault(message, answer):
        if message.metadata.message_type == "train.moments":
            sent = answer.content["sent"]
            for name, values in change({n: a.numpy() for n, a in sent.items()}).items():
                sent[name] = Array(values)
        return answer

    return fault


def dies(kind):
    """A fault: no answer to this message, nor to any later one."""

    def fault(message, answer):
        return None if message.metadata.message_type in kind else answer

    return fault


def fails(message, answer):
    raise RuntimeError("out of memory")


def npy_claiming(shape):
    """An array whose header claims more than there is."""
    stream = io.BytesIO()
    header = {"descr": "<i8", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(stream, header)
    return stream.getvalue()


def forged(data):
    """A fault: what is sent as a number array is these bytes."""

    def fault(message, answer):
        if message.metadata.message_type == "train.moments":
            answer.content["sent"]["gram"] = Array("int64", (1,), "numpy.ndarray", data)
        return answer

    return fault


FAULTS = {
    "before sending": (dies({"train.moments", "evaluate.heads"}), "has not answered 'train"),
    "with an error": (fails, "out of memory"),
    "wrong shape": (tampered(lambda a: {"gram": a["gram"][:-1]}), r"gram has the shape \(20,\)"),
    "no integers": (tampered(lambda a: {"gram": a["gram"] * np.nan}), "sent float64 numbers"),
    "a class too many": (tampered(lambda a: {"class": a["class"] + 2}), "which no client can have"),
    "a terabyte": (forged(npy_claiming((10**12,))), "cannot be understood"),
    "a pickle": (forged(pickle.dumps(print)), "cannot be understood"),
    "nothing": (forged(b""), "cannot be understood"),
    "a broken archive": (forged(b"PK\3\4"), "cannot be understood"),
    "beyond range": (tampered(lambda a: {"count": a["count"] * 0}), "beyond what its samples"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_client_at_fault_is_named_and_left_out(pipeline, tmp_path, fault):
    broken, message = FAULTS[fault]
    with pytest.raises(InputError, match=message):
        run(pipeline, tmp_path / "stop", faults={node(2): broken}, reply_seconds=0.3)
    run(pipeline, tmp_path, faults={node(2): broken}, reply_seconds=0.3, on_fault="go-on")
    assert (tmp_path / "server.h5").read_bytes() == total_without(pipeline, tmp_path / "never", 2)
    (told,) = reports(tmp_path)["run"]["faults"][:1]
    assert f"(node {node(2)})" in told


def test_a_client_that_dies_after_sending_is_in_the_sum(pipeline, tmp_path):
    silent = {node(2): dies({"evaluate.heads"})}
    run(pipeline, tmp_path, faults=silent, reply_seconds=0.3, on_fault="go-on")
    assert (tmp_path / "server.h5").read_bytes() == (pipeline / "server.h5").read_bytes()
    told = reports(tmp_path)["run"]
    assert told["clients"] == CLIENTS - 1 and told["faults"][0].startswith("Client 2 (node")


IMPOSSIBLE = {
    "more hits than tests": (lambda m: {"personalized:hits": m["test"] + 1}, "which cannot be"),
    "a head there is not": (lambda m: {"choice:local": 10**6}, "names a head that is none of"),
    "a head below zero": (lambda m: {"choice:equation-14": -1}, "names a head that is none of"),
    "families too few": (lambda m: {"stack": [1.0]}, "its 'stack' is .*which cannot be"),
    "an infinite weight": (lambda m: {"stack": [np.inf] * 5}, "its 'stack' is .*which cannot be"),
    "a prior of nothing": (lambda m: {"prior": np.nan}, "its 'prior' is nan, which cannot be"),
    "bins of others": (
        lambda m: {"local:by-bin:count": [9] * 15},
        "of more or fewer samples than its test",
    ),
    "a loss below zero": (lambda m: {"global:by-bin:loss": -1.0}, "cannot be those of samples"),
}


@pytest.mark.parametrize("case", IMPOSSIBLE)
def test_what_a_client_cannot_tell_of_its_heads_is_refused(pipeline, tmp_path, case):
    change, words = IMPOSSIBLE[case]

    def fault(message, answer):
        if message.metadata.message_type == "evaluate.heads":
            record = answer.content["metrics"]
            for name, value in change(dict(record.items())).items():
                record[name] = value
        return answer

    with pytest.raises(InputError, match=words):
        run(pipeline, tmp_path, faults={node(1): fault})


def test_another_backbones_features_are_refused_before_they_are_sent(pipeline, sites, tmp_path):
    strange = tmp_path / "strange"
    shutil.copytree(sites[1], strange)
    with open_features(sites[1] / "features.h5") as features:
        values = features.rows(0, len(features))
        facts = {"step": features.step, "backbone": features.backbone, "saturated": 0}
    facts["weights-sha256"] = "abc"
    write_features(strange / "features.h5", values.shape, lambda i, j: values[i:j], facts)
    nodes = site_nodes([sites[0], strange, *sites[2:]], tmp_path)
    with pytest.raises(InputError, match=r"Client 1 .*its weights-sha256 is 'abc', not ''"):
        run(pipeline, tmp_path / "stop", nodes)
    grid = run(pipeline, tmp_path, nodes, on_fault="go-on")
    assert (51, "train.moments") not in grid.asked
    assert (tmp_path / "server.h5").read_bytes() == total_without(pipeline, tmp_path / "never", 1)


def test_a_fingerprint_can_be_demanded(pipeline, tmp_path):
    with pytest.raises(InputError, match="not 0123"):
        run(pipeline, tmp_path, fingerprint="0123")


def test_two_nodes_cannot_be_one_client(pipeline, sites, tmp_path):
    nodes = site_nodes(sites, tmp_path)
    nodes[99] = nodes[51]
    with pytest.raises(InputError, match="another node is client 1 too"):
        run(pipeline, tmp_path, nodes)


def test_too_few_clients_are_not_a_federation(pipeline, tmp_path):
    with pytest.raises(InputError, match="4 clients connected within 0 s and 5 are needed"):
        run(pipeline, tmp_path, clients=5)


def test_the_origin_is_checked_as_in_the_pipeline(pipeline, sites, tmp_path):
    mixed = tmp_path / "mixed"
    shutil.copytree(sites[0], mixed)
    index = read_index(mixed / "index.h5")
    own = Index(index.label[1:], index.split[1:], index.group[1:], index.classes, ("here",))
    write_index(mixed / "index.h5", own, {})
    with pytest.raises(InputError, match="belong to different runs"):
        run(pipeline, tmp_path, site_nodes([mixed, *sites[1:]], tmp_path))
