"""CD2-pFed's whole CIFAR-100 protocol on a GPU, in pieces of some minutes that add up.

    python -m experiments.cd2.pieces FOLDER METHOD --images I.h5 --index X.h5 --clients-file C.h5
        [--minutes 9] [--seed 0] [--network resnet34] [--rounds 50] [--device cuda]

ResNet-34, 30 clients, T = 50 rounds of 4 local epochs, batches of 128. The files are those that
`dvc repro partition` leaves in `data/` with `scheme: pathological`, 30 clients and 40 classes per
client. After each round the whole state goes to FOLDER; a call that is not at the end when its time
is up ends with exit code 3, and the next one goes on, on another machine too if FOLDER is brought
there. A round that is not finished is lost: a piece must be longer than a round.
"""

import argparse
from pathlib import Path

from ruamel.yaml import YAML

from experiments.cd2.play import Play, play_or_exit, write_play

PROTOCOL: dict[str, object] = {
    "network": "resnet34", "image-size": "auto", "augment": True, "rounds": 50, "epochs": 4,
    "batch-size": 128, "learning-rate": 0.01, "evaluate-every": 10, "device": "cuda",
    "precision": "bf16",
}  # fmt: skip
FILES = ("images", "index", "clients-file")


def main() -> None:
    """Play for some minutes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("method")
    for name in FILES:
        parser.add_argument(f"--{name}", type=Path, default=Path("data") / f"{name[:7]}.h5")
    parser.add_argument("--minutes", type=float, default=9.0)
    parser.add_argument("--seed", type=int, default=0)
    for name in ("network", "rounds", "device"):
        parser.add_argument(f"--{name}", type=type(PROTOCOL[name]), default=PROTOCOL[name])
    options = parser.parse_args()
    stated = YAML(typ="safe", pure=True).load(Path("params.yaml"))
    changed = {name: getattr(options, name) for name in ("network", "rounds", "device")}
    files = {name: str(getattr(options, name.replace("-", "_"))) for name in FILES}
    play = Play(
        options.method, options.seed, stated["train"][options.method],
        stated["rounds"] | PROTOCOL | changed, files,
    )  # fmt: skip
    write_play(options.folder, play)
    play_or_exit(options.folder, options.minutes)


if __name__ == "__main__":
    main()
