"""Image folders: layouts, splits, links, and what is refused."""

import os
import shutil
import socket
import unicodedata
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from pfl.data.samples.index import TRAIN
from pfl.data.sources.public import load_public
from pfl.data.sources.registry import Dataset
from pfl.errors import InputError
from tests.sources import check_law, request


def picture(path, seed=0):
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 256, (4, 5, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path)


def tree(root, *names):
    for name in names:
        picture(root / name)
    return root


def load_folder(root, **options):
    samples = Dataset.FOLDER.load(request(root, **options))
    check_law(samples)
    index = samples.index
    rows = zip(
        samples.images.names,
        ("train" if split == TRAIN else "test" for split in index.split),
        (index.groups[group] for group in index.group),
        (index.classes[label] for label in index.label),
        strict=True,
    )
    return samples, {name: tuple(row) for name, *row in rows}


@pytest.mark.parametrize(
    ("train", "test"), [("train", "test"), ("Training", "TEST"), ("train", "testing")]
)
def test_split_and_class_folders(tmp_path, train, test):
    names = f"{train}/cat/1.png", f"{train}/dog/2.png", f"{test}/cat/3.png", f"{test}/eel/4.png"
    samples, rows = load_folder(tree(tmp_path, *names))
    assert rows == {
        names[0]: ("train", "all", "cat"),
        names[1]: ("train", "all", "dog"),
        names[2]: ("test", "all", "cat"),
        names[3]: ("test", "all", "eel"),
    }
    assert samples.attributes == {"test-split": "own"}


def test_split_domain_and_class_folders(tmp_path):
    names = "train/web/cat/1.png", "train/cam/dog/2.png", "test/new/cat/3.png"
    samples, rows = load_folder(tree(tmp_path, *names))
    assert rows[names[0]] == ("train", "web", "cat")
    assert rows[names[2]] == ("test", "new", "cat")
    assert samples.index.groups == ("cam", "new", "web")


def test_domain_and_class_folders_are_cut_within_each_stratum(tmp_path):
    names = [f"{d}/{c}/{i}.png" for d in ("web", "cam") for c in ("cat", "dog") for i in range(4)]
    samples, rows = load_folder(tree(tmp_path, *names))
    assert all(row[1:] == tuple(name.split("/")[:2]) for name, row in rows.items())
    strata = {row[1:] for row in rows.values() if row[0] == "test"}
    assert len(strata) == sum(row[0] == "test" for row in rows.values()) == 4
    assert samples.attributes == {"test-split": "cut", "test-fraction": 0.25, "seed": 0}


def test_class_folders_alone(tmp_path):
    samples, rows = load_folder(tree(tmp_path, *(f"{c}/{i}.png" for c in "ab" for i in range(4))))
    assert sum(row[0] == "test" for row in rows.values()) == 2
    assert samples.index.classes == ("a", "b")
    assert samples.index.groups == ("all",)


@pytest.mark.parametrize("val", ["val", "valid", "Validation"])
def test_validation_is_the_test_split_only_where_there_is_none(tmp_path, val):
    names = "train/a/1.png", "train/b/1.png", f"{val}/a/2.png"
    _, rows = load_folder(tree(tmp_path, *names))
    assert rows[names[2]][0] == "test"
    _, rows = load_folder(tree(tmp_path, "test/b/3.png"))
    assert rows[names[2]][0] == "train"
    assert rows["test/b/3.png"][0] == "test"


def test_a_training_split_alone_is_cut(tmp_path):
    _, rows = load_folder(tree(tmp_path, *(f"train/{c}/{i}.png" for c in "ab" for i in range(4))))
    assert sum(row[0] == "test" for row in rows.values()) == 2


def test_order_is_that_of_code_points_and_hidden_files_are_skipped(tmp_path):
    names = ["B/z.png", "b/B.png", "b/a.png", "b/ä.png"]
    tree(tmp_path / "train", *reversed(names), ".git/x/1.png", "b/.cache.png")
    tree(tmp_path / "test", "b/1.png")
    (tmp_path / "README.md").write_text("hello")
    samples, _ = load_folder(tmp_path)
    assert samples.images.names == (*(f"train/{name}" for name in names), "test/b/1.png")


def test_files_outside_class_folders_are_mentioned(tmp_path, caplog):
    tree(tmp_path, "a/1.png", "a/2.png", "b/1.png", "b/2.png", "loose.png")
    load_folder(tmp_path)
    assert "Skipped 1 file(s)" in caplog.text
    assert "loose.png" in caplog.text


def test_links_inside_are_followed_and_links_outside_refused(tmp_path):
    root = tree(tmp_path / "root", "a/1.png", "b/1.png")
    (root / "b" / "2.png").symlink_to(root / "a" / "1.png")
    _, rows = load_folder(root)
    assert "b/2.png" in rows
    picture(tmp_path / "secret.png")
    (root / "b" / "3.png").symlink_to(tmp_path / "secret.png")
    with pytest.raises(InputError, match=r"b/3\.png links to .*secret\.png, outside"):
        load_folder(root)


@pytest.mark.parametrize(
    ("target", "message"), [("gone.png", "does not exist"), (".", "is too deep")]
)
def test_broken_and_circular_links_are_refused(tmp_path, target, message):
    root = tree(tmp_path, "a/1.png", "b/1.png")
    (root / "a" / "link").symlink_to(root / target)
    with pytest.raises(InputError, match=message):
        load_folder(root)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ([], "holds no class folders"),
        (["1.png", "2.png"], "holds no class folders"),
        (["a/1.png", "a/2.png"], r"holds 1 class\(es\)"),
        (["train/a/1.png", "extra/a/2.png"], r"like splits \(train\) beside others \(extra\)"),
        (["a/1.png", "b/c/1.png"], "different depths"),
        (["train/a/1.png", "train/b/1.png", "test/d/b/1.png"], "different depths"),
        (["train/1.png", "train/a/1.png"], "outside the layouts"),
        (["train/d/e/f/1.png"], "is too deep"),
        (["a/b/c/1.png"], "outside the layouts"),
        (["test/a/1.png", "test/b/1.png"], "no training samples"),
        (["a/1.png", "b/1.png"], "no test samples.*add samples, since each class of each group"),
        (["train/a/1.png", "test/b/1.png"], "All training samples of .* are of the class 'a'"),
        (["train/a/1.png", "train/b/1.png", "test/c/1.png"], "No test sample of .* is of a class"),
    ],
)
def test_what_is_in_no_layout_is_refused(tmp_path, names, message):
    with pytest.raises(InputError, match=message):
        load_folder(tree(tmp_path, *names))


@pytest.mark.parametrize("kind", ["pipe", "socket"])
def test_what_is_no_regular_file_is_refused_by_name_and_not_waited_for(tmp_path, kind):
    tree(tmp_path, "a/1.png", "b/1.png")
    odd = tmp_path / "b" / "odd.png"
    if kind == "pipe":
        os.mkfifo(odd)
    else:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(os.path.relpath(odd))
    with pytest.raises(InputError, match=r"b/odd\.png is no regular file .*remove it"):
        load_folder(tmp_path)


def test_a_missing_folder_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"is not a folder: set `prepare\.path`"):
        load_folder(tmp_path / "nowhere")


def test_a_name_that_is_not_utf8_is_refused(tmp_path):
    tree(tmp_path, "a/1.png", "b/1.png")
    shutil.copy(tmp_path / "a/1.png", os.fsencode(tmp_path / "a") + b"/\xff.png")
    with pytest.raises(InputError, match="not UTF-8"):
        load_folder(tmp_path)


def test_a_class_is_one_whichever_way_each_split_stores_its_accents(tmp_path, caplog):
    one, two = (unicodedata.normalize(form, "café") for form in ("NFC", "NFD"))
    root = tree(tmp_path, f"train/{two}/1.png", "train/b/1.png", f"test/{one}/1.png")
    index = load_folder(root)[0].index
    assert index.classes == ("b", one)
    assert index.label.tolist() == [0, 1, 1]
    assert not [record for record in caplog.records if record.levelname == "WARNING"]
    alone = tree(tmp_path / "alone", f"train/{two}/1.png", "train/b/1.png", f"test/{two}/1.png")
    assert load_folder(alone)[0].index.classes == ("b", two)  # stays as it is stored


def test_the_remedy_for_no_test_samples_gives_some(tmp_path):
    root = tree(tmp_path, "a/1.png", "b/1.png")
    with pytest.raises(InputError, match="nothing could be evaluated: add samples"):
        load_folder(root, fraction=0.9)  # which would help nobody
    tree(tmp_path, "a/2.png", "b/2.png")
    with pytest.raises(InputError, match=r"set prepare\.test-fraction higher"):
        load_folder(root, fraction=0.1)
    assert load_folder(root, fraction=0.3)[0].index.test.any()


@pytest.mark.parametrize("dataset", ["folder", "npz", "cifar10", "ratings", "unlabelled"])
def test_a_message_names_the_section_that_asked(tmp_path, dataset):
    asked = replace(request(tmp_path / "nowhere"), section="public")
    with pytest.raises(InputError, match=r"public\.(path|download)") as told:
        load_public(dataset, asked)
    assert "prepare" not in str(told.value)
