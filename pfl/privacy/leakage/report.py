"""What the attacks on uploads expose, as JSON, CSV and plain words."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, fields

from pfl.artifacts.csv import DIGITS, csv_text
from pfl.privacy.leakage.score import Exposure

TOTAL = "total"  # in a client's place: the sum over all clients

Row = dict[str, int | bool | float]


def counted_exactly(exposure: Exposure) -> int:
    """Samples whose classes are all counted by exact arithmetic, rightly."""
    return exposure.samples if exposure.exact and not exposure.miscounted else 0


def told_apart(exposure: Exposure) -> int:
    """Samples that are told from others without an error."""
    return exposure.samples if exposure.advantage == 1.0 else 0


# Of each attack: its name, what the server learns by it, and how many samples it exposes.
ATTACKS: tuple[tuple[str, str, Callable[[Exposure], int]], ...] = (
    ("single-feature", "the exact feature of a class's only sample", lambda own: own.single),
    ("found-single", "the same, found without being told the class counts",
     lambda own: own.recovered),
    ("exact-counts", "the exact number of samples of each class, without being told",
     counted_exactly),
    ("membership", "whether a given image was among the training samples, without an error",
     told_apart),
    ("everything", "every feature", lambda own: own.samples if own.everything else 0),
)  # fmt: skip


def metrics(clients: Sequence[Exposure], total: Exposure) -> dict[str, object]:
    """For each attack, the clients that it exposes and how many samples; and the sum."""
    return {
        "clients": len(clients),
        "samples": sum(exposure.samples for exposure in clients),
        **{name: _sum(clients, exposed) for name, _, exposed in ATTACKS},
        TOTAL: _row(total),
    }


def _sum(clients: Sequence[Exposure], exposed: Callable[[Exposure], int]) -> dict[str, int]:
    counts = [exposed(exposure) for exposure in clients]
    return {"clients": sum(count > 0 for count in counts), "samples": sum(counts)}


def _row(exposure: Exposure) -> Row:
    return asdict(exposure) | {"advantage": round(exposure.advantage, DIGITS)}


def table(clients: Sequence[Exposure], total: Exposure) -> str:
    """One line of CSV a client and one for the sum; the columns are those of ``Exposure``."""
    names = [*(field.name for field in fields(Exposure)), "advantage"]
    rows = [(str(client), exposure) for client, exposure in enumerate(clients)] + [(TOTAL, total)]
    lines = [
        [name, *(int(v) if isinstance(v, bool) else v for v in _row(exposure).values())]
        for name, exposure in rows
    ]
    return csv_text(["client", *names], lines)


def words(clients: Sequence[Exposure], total: Exposure, width: int) -> str:
    """The report in plain words, as Markdown; ``width`` is m."""
    samples = sum(exposure.samples for exposure in clients)
    lines = [
        "# What the uploads give away",
        "",
        f"{len(clients)} clients, {samples:,} training samples, features of {width} numbers. Each "
        "upload was attacked with what the server has, and the findings were compared with the "
        "truth. `docs/leakage.md` explains the attacks.",
        "",
        "| what the server learns | of clients | samples exposed |",
        "|---|---|---|",
    ]
    for _, learned, exposed in ATTACKS:
        counts = _sum(clients, exposed)
        lines.append(f"| {learned} | {counts['clients']} | {counts['samples']:,} |")
    lines += ["", _about_the_sum(clients, total), "", "## Client by client", ""]
    lines += [f"- Client {k}, {sentence(exposure, width)}" for k, exposure in enumerate(clients)]
    return "\n".join(lines) + "\n"


def _about_the_sum(clients: Sequence[Exposure], total: Exposure) -> str:
    """What sums reveal, whoever gets nothing but sums."""
    if len(clients) == 1:
        return "There is one client, so the sum is its upload."
    others = (
        "There are two clients: each takes its own upload from the sum and has the other's, with "
        "all that is said of it here."
        if len(clients) == 2
        else "Every client can take its own upload from the sum and has that of all others."
    )
    size = f"{total.samples:,} samples of {total.classes} classes"
    return f"The sum over all clients, {size}: {_findings(total)} {others}"


def sentence(exposure: Exposure, width: int) -> str:
    """What the upload of one client gives away."""
    samples, classes = exposure.samples, exposure.classes
    size = f"{_number(samples, 'sample')} of {_number(classes, 'class', 'classes')}"
    few = "no more than" if samples <= width else "more than"
    return f"{size}, {few} the {width} features: {_findings(exposure)}"


def _findings(exposure: Exposure) -> str:
    if exposure.everything:
        return (
            "everything is known: each sample is alone in its class, and its feature stands in B."
        )
    return f"{_features(exposure)}; {_labels(exposure)}; {_membership(exposure)}."


def _features(exposure: Exposure) -> str:
    if not exposure.single:
        return "no feature stands in B by itself"
    own, recovered = exposure.single, exposure.recovered
    stand = "feature stands in B as it is" if own == 1 else "features stand in B as they are"
    less = "" if recovered == own else f" ({recovered} found without the counts)"
    return f"{own} {stand}{less}"


def _labels(exposure: Exposure) -> str:
    if counted_exactly(exposure):
        return "the number of samples of each class is known exactly"
    if exposure.exact:
        return f"the numbers of samples per class come out wrong by {exposure.miscounted} in all"
    if not exposure.miscounted:
        return "the number of samples of each class is estimated, and right"
    off = f"{exposure.miscounted:,} of {exposure.samples:,}"
    return f"the numbers of samples per class are estimated, off by {off} in all"


def _membership(exposure: Exposure) -> str:
    if told_apart(exposure):
        return "an image that was trained on is told from any other"
    if not exposure.strangers:
        return "whether an image was trained on could not be tried for want of others"
    share = exposure.confused / exposure.strangers
    if share == 1.0:
        return "an image that was trained on is not told from others"
    own = exposure.recognized / exposure.samples
    return (
        f"{own:.1%} of the images trained on, but {share:.1%} of the others too, pass for trained "
        "on"
    )


def _number(count: int, singular: str, plural: str = "") -> str:
    return f"{count:,} {singular if count == 1 else plural or singular + 's'}"
