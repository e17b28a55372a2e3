import warnings
from xml.etree import ElementTree

import matplotlib
import numpy as np
import pytest
from PIL import Image

from pfl.artifacts.figure import ticks
from pfl.data.partition.figure import draw_counts
from pfl.evaluation.figures import draw_accuracy, draw_gain
from pfl.evaluation.stack_figure import draw_stack

FIGURES = ("counts", "accuracy", "gain", "stack")


def counts(clients, classes, seed=0):
    rng = np.random.default_rng(seed)
    return rng.poisson(3, (clients, classes)), rng.poisson(1, (clients, classes))


def accuracies(clients, seed=0):
    rng = np.random.default_rng(seed)
    values = {name: rng.random(clients) for name in ("local", "global", "personalized")}
    for value in values.values():
        value[-1] = np.nan
    samples = rng.integers(1, 30, clients)
    samples[-1] = 0
    return values, samples


def draw_all(folder, clients, classes=7, seed=0):
    train, test = counts(clients, classes, seed)
    names = [f"class {c}" for c in range(classes)]
    draw_counts(folder / "counts.png", train, test, names, "who holds what")
    values, samples = accuracies(clients, seed)
    draw_accuracy(folder / "accuracy.png", values, "accuracy")
    baselines = {name: values[name] for name in ("local", "global")}
    draw_gain(folder / "gain.png", values["personalized"], baselines, samples, "personalized")
    draw_stack(folder / "stack.png", stacked(clients, seed), ("lda", "global", "local"))
    return [(folder / f"{name}.{kind}").read_bytes() for name in FIGURES for kind in ("png", "svg")]


def stacked(clients, seed):
    """Weights of three families, of which one is in no head, and a client that left."""
    weights = np.random.default_rng(seed).uniform(0.1, 2, (clients, 3))
    weights[:, 1] = 0.0
    if clients > 1:
        weights[-1] = np.nan
    return weights


@pytest.mark.parametrize("clients", [5, 60])
def test_bytes_depend_on_the_numbers_alone(tmp_path, clients):
    first = draw_all(tmp_path, clients)
    with matplotlib.rc_context({"font.size": 30, "axes.facecolor": "red", "savefig.dpi": 10}):
        again = draw_all(tmp_path, clients)
    other = draw_all(tmp_path, clients, seed=1)
    assert first == again
    assert all(one != two for one, two in zip(first, other, strict=True))


@pytest.mark.parametrize(("clients", "classes"), [(1, 2), (4, 300), (300, 26)])
def test_every_size_draws_a_picture_without_complaint(tmp_path, clients, classes):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        draw_all(tmp_path, clients, classes)
    for name in FIGURES:
        with Image.open(tmp_path / f"{name}.png") as image:
            assert min(image.size) > 400
            assert len(image.convert("RGB").getcolors(1 << 20)) > 20
            assert "Software" not in image.info


def test_class_names_are_text_and_not_formulas(tmp_path):
    train, test = counts(2, 2)
    draw_counts(tmp_path / "a.png", train, test, ["$\\nonsense{$", "b"], "100 $ a $")
    assert (tmp_path / "a.png").stat().st_size > 0


def test_names_in_a_script_that_the_font_lacks_are_drawn_without_complaint(tmp_path):
    train, test = counts(2, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        draw_counts(tmp_path / "a.png", train, test, ["猫", "\U0001f436"], "title 猫")
    assert (tmp_path / "a.png").stat().st_size > 0


@pytest.mark.parametrize("count", [1, 2, 19, 20, 21, 99, 1000, 12_345])
def test_ticks_are_few_and_start_at_zero(count):
    values = ticks(count, 20)
    assert values[0] == 0
    assert values[-1] < count
    assert min(count, 8) <= len(values) <= 20


def test_an_svg_takes_ink_and_font_from_the_page(tmp_path):
    draw_all(tmp_path, 5)
    for name in FIGURES:
        text = (tmp_path / f"{name}.svg").read_text(encoding="utf-8")
        root = ElementTree.fromstring(text)
        assert root.get("fill") == "currentColor"
        assert root.findall(".//{http://www.w3.org/2000/svg}text")
        assert "currentColor" in text[100:]
        assert "#000000" not in text
        assert "<metadata" not in text
