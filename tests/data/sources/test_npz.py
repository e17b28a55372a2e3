"""NumPy archives: what they may hold, and the remedy for what they may not."""

import os
import re
import unicodedata

import numpy as np
import pytest

from pfl.data.samples.index import TEST, TRAIN
from pfl.data.sources.registry import Dataset
from pfl.errors import InputError
from tests.sources import check_law, request


def good(n=12, tests=4, channels=3):
    rng = np.random.default_rng(0)
    return {
        "x_train": rng.integers(0, 256, (n, 6, 5, channels), dtype=np.uint8),
        "y_train": np.arange(n) % 3,
        "x_test": rng.integers(0, 256, (tests, 6, 5, channels), dtype=np.uint8),
        "y_test": np.arange(tests) % 3,
    }


def load_npz(tmp_path, arrays, **options):
    path = tmp_path / "data.npz"
    np.savez(path, **arrays)
    samples = Dataset.NPZ.load(request(path, **options))
    check_law(samples)
    return samples


def test_npz_keeps_order_and_splits(tmp_path):
    given = good()
    samples = load_npz(tmp_path, given)
    both = np.concatenate([given["x_train"], given["x_test"]])
    np.testing.assert_array_equal(samples.images.pixels, both)
    assert samples.index.split.tolist() == [TRAIN] * 12 + [TEST] * 4
    assert samples.index.label.tolist() == [*given["y_train"], *given["y_test"]]
    assert samples.index.classes == ("0", "1", "2")


def test_npz_without_test_arrays_is_cut(tmp_path):
    given = {key: value for key, value in good().items() if key.endswith("train")}
    samples = load_npz(tmp_path, given)
    assert samples.index.test.sum() == 3
    rows = {(image.tobytes(), label) for image, label in zip(*given.values(), strict=True)}
    assert rows == {
        (image.tobytes(), label)
        for image, label in zip(samples.images.pixels, samples.index.label, strict=True)
    }


def test_npz_grey_without_channels_and_label_columns(tmp_path):
    given = good(channels=1)
    flat = {**given, "x_train": given["x_train"][..., 0], "y_train": given["y_train"][:, None]}
    samples = load_npz(tmp_path, flat)
    np.testing.assert_array_equal(samples.images.pixels, load_npz(tmp_path, given).images.pixels)


@pytest.mark.parametrize("groups", [([7, 9], [9, 30]), (["a", "c"], ["c", "b"])])
def test_npz_groups_are_numbered_in_order_of_their_names(tmp_path, groups):
    train, test = np.repeat(groups[0], 6), np.repeat(groups[1], 2)
    samples = load_npz(tmp_path, {**good(), "group_train": train, "group_test": test})
    assert samples.index.groups == tuple(str(g) for g in sorted({*groups[0], *groups[1]}))
    got = [samples.index.groups[g] for g in samples.index.group]
    assert got == [str(g) for g in (*train, *test)]


def test_npz_classes_allow_gaps(tmp_path):
    arrays = {
        **good(),
        "y_train": np.arange(12) % 2,
        "y_test": y[:4] * 0,
        "classes": np.array(["owl", "ape", "fox"]),
    }
    assert load_npz(tmp_path, arrays).index.classes == ("owl", "ape", "fox")


def test_npz_may_be_the_only_one_in_a_folder(tmp_path):
    load_npz(tmp_path, good())
    assert len(Dataset.NPZ.load(request(tmp_path)).images) == 16
    np.savez(tmp_path / "second.npz", **good())
    with pytest.raises(InputError, match="it has 2"):
        Dataset.NPZ.load(request(tmp_path))


x = good()["x_train"]
y = good()["y_train"]
words = np.array(["a", "b", "c"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"x_train": x / 255}, r"x_train is float64.*\(255 \* x_train\)\.round\(\)"),
        ({"x_train": x.astype(int)}, r"x_train\.astype\('uint8'\)"),
        ({"x_train": x.transpose(0, 3, 1, 2)}, r"np\.moveaxis\(x_train, 1, -1\) puts the channels"),
        ({"x_train": x.reshape(12, -1)}, "reshape"),
        ({"x_train": x[:, :0]}, "have no pixels"),
        ({"x_train": x[:, :3]}, "give both the same shape"),
        ({"x_train": x[:5]}, "x_train has 5 entries and y_train has 12"),
        ({"y_train": y[:7]}, "x_train has 12 entries and y_train has 7: give each .* order\\.$"),
        ({"y_train": y[:5]}, "has 12 .* has 5: .*; or, if axis 2 numbers the images, np"),
        ({"y_train": y * 1.0}, "y_train is float64.*numbers any labels"),
        ({"y_train": y > 1}, "y_train is bool"),
        ({"y_train": words[y]}, r"np\.unique\(np\.concatenate\(\[y_train, y_test\]\)"),
        ({"y_train": np.eye(3)[y]}, r"y_train\.argmax\(1\)"),
        ({"y_train": np.eye(3, dtype=int)[y].T}, r"y_train\.argmax\(0\)"),
        ({"y_train": np.ones((12, 3))}, r"one label here: choose which, such as y_train\[:, 0\]"),
        ({"y_train": np.stack([y, y])}, r"choose which, such as y_train\[0\]"),
        ({"y_train": y - 1}, "labels start at -1"),
        ({"y_train": y * 2}, r"go up to 4 but have gaps \(no 3\)"),
        ({"y_train": y + 10**9}, "have gaps"),
        ({"y_train": y * 0, "y_test": y[:4] * 0}, "a classifier needs at least two"),
        ({"classes": words[:2]}, "names only 2"),
        ({"classes": np.array(["a", "a", "b"])}, "distinct names"),
        ({"classes": np.array(["a", None], object)}, "'classes' cannot be read"),
        ({"x_train": np.array([{}], object)}, "'x_train' cannot be read"),
        ({"y_test": None}, "lacks y_test"),
        ({"x_test": None}, "lacks x_test"),
        ({"x_train": None}, "lacks x_train"),
        ({"group_train": y}, "lacks group_test"),
        ({"group_test": y[:4]}, "lacks group_train"),
        ({"group_train": y, "group_test": y}, "x_test has 4 entries and group_test has 12"),
        ({"group_train": y / 2, "group_test": y[:4]}, "vector of integers or strings"),
        ({"group_train": y, "group_test": words[y[:4]]}, "of one type in both or names in both"),
        (
            {"group_train": y.astype(np.uint64), "group_test": y[:4]},
            "group_train is uint64 and group_test int64: use numbers of one type",
        ),
        ({"y_train": y.astype(np.uint64) + 2**63}, f"goes up to {2**63 + 2}, but labels must be 0"),
        ({"x_test": x[:0], "y_test": y[:0]}, "no test samples.*fill its test split"),
        ({"x_test": x[:0], "y_test": y[:0], "x_train": x[:0], "y_train": y[:0]}, "holds 0 class"),
        ({"y_train": y * 0, "classes": words}, "All training samples of .* of the class 'a'"),
        ({"y_train": y % 2, "y_test": y[:4] * 0 + 2}, "No test sample of .* is of a class"),
        ({"classes": np.array(["a", "b", "\ud800"])}, "which cannot be encoded: rename it"),
        ({"classes": np.array([b"a", b"b", b"\xff"])}, r"b'\\xff', which is not UTF-8"),
        (
            {"group_train": np.array(["\udc80"] * 12), "group_test": words[y[:4]]},
            "which cannot be encoded: rename it",
        ),
        (
            {"group_train": np.array([b"\xff"] * 12), "group_test": words[y[:4]]},
            r"names of groups hold b'\\xff', which is not UTF-8",
        ),
    ],
)
def test_npz_refuses_with_a_remedy(tmp_path, change, message):
    arrays = {k: v for k, v in {**good(), **change}.items() if v is not None}
    with pytest.raises(InputError, match=message):
        load_npz(tmp_path, arrays)


def remedied(tmp_path, arrays):
    """The labels after running what the message says to."""
    with pytest.raises(InputError) as told:
        load_npz(tmp_path, arrays)
    code = re.search(r"\): (.*) (?:numbers? any labels|converts|takes)", str(told.value))[1]
    scope = {"np": np, **arrays}
    for line in re.split(r", and then |,$", code):
        if line.startswith(("classes", "y_train, y_test")):
            exec(line, scope)
        elif line:
            scope["y_train"] = eval(line, scope)
    names = ("classes", *arrays)
    return load_npz(tmp_path, {name: scope[name] for name in names if name in scope}).index


WORDS = np.array(["ape", "fox", "owl", "bee"])


def test_labels_come_right_where_the_remedy_is_followed(tmp_path):
    both = good()
    alone = {name: array for name, array in both.items() if name.endswith("train")}
    train, test = np.arange(12) % 2, np.array([2, 3, 0, 1])  # each split has classes of its own
    index = remedied(tmp_path, {**both, "y_train": WORDS[train], "y_test": WORDS[test]})
    found = [index.classes[label] for label in index.label]
    assert found == WORDS[[*train, *test]].tolist()
    index = remedied(tmp_path, {**alone, "y_train": WORDS[y]})
    assert sorted(index.classes[label] for label in index.label) == sorted(WORDS[y].tolist())
    for labels in (np.eye(3)[y], np.eye(3, dtype=int)[y].T, y[None]):
        assert sorted(remedied(tmp_path, {**alone, "y_train": labels}).label) == sorted(y)


def test_names_of_groups_may_be_bytes_in_one_split_and_text_in_the_other(tmp_path):
    train, test = np.array(["Köln".encode()] * 12), np.array(["Köln"] * 4)
    assert load_npz(
        tmp_path, {**good(), "group_train": train, "group_test": test}
    ).index.groups == ("Köln",)


def test_a_group_is_one_whichever_way_each_split_stores_its_accents(tmp_path):
    train, test = (unicodedata.normalize(form, "Köln") for form in ("NFD", "NFC"))
    groups = {"group_train": np.array([train] * 12), "group_test": np.array([test] * 4)}
    assert load_npz(tmp_path, {**good(), **groups}).index.groups == (test,)


def test_a_pipe_called_npz_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "data.npz")
    for path in (tmp_path, tmp_path / "data.npz"):
        with pytest.raises(InputError, match="it has 0"):
            Dataset.NPZ.load(request(path))


@pytest.mark.parametrize("damage", ["cut", "flip", "text", "npy"])
def test_a_damaged_npz_is_refused_by_name(tmp_path, damage):
    path = tmp_path / "data.npz"
    np.savez(path, **good())
    data = path.read_bytes()
    if damage == "npy":
        with path.open("wb") as stream:
            np.save(stream, x)
    else:
        flipped = data[:400] + bytes([data[400] ^ 1]) + data[401:]
        path.write_bytes({"cut": data[:900], "flip": flipped, "text": b"hello"}[damage])
    with pytest.raises(InputError, match=r"data\.npz"):
        Dataset.NPZ.load(request(path))


def test_arrays_that_are_not_used_are_mentioned(tmp_path, caplog):
    load_npz(tmp_path, {**good(), "x_val": x})
    assert "x_val" in caplog.text
