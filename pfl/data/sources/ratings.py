"""Images that several users have rated, each by taste: the users' ratings in tables beside them.

One sample is one user's rating of one image. Users are the groups, scores the classes, and an image
is stored once however many users rated it. Layouts of a folder, with tables as in
:mod:`pfl.data.sources.rating_tables`:

- tables with a column of users, and images anywhere in the folder, as FLICKR-AES has them;
- a table for each user, as REAL-CUR has them: ``<user>/<name>.csv``, or several ``<user>.csv``.

Sources: J. Ren, X. Shen, Z. Lin, R. Mech, D. J. Foran, "Personalized image aesthetics", ICCV 2017.
"""

import logging
import posixpath
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from pfl.data.images.images import ImageFiles
from pfl.data.samples.index import Index
from pfl.data.sources.files import walk
from pfl.data.sources.names import some
from pfl.data.sources.rated_images import RatedImages
from pfl.data.sources.rating_tables import Line, read_table
from pfl.data.sources.samples import MissingImages, Samples, SourceRequest, assemble, folder_of
from pfl.errors import InputError
from pfl.runtime.spelling import united

log = logging.getLogger(__name__)

DEEPEST = 8  # parts of a file's name
LAYOUT = "tables (.csv) of user, image and score, and the images"
TABLE = ".csv"


@dataclass(frozen=True)
class Rating:
    """One user's rating of one image, by its name below the folder."""

    image: str
    user: str
    score: int


def load(request: SourceRequest) -> Samples:
    """Load rated images; the images are only named here, and read by ``write_images``.

    Raises:
        InputError: the folder holds no tables, a table cannot be used, an image is missing, a user
            rated one twice, or there are fewer users than asked for.
    """
    root = find(request)
    names = walk(root, DEEPEST, LAYOUT)
    tables = [name for name in names if name.lower().endswith(TABLE)]
    if not tables:
        raise InputError(f"{root} holds no table ({TABLE}): put {LAYOUT} into it.")
    images = RatedImages(set(names) - set(tables))
    found, missing = _resolved(root, tables, images)
    _check_missing(request, found, missing)
    ratings = _of_largest(request, found)
    users = sorted({rating.user for rating in ratings})
    scores = sorted({rating.score for rating in ratings})
    rated = sorted({rating.image for rating in ratings})
    if len(rated) < len(images):
        log.info(
            "%d of %d files have no rating that is used.", len(images) - len(rated), len(images)
        )
    samples = assemble(
        ImageFiles(root, tuple(rated)), _index(ratings, users, scores, rated), request, cut=True
    )
    facts = {"users": request.users} | ({"left-out": len(missing)} if missing else {})
    return replace(samples, attributes=samples.attributes | facts)


def find(request: SourceRequest) -> Path:
    """The folder.

    Raises:
        InputError: it is not there.
    """
    return folder_of(request, f"one that holds {LAYOUT}")


def _index(
    ratings: Sequence[Rating], users: list[str], scores: list[int], rated: list[str]
) -> Index:
    """Samples by image, then user, so that what is read together lies together."""
    ordered = sorted(ratings, key=lambda rating: (rating.image, rating.user))
    user, score, image = ({name: i for i, name in enumerate(n)} for n in (users, scores, rated))
    return Index(
        label=np.array([score[rating.score] for rating in ordered], np.int64),
        split=np.zeros(len(ordered), np.int64),
        group=np.array([user[rating.user] for rating in ordered], np.int64),
        classes=tuple(map(str, scores)),
        groups=tuple(users),
        image=np.array([image[rating.image] for rating in ordered], np.int64),
    )


def _resolved(
    root: Path, tables: Sequence[str], images: RatedImages
) -> tuple[list[Rating], list[Line]]:
    """All ratings, each with the file that it is of, and the lines whose images are not there.

    Raises:
        InputError: as :func:`load`.
    """
    ratings: dict[tuple[str, str], Rating] = {}
    places: dict[tuple[str, str], str] = {}
    missing: list[Line] = []
    lines = _lines(root, tables)
    users = united([user for _, user, _ in lines])
    for (table, called, line), user in zip(lines, users, strict=True):
        folder = posixpath.dirname(table)
        image = images.find(line, (folder, posixpath.join(folder, called)))
        if image is None:
            missing.append(line)
            continue
        key = user, image
        if key in ratings:
            raise InputError(
                f"{line.place}: '{user}' has rated {image} before ({places[key]}): keep one of "
                "the two lines."
            )
        ratings[key], places[key] = Rating(image, user, line.score), line.place
    return list(ratings.values()), missing


def _lines(root: Path, tables: Sequence[str]) -> list[tuple[str, str, Line]]:
    """The table, the user and the content of each line.

    Raises:
        InputError: some tables name users in a column and others do not.
    """
    read = {table: read_table(root / table) for table in tables}
    named = [table for table, lines in read.items() if any(line.user for line in lines)]
    placed = [table for table, lines in read.items() if lines and table not in named]
    owners = _owners(tables)
    if named and placed:
        raise InputError(
            f"{root / placed[0]} has no column of users and {root / named[0]} has one, so that it "
            f"would count as the ratings of a user '{owners[placed[0]]}': move it out of the "
            "folder if it holds averages or the like, or add a column of users."
        )
    called = {table: _owner(root, table, owners) for table in placed}
    if called:
        log.info(
            "%d table(s) without a column of users are those of: %s.",
            len(called), some(sorted(called.values())),
        )  # fmt: skip
    return [
        (table, line.user or called[table], line) for table, lines in read.items() for line in lines
    ]


def _check_missing(
    request: SourceRequest, found: Sequence[Rating], missing: Sequence[Line]
) -> None:
    """Refuse ratings of images that are not there, or tell that they are left out.

    Raises:
        InputError: they may not be left out, or are all there are.
    """
    if not missing:
        return
    lost = len({line.image for line in missing})
    what = (
        f"there is no image '{missing[0].image}' in {request.path}; of {len(found) + len(missing)} "
        f"ratings, {len(missing)} are of {lost} image(s) that are not there"
    )
    if request.missing_images is MissingImages.REFUSE or not found:
        leave = f"set {request.section}.missing-images to skip, which leaves these ratings out"
        remedy = (
            leave if found else f"check that {request.section}.path is the folder that holds them"
        )
        raise InputError(f"{missing[0].place}: {what}: put them there, or {remedy}.")
    log.warning("%s: %s, and left out.", missing[0].place, what)


def _owners(tables: Sequence[str]) -> dict[str, str]:
    """The user whose each table is, where it has no column of users.

    A table alone in its folder is called by the folder, others by their own names.
    """
    together = Counter(map(posixpath.dirname, tables))
    owners = {}
    for table in tables:
        folder, name = posixpath.split(table)
        alone = folder and together[folder] == 1
        owners[table] = posixpath.basename(folder) if alone else name[: -len(TABLE)]
    return owners


def _owner(root: Path, table: str, owners: dict[str, str]) -> str:
    user = owners[table]
    others = [name for name, other in owners.items() if other == user and name != table]
    if others:
        raise InputError(
            f"{root / table} has no column of users, and by its place it is of '{user}' as "
            f"{root / others[0]} is: add a column of users, or give each user's table a name or "
            "folder of its own."
        )
    return user


def _of_largest(request: SourceRequest, ratings: Sequence[Rating]) -> list[Rating]:
    """The ratings of as many users as asked for, those with most; ties go by name."""
    counts = Counter(rating.user for rating in ratings)
    if request.users > len(counts):
        raise InputError(
            f"{request.section}.users is {request.users}, but {request.path} has ratings of "
            f"{len(counts)} users: set it to {len(counts)} or less, or to 0 for all."
        )
    ranked = sorted(counts, key=lambda user: (-counts[user], user))
    kept = set(ranked[: request.users or None])
    return [rating for rating in ratings if rating.user in kept]
