"""Made-up users who score real images, each by a taste of its own, in FLICKR-AES's layout.

    python -m experiments.ratings DATA.npz FOLDER [--users 30 --images 3000 --raters 5]

DATA.npz holds x_train and y_train, as `prepare.dataset: npz` reads them. Each of the images, drawn
at random, is rated by as many users as ``--raters`` says. A user's taste is a direction over the
classes, t_u = √a · c + √(1 − a) · o_u with c common to all and o_u its own, standard normal, so
that the tastes of two users have the correlation a (``--agreement``). The rank of an image's class
in t_u makes its score, 1 to 5; a share ``--noise`` of the scores is drawn at random instead. What
users rate, and where scores are drawn, depends on neither. FOLDER gets the images, and the table
under its public name; docs/heterogeneity.md has the parameters to run it with.
"""

import argparse
import csv
from pathlib import Path

import numpy as np
from jaxtyping import Int
from PIL import Image

TABLE = "FLICKR-AES_image_labeled_by_each_worker.csv"
HEADER = ("worker", " imagePair", " score")  # with the spaces of the public one
SCORES = 5


def raters(
    images: int, users: int, each: int, rng: np.random.Generator
) -> Int[np.ndarray, "{images} {each}"]:
    """Who rates each image: users whose numbers of ratings differ by at most one.

    Image i takes the next ``each`` places of a circle of all users, so none twice; images and
    users are in random order.
    """
    seats = np.arange(images * each).reshape(images, each) % users
    return rng.permutation(users)[rng.permutation(seats)]


def scored(
    label: Int[np.ndarray, "images each"],
    user: Int[np.ndarray, "images each"],
    options: argparse.Namespace,
    rng: np.random.Generator,
) -> Int[np.ndarray, "images each"]:
    """The score that each user gives each image, 1 … ``SCORES``."""
    classes = int(label.max()) + 1
    common, own = rng.normal(size=classes), rng.normal(size=(options.users, classes))
    agreement = options.agreement
    taste = np.sqrt(agreement) * common + np.sqrt(1 - agreement) * own
    rank = taste.argsort(1).argsort(1)
    score = 1 + rank[user, label] * SCORES // classes
    noisy = rng.random(score.shape) < options.noise
    return np.where(noisy, rng.integers(1, SCORES + 1, score.shape), score)


def write(folder: Path, options: argparse.Namespace) -> None:
    """Make the folder, from the arrays of ``options.data``."""
    drawn, seated, tastes = map(
        np.random.default_rng, np.random.SeedSequence(options.seed).spawn(3)
    )
    with np.load(options.data, allow_pickle=False) as file:
        pixels, label = file["x_train"], file["y_train"]
    chosen = drawn.permutation(len(label))[: options.images]
    user = raters(len(chosen), options.users, options.raters, seated)
    score = scored(np.repeat(label[chosen, None], options.raters, 1), user, options, tastes)
    (folder / "images").mkdir(parents=True, exist_ok=True)
    with (folder / TABLE).open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(HEADER)
        for number, row in enumerate(chosen):
            name = f"{number:05d}.png"
            Image.fromarray(pixels[row]).save(folder / "images" / name)
            for one, given in zip(user[number], score[number], strict=True):
                table.writerow((f"user {one:03d}", name, given))


def main() -> None:
    """Write the folder that the flags ask for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("folder", type=Path)
    for name, value in (("users", 30), ("images", 3000), ("raters", 5), ("seed", 0)):
        parser.add_argument(f"--{name}", type=int, default=value)
    for name, share in (("agreement", 0.5), ("noise", 0.1)):
        parser.add_argument(f"--{name}", type=float, default=share)
    options = parser.parse_args()
    if not options.raters <= options.users:
        parser.error("--raters must be --users at most: no user rates an image twice.")
    write(options.folder, options)


if __name__ == "__main__":
    main()
