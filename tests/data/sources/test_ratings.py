"""Ratings: layouts, what a sample is, cuts, and the sentence for each thing that is wrong."""

import random
import re
import tempfile
import unicodedata
from dataclasses import replace
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from pfl.data.images.images import write_images
from pfl.data.samples.index import Index, read_index, write_index
from pfl.data.sources.registry import Dataset
from pfl.data.sources.samples import MissingImages, TestImages, cut_images, first_uses
from pfl.data.sources.sites import Difference, SiteSettings, as_sites
from pfl.errors import InputError
from tests.ratings import FLICKR, picture, rating_set, ratings, table
from tests.sources import request


def load(root, **changes):
    return Dataset.RATINGS.load(replace(request(root), **changes))


def told(samples):
    """Every sample as user, image and score."""
    index = samples.index
    images = index.images_of(np.arange(len(index.label)))
    return [
        (index.groups[group], samples.images.names[image], index.classes[label])
        for group, image, label in zip(index.group, images, index.label, strict=True)
    ]


def test_every_rating_is_a_sample_and_every_image_is_there_once(tmp_path):
    lines = ratings()
    samples = load(rating_set(tmp_path, lines))
    assert sorted(told(samples)) == sorted((u, f"images/{i}", str(s)) for u, i, s in lines)
    assert len(samples.images) == samples.index.images == len({i for _, i, _ in lines})
    assert samples.index.classes == ("1", "2", "3")
    assert (np.diff(samples.index.split) >= 0).all()


def test_a_table_for_each_user_names_the_user_by_its_place(tmp_path):
    for user in ("ada", "bob"):
        lines = [(f"{n}.png", 1 + n % 2) for n in range(6)]
        table(tmp_path / user / "scores.csv", lines, ("Image Name", "Rating"))
        for n in range(6):
            picture(tmp_path / user / f"{n}.png", n)
    nested = load(tmp_path)
    assert nested.index.groups == ("ada", "bob")
    assert all(image.startswith(user) for user, image, _ in told(nested))
    assert nested.index.image is None  # nobody shares an image
    for user in ("ada", "bob"):
        (tmp_path / user / "scores.csv").rename(tmp_path / f"{user}.csv")
    assert told(load(tmp_path)) == told(nested)  # the images are in the users' folders still
    (tmp_path / "ada.csv").rename(tmp_path / "bob" / "more.csv")
    with pytest.raises(InputError, match="no column of users, and by its place it is of 'bob'"):
        load(tmp_path)


@given(st.integers(0, 2**32))
@settings(max_examples=15)
def test_the_order_of_the_lines_changes_nothing(seed):
    lines = ratings()
    shuffled = random.Random(seed).sample(lines, len(lines))
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for name in {image for _, image, _ in lines}:
            (root / name).touch()  # only named here
        found = []
        for some in (lines, shuffled):
            table(root / "t.csv", some)
            samples = load(root)
            found.append((told(samples), samples.index.split.tolist()))
    assert found[0] == found[1]


def test_headers_separators_and_blank_lines_are_read_as_people_write_them(tmp_path, caplog):
    caplog.set_level("INFO")
    lines = ratings()
    expected = told(load(rating_set(tmp_path, lines)))
    text = "\ufeff\nWorker_ID;comment; Image-Pair ;SCORE\n"
    text += "".join(f" {u} ;nice; {i} ;{s}.0\r\n\n" for u, i, s in lines) + ";;;\n"
    (tmp_path / "labeled.csv").write_text(text, encoding="utf-8")
    assert told(load(tmp_path)) == expected
    assert f"Skipped {len(lines) + 2} blank line(s)" in caplog.text
    assert "the first line 1" in caplog.text


@pytest.mark.parametrize(("first", "mark"), [("sep=;", ";"), ('"sep=|"', "|"), ("sep=\t", "\t")])
def test_excel_may_say_what_separates_cells(tmp_path, first, mark):
    lines = ratings()
    expected = told(load(rating_set(tmp_path, lines)))
    rows = [("worker", "a,b,c,d", "imagePair", "score"), *((u, "x,y", i, s) for u, i, s in lines)]
    text = "\r\n".join([first, *(mark.join(map(str, row)) for row in rows)])
    (tmp_path / "labeled.csv").write_text("\ufeff" + text, encoding="utf-8")
    assert told(load(tmp_path)) == expected
    (tmp_path / "labeled.csv").write_text(f"{text}\r\nu{mark}{mark}x.png{mark}good")
    with pytest.raises(InputError, match=f"line {len(lines) + 3}: the score 'good'"):
        load(tmp_path)


def test_a_table_of_averages_beside_ratings_is_no_user(tmp_path, caplog):
    caplog.set_level("INFO")
    root = rating_set(tmp_path)
    table(root / "averages.csv", [("000.png", 2), ("001.png", 1)], ("image", "score"))
    with pytest.raises(InputError, match=r"averages\.csv has no column of users and .*labeled\.csv "
                       r"has one, .* a user 'averages': move it out"):  # fmt: skip
        load(root)
    (root / "averages.csv").rename(tmp_path.parent / f"{tmp_path.name}-averages.csv")
    assert "averages" not in load(root).index.groups
    for name, first in (("labeled", 0), ("more", 6)):
        lines = [(f"{first + n:03d}.png", 1 + n % 2) for n in range(6)]
        table(root / f"{name}.csv", lines, ("image", "score"))
    load(root)
    assert "2 table(s) without a column of users are those of: labeled, more." in caplog.text


def test_the_users_with_most_ratings_stay_and_nothing_else_is_kept(tmp_path):
    lines = [(u, f"{n}.png", 1 + n % 2) for u, many in (("a", 6), ("b", 9), ("c", 9)) for n in
             range(many)]  # fmt: skip
    lines += [("a", "lonely.png", 1)]
    samples = load(rating_set(tmp_path, lines), users=2)
    assert samples.index.groups == ("b", "c")
    assert len(samples.images) == 9
    with pytest.raises(InputError, match=r"prepare\.users is 4, but .* ratings of 3 users"):
        load(tmp_path, users=4)


def splits(samples):
    index = samples.index
    pairs = [(user, image) for user, image, _ in told(samples)]
    return [{pairs[i] for i in np.flatnonzero(part)} for part in (index.train, index.test)]


@pytest.mark.parametrize("how", TestImages)
def test_no_rating_is_trained_on_and_tested(tmp_path, how):
    samples = load(rating_set(tmp_path), test_images=how)
    train, test = splits(samples)
    assert train and test and not train & test
    seen = {image for _, image in train} & {image for _, image in test}
    assert bool(seen) is (how is TestImages.SHARED)
    assert samples.attributes["test-images"] == how.value
    if how is TestImages.SHARED:  # each user has a share of its own
        shares = np.bincount(samples.index.group[samples.index.test]) / 24
        assert (abs(shares - 0.25) <= 3 / 24).all()


@given(st.lists(st.integers(0, 9), min_size=1, max_size=60), st.floats(0, 1), st.integers(0, 99))
def test_whole_images_are_cut(image, fraction, seed):
    used, numbers = first_uses(np.array(image))
    zero = np.zeros(len(image), np.int64)
    index = Index(zero, zero, zero, ("a",), ("all",), numbers)
    split = cut_images(index, fraction, np.random.default_rng(seed))
    tested = set(numbers[split == 1].tolist())
    assert not tested & set(numbers[split == 0].tolist())
    assert abs(len(tested) - fraction * len(used)) <= 0.5 + 1e-9


@given(st.lists(st.integers(0, 20), min_size=1, max_size=60))
def test_images_are_numbered_as_they_are_first_used(image):
    used, numbers = first_uses(np.array(image))
    assert used[numbers].tolist() == image
    assert used.tolist() == list(dict.fromkeys(image))


def test_an_index_comes_back_with_its_images(tmp_path):
    samples = load(rating_set(tmp_path / "set"))
    write_index(tmp_path / "i.h5", samples.index, {})
    found = read_index(tmp_path / "i.h5")
    assert np.array_equal(found.image, samples.index.image)
    assert found.images == len(samples.images)
    plain = replace(samples.index, image=None)
    write_index(tmp_path / "i.h5", plain, {})
    assert read_index(tmp_path / "i.h5").image is None


def test_the_default_data_have_an_image_for_each_sample():
    index = Dataset.DIGITS.load(request(Path())).index
    everything = np.arange(len(index.label))
    assert np.array_equal(index.images_of(everything), everything)
    assert index.images == len(index.label)


def test_shared_pictures_cannot_differ_but_labels_can(tmp_path):
    samples = load(rating_set(tmp_path))
    with pytest.raises(InputError, match=r"label of the same image.*prepare\.differ"):
        as_sites(samples, SiteSettings(Difference.BLUR, 1.0, 4, 0))
    changed, sites = as_sites(samples, SiteSettings(Difference.LABELS, 1.0, 4, 0))
    assert sites is None
    assert not np.array_equal(changed.index.label, samples.index.label)


HEAD = "worker,imagePair,score\n"
BAD = {
    "no table": (None, "holds no table"),
    "no header": ("", r"line 1: no column of these names the image: none"),
    "no score": ("worker,imagePair,stars\n", r"line 1: no column .* the score: worker, imagePair"),
    "two scores": ("worker,image,score,Rating\n", "line 1: 'score' and 'Rating' both name the sco"),
    "missing image": (
        HEAD + "u,0.png,1\nu,x.png,2\nv,y.png,2\nw,y.png,2",
        r"line 3: there is no image 'x\.png' in .*; of 4 ratings, 3 are of 2 image\(s\) that are "
        r"not there: put them there, or set prepare\.missing-images to skip",
    ),
    "rated twice": (HEAD + "u,0.png,1\n\nu,0.png,2", r"line 4: 'u' has rated 0\.png before .*ne 2"),
    "half a point": (HEAD + "u,0.png,3.5", "line 2: the score '3.5' is no whole number"),
    "a word": (HEAD + "u,0.png,good", "line 2: the score 'good' is no whole number"),
    "an endless number": (HEAD + "u,0.png," + "9" * 5000, "line 2: the score"),
    "no cell": (HEAD + "u,0.png", "line 2: there are 2 cells where the first line names 3"),
    "one cell more": (HEAD + "u,0.png,1,9", "line 2: there are 4 cells"),
    "an empty cell": (HEAD + ",0.png,1", "line 2: the user is missing"),
    "an open quote": (HEAD + 'u,"0.png,1\n', "line 2: this cannot be read as CSV"),
    "latin-1": (HEAD.encode() + "jürgen,0.png,1".encode("latin-1"), "line 2: this is not UTF-8"),
    "utf-16": (HEAD.encode("utf-16-le"), "line 1: this is not UTF-8"),
    "one score": (HEAD + "u,0.png,1\nv,0.png,1", r"holds 1 class\(es\)"),
    "two of a name": (HEAD + "u,twin.png,1", r"'twin\.png' may be a/twin\.png or b/twin\.png"),
    "out of the folder": (HEAD + "u,../0.png,1", r"there is no image '\.\./0\.png'"),
}


@pytest.mark.parametrize(("text", "message"), BAD.values(), ids=BAD)
def test_what_is_wrong_is_told_with_its_line(tmp_path, text, message):
    for name in ("0.png", "a/twin.png", "b/twin.png"):
        picture(tmp_path / name)
    if text is not None:
        (tmp_path / "t.csv").write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(InputError, match=message):
        load(tmp_path)


def test_an_image_is_found_by_its_folder_before_its_name(tmp_path):
    for name in ("a/twin.png", "b/twin.png", "deep/er/one.png"):
        picture(tmp_path / name)
    lines = [("u", "a\\twin.png", 1), ("u", "./b/twin.png", 2), ("u", "er/one.png", 1)]
    table(tmp_path / "t.csv", [*lines, ("v", "one.png", 2), ("v", "a/twin.png", 2)], FLICKR)
    found = {(user, image) for user, image, _ in told(load(tmp_path, test_fraction=0.4))}
    assert found == {("u", "a/twin.png"), ("u", "b/twin.png"), ("u", "deep/er/one.png"),
                     ("v", "deep/er/one.png"), ("v", "a/twin.png")}  # fmt: skip


CAFE, STORED = (unicodedata.normalize(form, "café") for form in ("NFC", "NFD"))


def test_a_table_and_files_may_store_accents_in_different_ways(tmp_path):
    lines = [(f"{CAFE}-{n % 3}", f"{CAFE}{n}.png", 1 + n % 2) for n in range(12)]
    for n in range(12):
        picture(tmp_path / STORED / f"{STORED}{n}.png", n)
    table(tmp_path / "t.csv", lines[:6])
    table(tmp_path / "u.csv", [(unicodedata.normalize("NFD", u), i, s) for u, i, s in lines[6:]])
    samples = load(tmp_path)
    assert samples.index.groups == tuple(f"{CAFE}-{n}" for n in range(3))
    expected = [(user, f"{STORED}/{STORED}{n}.png", str(s)) for n, (user, _, s) in enumerate(lines)]
    assert sorted(told(samples)) == sorted(expected)
    table(tmp_path / "u.csv", [(unicodedata.normalize("NFD", u), i, s) for u, i, s in lines[:1]])
    with pytest.raises(InputError, match=r"has rated .* before"):
        load(tmp_path)


def test_a_name_to_the_byte_goes_before_one_that_looks_like_it(tmp_path):
    for n, name in enumerate((f"{CAFE}.png", f"{STORED}.png", "other.png")):
        picture(tmp_path / name, n)
    lines = [(user, name, n % 2) for user in "ab" for n, name in
             enumerate((f"{CAFE}.png", f"{STORED}.png", "other.png"))]  # fmt: skip
    table(tmp_path / "t.csv", lines)
    assert sorted(told(load(tmp_path))) == sorted((u, i, str(s)) for u, i, s in lines)
    twice = "caf\u00e9 caf\u00e9", "cafe\u0301 cafe\u0301", "caf\u00e9 cafe\u0301"
    for name in twice[:2]:
        picture(tmp_path / "deep" / f"{name}.png")
    table(tmp_path / "t.csv", [("a", f"{twice[2]}.png", 1)])
    with pytest.raises(
        InputError, match=r"may be 'deep/.*\\u0301.*only in how an accent is stored"
    ):
        load(tmp_path)


def test_a_missing_folder_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"is not a folder: set `prepare\.path`"):
        load(tmp_path / "nowhere")


def test_ratings_of_images_that_are_not_there_may_be_left_out(tmp_path, caplog):
    lines = ratings()
    whole = load(rating_set(tmp_path / "whole", lines))
    skip = {"missing_images": MissingImages.SKIP}
    assert told(load(tmp_path / "whole", **skip)) == told(whole)
    assert load(tmp_path / "whole", **skip).attributes == whole.attributes
    gone = [("user-0", "gone.png", 1), ("user-1", "gone.png", 2), ("user-9", "lost.png", 3)]
    root = rating_set(tmp_path / "part", lines)
    table(root / "labeled.csv", gone[:2] + lines + gone[2:])
    assert not caplog.records
    part = load(root, **skip)
    assert told(part) == told(whole)
    assert part.index.groups == whole.index.groups  # of user-9 nothing is left
    assert part.attributes == whole.attributes | {"left-out": 3}
    assert re.search(
        rf"line 2: there is no image 'gone\.png' in .*; of {len(lines) + 3} ratings, 3 are of 2 "
        r"image\(s\) that are not there, and left out\.",
        caplog.text,
    )
    assert (
        load(root, users=2, **skip).index.groups
        == load(root.parent / "whole", users=2).index.groups
    )


def test_what_lacks_every_image_is_refused_however_it_is_asked(tmp_path):
    root = rating_set(tmp_path)
    (root / "images").rename(tmp_path.parent / f"{tmp_path.name}-images")
    for how in MissingImages:
        with pytest.raises(InputError, match=r"96 are of 30 image.*check that prepare\.path"):
            load(root, missing_images=how)


def test_an_image_without_ratings_is_not_stored(tmp_path):
    root = rating_set(tmp_path / "set")
    picture(root / "images" / "extra.png")
    samples = load(root)
    assert "images/extra.png" not in samples.images.names
    write_images(tmp_path / "images.h5", samples.images, {})
