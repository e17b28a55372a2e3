"""A small rating set in FLICKR-AES's layout, made up: noise images that users score by taste."""

import csv

import numpy as np
from PIL import Image

FLICKR = ("worker", " imagePair", " score")  # as the public table has it


def picture(path, seed=0, side=8):
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 256, (side, side, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path)


def table(path, lines, header=FLICKR):
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *lines])


def ratings(users=4, images=30, each=24, seed=0):
    """Lines of user, image and score: every user rates ``each`` of the images, 1 to 3."""
    rng = np.random.default_rng(seed)
    return [
        (f"user-{user}", f"{image:03d}.png", int(rng.integers(1, 4)))
        for user in range(users)
        for image in rng.permutation(images)[:each].tolist()
    ]


def rating_set(root, lines=None):
    """The folder with one table and the images it names."""
    lines = ratings() if lines is None else lines
    table(root / "labeled.csv", lines)
    for seed, name in enumerate(sorted({image for _, image, _ in lines})):
        picture(root / "images" / name, seed)
    return root
