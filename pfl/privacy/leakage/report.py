"""What the attacks on uploads expose, as JSON, CSV and plain words."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, fields

from pfl.artifacts.csv import DIGITS, csv_text
from pfl.privacy.leakage.score import Exposure

TOTAL = "total"  # in a client's place: the sum over all clients

Told = dict[str, int | bool | float]


def metrics(clients: Sequence[Exposure], total: Exposure) -> dict[str, object]:
    """For each attack, the clients that it exposes and how many samples; and the sum.

    ``single-feature``: features that stand in B; ``found-single``: of these, those found without
    counts; ``exact-counts``: samples whose classes are counted exactly; ``membership``: samples
    told from others without an error; ``everything``: samples of clients of which all is known.
    """
    told: dict[str, object] = {
        "clients": len(clients),
        "samples": sum(one.samples for one in clients),
        "single-feature": _sum(clients, lambda one: one.single),
        "found-single": _sum(clients, lambda one: one.recovered),
        "exact-counts": _sum(clients, counted_exactly),
        "membership": _sum(clients, told_apart),
        "everything": _sum(clients, lambda one: one.samples if one.everything else 0),
    }
    return told | {TOTAL: _row(total)}


def counted_exactly(one: Exposure) -> int:
    """Samples whose classes are all counted by exact arithmetic, rightly."""
    return one.samples if one.exact and not one.miscounted else 0


def told_apart(one: Exposure) -> int:
    """Samples that are told from others without an error."""
    return one.samples if one.advantage == 1.0 else 0


def _sum(clients: Sequence[Exposure], exposed: Callable[[Exposure], int]) -> dict[str, int]:
    counts = [exposed(one) for one in clients]
    return {"clients": sum(count > 0 for count in counts), "samples": sum(counts)}


def _row(one: Exposure) -> Told:
    return asdict(one) | {"advantage": round(one.advantage, DIGITS)}


def table(clients: Sequence[Exposure], total: Exposure) -> str:
    """One line of CSV a client and one for the sum; the columns are those of ``Exposure``."""
    names = [*(field.name for field in fields(Exposure)), "advantage"]
    rows = [(str(client), one) for client, one in enumerate(clients)] + [(TOTAL, total)]
    lines = [
        [name, *(int(v) if isinstance(v, bool) else v for v in _row(one).values())]
        for name, one in rows
    ]
    return csv_text(["client", *names], lines)


def words(clients: Sequence[Exposure], total: Exposure, width: int) -> str:
    """The report in plain words, as Markdown; ``width`` is m."""
    samples = sum(one.samples for one in clients)
    attacks: list[tuple[str, Callable[[Exposure], int]]] = [
        ("the exact feature of a class's only sample", lambda one: one.single),
        ("the same, found without being told the class counts", lambda one: one.recovered),
        ("the exact number of samples of each class, without being told", counted_exactly),
        ("whether a given image was among the training samples, without an error", told_apart),
        ("every feature", lambda one: one.samples if one.everything else 0),
    ]
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
    for name, exposed in attacks:
        found = _sum(clients, exposed)
        lines.append(f"| {name} | {found['clients']} | {found['samples']:,} |")
    lines += ["", _about_the_sum(clients, total), "", "## Client by client", ""]
    lines += [f"- Client {k}, {sentence(one, width)}" for k, one in enumerate(clients)]
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


def sentence(one: Exposure, width: int) -> str:
    """What the upload of one client gives away."""
    size = f"{_number(one.samples, 'sample')} of {_number(one.classes, 'class', 'classes')}"
    few = "no more than" if one.samples <= width else "more than"
    return f"{size}, {few} the {width} features: {_findings(one)}"


def _findings(one: Exposure) -> str:
    if one.everything:
        return (
            "everything is known: each sample is alone in its class, and its feature stands in B."
        )
    parts = [_features(one), _labels(one), _membership(one)]
    return "; ".join(parts) + "."


def _features(one: Exposure) -> str:
    if not one.single:
        return "no feature stands in B by itself"
    found = "" if one.recovered == one.single else f" ({one.recovered} found without the counts)"
    stand = "feature stands in B as it is" if one.single == 1 else "features stand in B as they are"
    return f"{one.single} {stand}{found}"


def _labels(one: Exposure) -> str:
    if counted_exactly(one):
        return "the number of samples of each class is known exactly"
    if one.exact:
        return f"the numbers of samples per class come out wrong by {one.miscounted} in all"
    if not one.miscounted:
        return "the number of samples of each class is estimated, and right"
    off = f"{one.miscounted:,} of {one.samples:,}"
    return f"the numbers of samples per class are estimated, off by {off} in all"


def _membership(one: Exposure) -> str:
    if told_apart(one):
        return "an image that was trained on is told from any other"
    if not one.strangers:
        return "whether an image was trained on could not be tried for want of others"
    share = one.confused / one.strangers
    if share == 1.0:
        return "an image that was trained on is not told from others"
    return (
        f"{one.recognized / one.samples:.1%} of the images trained on, but {share:.1%} of the "
        "others too, pass for trained on"
    )


def _number(count: int, one: str, many: str = "") -> str:
    return f"{count:,} {one if count == 1 else many or one + 's'}"
