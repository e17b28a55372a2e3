"""What uploads give away, as far as the attacks of the leakage's report found out."""

from pathlib import Path

from pfl.artifacts.json import load_report, number_at
from pfl.report.figure import load_figure
from pfl.report.page import Section
from pfl.report.table import plain

# Names in the leakage's metrics.json, and what each means to a reader.
ATTACKS = {
    "single-feature": "the exact feature of a class's only sample",
    "found-single": "the same, found without being told the class counts",
    "exact-counts": "the exact number of samples of each class, without being told",
    "membership": "whether an image was among the training samples, without an error",
    "everything": "every feature",
}


def leakage_section(folder: Path) -> Section:
    """How many clients and samples each attack exposes, and the figure.

    Raises:
        InputError: a file is missing or of another form.
    """
    path = folder / "metrics.json"
    report = load_report(path)

    def count(*place: str) -> int:
        return int(number_at(path, report, place) or 0)

    clients, samples = count("clients"), count("samples")
    rows = [
        [words, f"{count(name, 'clients'):,}", f"{count(name, 'samples'):,}"]
        for name, words in ATTACKS.items()
    ]
    table = plain(
        f"Attacks on each of {clients:,} uploads, {samples:,} training samples in all.",
        ["what the server learns", "of clients", "samples exposed"],
        rows,
    )
    alt = "; ".join(f"{words}: {exposed} samples" for words, _, exposed in rows)
    caption = "What each upload exposes; reports/leakage tells it client by client."
    figure = load_figure(folder / "leakage.svg", alt, caption)
    text = "What a server can work out from each client's Gram matrix and cross-moment."
    return Section("leakage", "What uploads give away", [text], [table, figure])
