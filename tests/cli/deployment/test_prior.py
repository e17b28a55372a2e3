import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from scipy.special import softmax

from pfl.artifacts.project import Project
from pfl.cli.deployment import shift
from pfl.cli.deployment.head import CalibratedHead, load_head
from pfl.cli.deployment.model import load_model
from pfl.cli.deployment.prediction import find_images, predict_images
from pfl.cli.deployment.prior import read_shares
from pfl.cli.deployment.shift import shifted
from pfl.data.images.images import open_images
from pfl.data.samples.index import read_index
from pfl.errors import InputError
from pfl.evaluation.heads import even_ratio, head_group, shared_group
from pfl.evaluation.metrics import HeadKind
from pfl.evaluation.prior_shift import PriorEstimate
from pfl.fedhip.heads import open_heads
from pfl.fedhip.server import read_server
from tests.tiny import pfl

CLIENT = 3
CLASSES = ("cat", "dog", "eel, electric")


@pytest.fixture(scope="module")
def sevens(tiny, tmp_path_factory):
    """Images of two classes alone, as PNG files."""
    out = tmp_path_factory.mktemp("sevens")
    index = read_index(tiny / "data" / "index.h5")
    with open_images(tiny / "data" / "images.h5") as images:
        for sample in np.flatnonzero(np.isin(index.label, [6, 7]))[:120].tolist():
            Image.fromarray(images.rgb(sample, sample + 1)[0]).save(out / f"{sample}.png")
    return out


def predicted(tiny, folder, *words):
    done = pfl("predict", folder, "--project", tiny, "--json", *words)
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def head_of(d, power, seed):
    rng = np.random.default_rng(seed)
    everybody, own = rng.dirichlet(np.ones(d), 2)
    nothing = np.zeros((4, d))
    return CalibratedHead(nothing, np.zeros(d), power, np.log(own / everybody), everybody), own


@given(st.integers(2, 6), st.integers(0, 1000))
def test_other_shares_take_the_place_of_the_clients_as_bayes_rule_says(d, seed):
    head, own = head_of(d, 1.0, seed)
    wanted = np.random.default_rng(seed + 1).dirichlet(np.ones(d)) + 1e-5
    wanted /= wanted.sum()
    before, after = softmax(head.offset), softmax(head.with_shares(wanted).offset)
    np.testing.assert_allclose(head.shares, own, rtol=1e-9)
    np.testing.assert_allclose(
        after, before * wanted / own / (before * wanted / own).sum(), rtol=1e-9
    )


@given(st.integers(2, 6), st.floats(0.1, 2), st.integers(0, 1000))
def test_the_clients_own_shares_in_their_own_place_change_nothing(d, power, seed):
    head, own = head_of(d, power, seed)
    if own.min() > 1e-5:
        np.testing.assert_allclose(head.with_shares(own).offset, head.offset, atol=1e-9)


@pytest.mark.parametrize("kind", [HeadKind.personalized, HeadKind.prior])
def test_even_shares_are_those_of_the_global_test(tiny, kind):
    """Scores are the ones by which evaluate judges a client's head on everybody's samples."""
    head = load_head(Project(tiny), CLIENT, kind)
    knowledge = read_server(tiny / "data" / "server.h5")[1]
    with open_heads(tiny / "data" / "heads.h5") as heads:
        stored = heads.of(kind.value, knowledge.head, CLIENT, CLIENT + 1)
        group = head_group(stored, 1.0, even_ratio(heads.shares))
    d = head.weight.shape[1]
    even = head.with_shares(np.full(d, 1 / d))
    np.testing.assert_allclose(even.offset, group.bias[0], rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(head.offset, group.own_bias[0], rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(head.weight, group.weight[0], rtol=1e-5)


def test_the_global_head_is_that_of_evaluate(tiny):
    head = load_head(Project(tiny), CLIENT, HeadKind.shared)
    knowledge = read_server(tiny / "data" / "server.h5")[1]
    with open_heads(tiny / "data" / "heads.h5") as heads:
        group = shared_group(knowledge, heads.temperature, 1.0)
    np.testing.assert_allclose(head.weight, group.weight[0], rtol=1e-6)


@pytest.mark.parametrize("words", [("--client", CLIENT), ("--client", "new")])
def test_a_file_of_even_shares_is_uniform(tiny, sevens, tmp_path, words):
    classes = read_index(tiny / "data" / "index.h5").classes
    path = tmp_path / "shares.json"
    path.write_text(json.dumps(dict.fromkeys(classes, 3)))
    one = predicted(tiny, sevens, *words, "--prior", "uniform")
    other = predicted(tiny, sevens, *words, "--prior", path)
    assert (one["prior"], other["prior"]) == ("uniform", str(path))
    assert one["predictions"] == other["predictions"]
    for row in one["predictions"]:
        numbers = np.array(list(row["scores"].values()))
        np.testing.assert_allclose(
            list(row["probabilities"].values()), softmax(numbers), atol=1e-12
        )


def test_a_new_client_has_the_global_head_with_even_shares(tiny, sevens):
    new = predicted(tiny, sevens, "--client", "new")
    assert (new["client"], new["head"], new["prior"]) == ("new", "global", "uniform")
    same = predicted(tiny, sevens, "--client", CLIENT, "--head", "global", "--prior", "uniform")
    assert new["predictions"] == same["predictions"]
    plain = predicted(tiny, sevens, "--client", CLIENT, "--head", "global")
    assert plain["prior"] == "everybody"


@pytest.mark.parametrize("client", [CLIENT, "new"])
def test_em_finds_which_classes_are_on_images_and_uses_it(tiny, sevens, client):
    found = predicted(tiny, sevens, "--client", client, "--prior", "em")
    before = predicted(
        tiny, sevens, "--client", client, "--head", found["head"], "--prior", "uniform"
    )
    shares = {row["class"]: row["estimated"] for row in found["class-shares"]}
    assert found["prior"] == "em"
    assert found["estimate"]["p-value"] < 0.05
    assert sum(shares.values()) == pytest.approx(1)
    assert shares["6"] + shares["7"] > 0.7
    used = {row["class"]: row["used"] for row in found["class-shares"]}
    assert min(used.values()) > 0
    assert sum(used.values()) == pytest.approx(1)
    for name, share in used.items():
        assert share == pytest.approx(shares[name], abs=0.05)

    def hits(content):
        return sum(row["class"] in ("6", "7") for row in content["predictions"])

    assert hits(found) >= hits(before)


def test_shares_that_chance_explains_are_not_used(tiny, sevens, monkeypatch):
    kept = PriorEstimate(np.full(10, 0.1), 3.0, 0.5, 7)
    monkeypatch.setattr(shift, "estimate_prior", lambda *given: kept)
    found = predicted(tiny, sevens, "--client", CLIENT, "--prior", "em")
    own = predicted(tiny, sevens, "--client", CLIENT)
    assert found["prior"] == own["prior"] == "own"
    assert "not used" in found["estimate"]["verdict"]
    assert found["predictions"] == own["predictions"]
    assert all(row["used"] == row["before"] for row in found["class-shares"])


def test_images_that_cannot_be_read_have_no_part_in_the_estimate(tiny, sevens, tmp_path):
    (tmp_path / "bad.png").write_bytes(b"no image")
    model = load_model(Project(tiny), CLIENT, HeadKind.personalized, None, "em")
    predictions = list(predict_images(model, find_images([sevens])))
    bad = list(predict_images(model, [tmp_path / "bad.png"]))
    moved, found = shifted(model, [*bad, *predictions])
    assert moved[0] is bad[0]
    alone = shifted(model, predictions)[1]
    np.testing.assert_array_equal(found.estimate.shares, alone.estimate.shares)
    assert shifted(model, bad) == (bad, None)


@pytest.mark.parametrize(
    "text",
    [
        '{"dog": 0.5, "cat": 0.2, "eel, electric": 0.3}',
        '{"dog": 50, "cat": 20, "eel, electric": 30}',
        'class,share\n"eel, electric",0.3\ncat,0.2\n\ndog,0.5\n',
        '\ufeffcat,2\ndog,5\n"eel, electric",3',
        'cat,0.2\r\ndog, 0.5\r\n"eel, electric",0.2999\r\n',
    ],
)
def test_shares_and_counts_are_read_by_name(tmp_path, text):
    path = tmp_path / "shares"
    path.write_text(text, encoding="utf-8")
    found = read_shares(path, CLASSES)
    np.testing.assert_allclose(found, [0.2, 0.5, 0.3], atol=1e-3)
    assert found.sum() == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"cat": 1, "dog": 1, "eel, electric": 1, "fox": 1}', "do not have (fox)"),
        ('{"cat": 1, "dog": 1}', "lacks classes (eel, electric)"),
        ('{"cat": 0.5, "dog": 0.7, "eel, electric": -0.2}', "at least 0"),
        ('{"cat": 0, "dog": 0, "eel, electric": 0}', "all are 0"),
        ('{"cat": NaN, "dog": 1, "eel, electric": 0}', "not all finite"),
        ('{"cat": 1e999, "dog": 1, "eel, electric": 0}', "not all finite"),
        ('{"cat": 0.5, "dog": 0.2, "eel, electric": 0.2}', "add up to 0.9"),
        ('{"cat": 12.5, "dog": 12.5, "eel, electric": 75}', "add up to 100"),
        ('{"cat": true, "dog": 1, "eel, electric": 0}', "'cat' has no number"),
        ('{"cat": {"a": 1}, "dog": 1, "eel, electric": 0}', "'cat' has no number"),
        ('{"cat": 1, "cat": 1, "dog": 1, "eel, electric": 0}', "'cat' is there twice"),
        ('{"cat": 1,', "Expecting"),
        ("[1, 2, 3]", "a name and a number alone"),
        ("cat,1\ndog,many\n", "'dog' has no number"),
        ("", "lacks classes"),
        ("{" * 100_000, "class shares"),
    ],
)
def test_what_is_no_class_shares_is_told(tmp_path, text, message):
    path = tmp_path / "shares"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match="Class shares cannot be read") as raised:
        read_shares(path, CLASSES)
    assert message.lower() in str(raised.value).lower()
