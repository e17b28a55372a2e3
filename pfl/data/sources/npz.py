"""One ``.npz`` file of NumPy arrays.

``x_train`` and ``y_train`` are needed; ``x_test`` with ``y_test`` is the test split, else one is
cut. ``group_train`` and ``group_test`` give each sample's natural group, ``classes`` the class
names. Images are uint8, (n, h, w) or (n, h, w, c) with c = 1 or 3; labels are integers 0 … d-1.
Nothing is unpickled.
"""

import logging
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from pfl.data.images.arrays import as_pixels
from pfl.data.images.images import PixelArray
from pfl.data.samples.index import TEST, TRAIN, Index
from pfl.data.sources.archive import names_in, read_arrays
from pfl.data.sources.links import check_links
from pfl.data.sources.samples import NO_GROUPS, Samples, SourceRequest, assemble
from pfl.errors import InputError
from pfl.runtime.spelling import united

log = logging.getLogger(__name__)

KNOWN = ("x_train", "y_train", "x_test", "y_test", "group_train", "group_test", "classes")
LARGEST_LABEL = 2**31 - 1  # what index.h5 holds
NUMBERING = "classes, {name} = np.unique({name}, return_inverse=True) numbers any labels"
NUMBERING_BOTH = (
    "classes, y = np.unique(np.concatenate([y_train, y_test]), return_inverse=True), and then "
    "y_train, y_test = np.split(y, [len(y_train)]), numbers any labels"
)
Arrays = Mapping[str, np.ndarray]


def load(request: SourceRequest) -> Samples:
    """Load the file ``request.path``, or the only ``.npz`` file in that folder.

    Raises:
        InputError: an array is missing, damaged, of a wrong type, shape or length, or labels have
            gaps; the message says how to convert it.
    """
    path = find(request)
    names = names_in(path)
    _check_names(path, names)
    arrays = read_arrays(path, [name for name in KNOWN if name in names])
    splits = ("train", "test") if "x_test" in arrays else ("train",)
    pixels = [
        as_pixels(path, f"x_{name}", arrays[f"x_{name}"], arrays[f"y_{name}"].size)
        for name in splits
    ]
    labels = [
        _labels(path, f"y_{name}", arrays, len(x)) for name, x in zip(splits, pixels, strict=True)
    ]
    for name, x, y in zip(splits, pixels, labels, strict=True):
        hint = _of_axes(f"x_{name}", arrays[f"x_{name}"].shape, len(y))
        _check_length(path, f"x_{name}", len(x), f"y_{name}", len(y), hint)
    if pixels[0].shape[1:] != pixels[-1].shape[1:]:
        raise InputError(
            f"{path}: x_train holds images of shape {pixels[0].shape[1:]} and x_test of "
            f"{pixels[-1].shape[1:]} (height, width, channels): give both the same shape."
        )
    label = np.concatenate(labels)
    sizes = [len(y) for y in labels]
    split = np.repeat((TRAIN, TEST)[: len(sizes)], sizes)
    group, groups = _groups(path, arrays, sizes)
    index = Index(label, split, group, _classes(path, arrays, label), groups)
    images = PixelArray(np.concatenate(pixels) if len(pixels) == 2 else pixels[0])
    return assemble(images, index, request, cut=len(splits) == 1)


def find(request: SourceRequest) -> Path:
    """The file ``request.path``, or the only ``.npz`` file in that folder.

    Raises:
        InputError: it is not there.
    """
    path = request.path
    if path.is_file():
        return path
    archives = sorted(file for file in path.glob("*.npz") if file.is_file())
    if len(archives) == 1:
        check_links(path, (archives[0].name,))
        return archives[0]
    raise InputError(
        f"{path} is no file, nor a folder with exactly one .npz file (it has {len(archives)}): "
        f"set `{request.section}.path` to your .npz file."
    )


def _check_names(path: Path, names: list[str]) -> None:
    missing = [name for name in ("x_train", "y_train") if name not in names]
    for left, right in (("x_test", "y_test"), ("group_train", "group_test")):
        has_test = "x_test" in names or left == "x_test"
        if left in names and right not in names and has_test:
            missing.append(right)
        if right in names and left not in names:
            missing.append(left)
    if "group_test" in names and "x_test" not in names:
        missing.append("x_test")
    if missing:
        raise InputError(
            f"{path} lacks {', '.join(missing)}: it must hold x_train and y_train, and may hold "
            "x_test with y_test, group_train (with group_test), and classes."
        )
    unused = sorted(set(names) - set(KNOWN))
    if unused:
        log.warning("Not used in %s: %s.", path, ", ".join(unused))


def _labels(path: Path, name: str, arrays: Arrays, images: int) -> np.ndarray:
    """Check labels; a column (n, 1), as some libraries have it, becomes a vector."""
    y = arrays[name]
    numbering = NUMBERING_BOTH if "y_test" in arrays else NUMBERING.format(name=name)
    remedy = _remedy(name, y, images, numbering)
    if remedy:
        raise InputError(
            f"{path}: {name} is {y.dtype} of shape {y.shape}, but must be integer of shape (n,): "
            f"{remedy}."
        )
    if y.max(initial=0) > LARGEST_LABEL:
        raise InputError(
            f"{path}: {name} goes up to {y.max()}, but labels must be 0 … d-1: {numbering}."
        )
    return y.reshape(-1).astype(np.int64)


def _remedy(name: str, y: np.ndarray, images: int, numbering: str) -> str:
    """How to make labels of the right type and shape; empty where they have them."""
    if y.ndim == 2 and y.shape[0] == 1 < y.shape[1]:
        return f"{name}[0] takes the one row"
    if y.ndim == 2 and y.shape[1] > 1:
        return _of_table(name, y, images)
    if y.ndim == 0 or y.size != len(y):
        return "give one label per image"
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        return "some are NaN or infinite: leave out samples without a label, then number the rest"
    return "" if y.dtype.kind in "iu" else numbering


def _of_table(name: str, y: np.ndarray, images: int) -> str:
    """How to get labels from a table of which one axis is the images'."""
    axis = 0 if y.shape[0] != images == y.shape[1] else 1
    if y.dtype.kind in "iufb" and (y >= 0).all() and np.allclose(y.sum(axis), 1):
        return f"{name}.argmax({axis}) converts one-hot labels"
    column = "[:, 0]" if axis else "[0]"
    return f"an image has one label here: choose which, such as {name}{column}"


def _check_length(path: Path, left: str, size: int, right: str, other: int, hint: str = "") -> None:
    if size != other:
        raise InputError(
            f"{path}: {left} has {size} entries and {right} has {other}: "
            f"give each image its own, in the same order{hint}."
        )


def _of_axes(name: str, shape: tuple[int, ...], labels: int) -> str:
    """What to do if another axis than the first numbers the images."""
    matches = [axis for axis, length in enumerate(shape) if length == labels]
    if len(matches) != 1:
        return ""
    return (
        f"; or, if axis {matches[0]} numbers the images, np.moveaxis({name}, {matches[0]}, 0) puts "
        "it first"
    )


def _classes(path: Path, arrays: Arrays, label: np.ndarray) -> tuple[str, ...]:
    present = np.unique(label)
    if present.size and present[0] < 0:
        raise InputError(
            f"{path}: labels start at {present[0]}, but must be 0 … d-1: leave out samples without "
            "a label if that is what it means, and number the others 0 … d-1."
        )
    highest = int(present[-1]) if present.size else -1
    if "classes" in arrays:
        return _named_classes(path, arrays["classes"], highest)
    if len(present) <= highest:
        gaps = np.setdiff1d(np.arange(min(highest, len(present) + 3)), present)[:3].tolist()
        raise InputError(
            f"{path}: labels go up to {highest} but have gaps (no {', '.join(map(str, gaps))}): "
            "number them 0 … d-1 without gaps, or name every class in an array 'classes'."
        )
    return tuple(str(number) for number in present.tolist())


def _named_classes(path: Path, classes: np.ndarray, highest: int) -> tuple[str, ...]:
    names = tuple(_texts(path, "classes", classes))
    if classes.ndim != 1 or len(set(names)) < len(names):
        raise InputError(f"{path}: 'classes' must be a vector of distinct names, one per class.")
    if highest >= len(names):
        raise InputError(
            f"{path}: labels go up to {highest}, but 'classes' names only {len(names)}: "
            "name every class."
        )
    return names


def _groups(path: Path, arrays: Arrays, sizes: list[int]) -> tuple[np.ndarray, tuple[str, ...]]:
    if "group_train" not in arrays:
        return np.zeros(sum(sizes), np.int64), NO_GROUPS
    parts = []
    for split, size in zip(("train", "test"), sizes, strict=False):
        part = arrays[f"group_{split}"]
        if part.ndim != 1 or part.dtype.kind not in "iuSU":
            raise InputError(
                f"{path}: group_{split} is {part.dtype} of shape {part.shape}, but must be a "
                "vector of integers or strings: give each sample the number or name of its group."
            )
        _check_length(path, f"x_{split}", size, f"group_{split}", len(part))
        parts.append(part)
    kinds = {part.dtype.kind in "iu" for part in parts}
    if len(kinds) > 1 or (kinds == {True} and np.result_type(*parts).kind == "f"):
        raise InputError(
            f"{path}: group_train is {parts[0].dtype} and group_test {parts[1].dtype}: "
            "use numbers of one type in both or names in both."
        )
    if kinds == {False}:
        names = [name for part in parts for name in _texts(path, "groups", part)]
        parts = [np.array(united(names), np.str_)]
    values, group = np.unique(np.concatenate(parts), return_inverse=True)
    return group.astype(np.int64), tuple(_texts(path, "groups", values))


def _texts(path: Path, what: str, values: np.ndarray) -> list[str]:
    try:
        flat = values.ravel().tolist()
        return [value.decode() if isinstance(value, bytes) else str(value) for value in flat]
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path}: the names of {what} hold {error.object!r}, which is not UTF-8: "
            "give them as text, with .decode() from what they are in."
        ) from error
