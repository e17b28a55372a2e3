"""What the page tells, section by section, from the files that stages left to be read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pfl.artifacts.json import load_report, number_at
from pfl.evaluation.metrics import (
    ECE,
    FEDHIP_PREFIX,
    GLOBAL,
    GLOBAL_PRIOR,
    HEADS,
    LOCAL,
    LOCAL_TEST,
    PERSONALIZED,
)
from pfl.report.clients import against, clients_table, read_clients_csv, total
from pfl.report.comparison_table import label, mean_and_deviation
from pfl.report.figure import load_figure
from pfl.report.leakage import leakage_section
from pfl.report.measures import BY_KEY, UNKNOWN
from pfl.report.methods import methods_section
from pfl.report.origin import Attributes, hashes_table, versions_table
from pfl.report.page import Listing, Page, Section


@dataclass(frozen=True)
class Sources:
    """Where the content comes from: folders of reports, and the parameters as YAML.

    ``artifacts`` are what index, clients, features, server and heads say of themselves.
    """

    partition: Path
    fedhip: Path
    comparison: Path
    leakage: Path
    artifacts: Mapping[str, Attributes]
    parameters: str


def page(sources: Sources, footer: str) -> Page:
    """All of the report.

    Raises:
        InputError: a file is missing or of another form.
    """
    metrics_file = sources.fedhip / "metrics.json"
    metrics = load_report(metrics_file)
    rows = read_clients_csv(sources.fedhip / "per_client.csv")
    compared_file = sources.comparison / "comparison.json"
    compared = load_report(compared_file)
    means = {
        head: BY_KEY[LOCAL_TEST].of(metrics_file, metrics, f"{FEDHIP_PREFIX}{head}")
        for head in HEADS
    }
    sections = [
        _data(sources, rows),
        methods_section(sources.comparison, compared),
        _prior(means),
        _clients(sources, rows, means),
        _rounds(sources, means),
        *_probabilities(sources, compared_file, compared),
        _stack(sources),
        leakage_section(sources.leakage),
        _repeat(sources),
    ]
    return Page(_title(sources, rows), _SUBTITLE, _numbers(compared_file, compared, means),
                sections, footer)  # fmt: skip


_SUBTITLE = (
    "Accuracy of every client's model on test samples that nothing was trained or chosen with."
)


def _title(sources: Sources, rows: Sequence[Mapping[str, str]]) -> str:
    clients = "1 client" if len(rows) == 1 else f"{len(rows):,} clients"
    dataset = sources.artifacts["index"].get("dataset", "data")
    return f"Personalized federated learning: {dataset}, {clients}"


def _numbers(
    path: Path, compared: Mapping[str, Any], means: Mapping[str, float | None]
) -> list[tuple[str, str]]:
    """Means of FedHiP's heads, and of the best of the other methods."""
    numbers = [(label(f"{FEDHIP_PREFIX}{head}"), _percent(mean)) for head, mean in means.items()]
    others = {
        method: number_at(path, compared, (method, LOCAL_TEST, "mean"))
        for method in compared
        if not method.startswith(FEDHIP_PREFIX)
    }
    known = {method: mean for method, mean in others.items() if mean is not None}
    if known:
        best = max(known, key=lambda method: known[method])
        numbers.append((f"best trained: {best}", _percent(known[best])))
    return numbers


def _data(sources: Sources, rows: Sequence[Mapping[str, str]]) -> Section:
    facts = sources.artifacts["clients"]
    hidden = ("scheme", "clients", "sha256", "version-")
    settings = ", ".join(
        f"{name} {value}" for name, value in facts.items() if not any(x in name for x in hidden)
    )
    train, test = total(rows, "train"), total(rows, "test")
    sizes = sorted(int(row["train"]) for row in rows)
    classes = sorted(int(row["classes"]) for row in rows)
    text = (
        f"{train:,} training and {test:,} test samples, dealt to the clients by the scheme "
        f"{facts['scheme']} ({settings}). A client holds {sizes[0]:,} to {sizes[-1]:,} training "
        f"samples of {classes[0]} to {classes[-1]} classes, and its test samples are mixed like "
        "its training samples."
    )
    if "external-group" in facts:
        text += (
            f" The group {facts['external-group']} takes no part: its samples are no client's, and "
            "all methods are tested on them (external test)."
        )
    figure = load_figure(
        sources.partition / "counts.svg",
        f"Bars: samples of each of the {len(rows)} clients, {sizes[0]} to {sizes[-1]} for "
        "training. Below, a heat map of training samples by class and client.",
        "Above: samples of each client. Below: training samples of each class (rows) that each "
        "client (columns) holds; the fuller the color, the more.",
    )
    return Section("data", "The data and who holds what", [text], [figure])


def _prior(means: Mapping[str, float | None]) -> Section:
    """How much of the gain the class prior explains, and which head a new site takes."""
    shared, prior, own = (means[head] for head in (GLOBAL, GLOBAL_PRIOR, PERSONALIZED))
    texts = []
    if shared is not None and prior is not None and own is not None:
        texts.append(
            f"The global head has {_percent(shared)} on clients' own test samples, with each "
            f"client's class prior added to its scores {_percent(prior)}, and the personalized "
            f"head {_percent(own)}. {_share_of_prior(shared, prior, own)} A client knows its prior "
            "exactly and need not send it."
        )
    texts.append(
        "A site that took no part should use the global head with its own class shares, where it "
        "knows them: “pfl predict --client new --prior FILE”. Personalized heads are made for one "
        "client's data; the external test, where a group takes no part, shows what they lose on "
        "others'."
    )
    return Section("prior", "The share of the class prior, and a new site", texts, [])


def _share_of_prior(shared: float, prior: float, own: float) -> str:
    """A sentence about what the prior explains of the gain of personalization."""
    gain = own - shared
    if gain <= 0 or prior >= own:
        return "The prior alone is as good as any personalized head."
    share = max(0.0, (prior - shared) / gain)
    return f"So the prior alone explains {share:.0%} of what personalization gains."


def _clients(
    sources: Sources, rows: Sequence[Mapping[str, str]], means: Mapping[str, float | None]
) -> Section:
    accuracies = ", ".join(f"{head} {_percent(mean)}" for head, mean in means.items())
    pairs = [against(rows, other) for other in (LOCAL, GLOBAL)]
    accuracy = load_figure(
        sources.fedhip / "accuracy.svg",
        f"Accuracy of each client's heads. Means: {accuracies}.",
        "How accuracy is distributed over the clients, for each kind of head.",
    )
    gain = load_figure(
        sources.fedhip / "gain.svg",
        " ".join(pairs),
        "The same in pairs: a point above the diagonal is a client that gains by "
        "personalization. Areas grow with the client's test samples.",
    )
    parts = (accuracy, gain, clients_table(rows))
    return Section("clients", "What each client gains", [" ".join(pairs)], parts)


def _rounds(sources: Sources, means: Mapping[str, float | None]) -> Section:
    level = _percent(means[PERSONALIZED])
    figure = load_figure(
        sources.comparison / "rounds.svg",
        "Left: mean local test of each trained method after each round, with FedHiP's "
        f"{level} as a horizontal line. Right: bytes sent so far.",
        "Accuracy and upload against rounds, mean over seeds. The closed form needs one round and "
        "no training of networks: a horizontal line.",
    )
    return Section("rounds", "Learning over the rounds", [], [figure])


def _probabilities(sources: Sources, path: Path, compared: Mapping[str, Any]) -> list[Section]:
    """How far probabilities can be believed; nothing where no method tells any."""
    drawn, measure = sources.comparison / "reliability.svg", BY_KEY[f"{LOCAL_TEST}:{ECE}"]
    if not drawn.exists():
        return []
    text = (
        "A model that is 80 % sure should be right in 80 % of the cases. NLL is what its "
        "probabilities of the true classes cost, ECE how far its confidence is from its accuracy; "
        "both are in the table of all methods. With few test samples a client's ECE is above 0 "
        "even if its probabilities are right: compare methods by it, and read the figure, in which "
        "all clients' samples are pooled."
    )
    told = {
        method: value
        for method in compared
        for mean, value in [mean_and_deviation(path, compared, method, measure)]
        if mean is not None
    }
    errors = "; ".join(f"{label(method)} {value} %" for method, value in told.items())
    figure = load_figure(
        drawn,
        f"Accuracy against confidence, a panel a method. Mean ECE over clients: {errors}.",
        "Each point is one of 15 bins of confidence, with a line to the diagonal, where confidence "
        "and accuracy are equal. Below it a model is too sure, above it too modest. Bars: share of "
        "the samples. The ECE above a panel is of all clients' samples pooled, over all seeds.",
    )
    return [Section("probabilities", "How far probabilities can be believed", [text], [figure])]


def _stack(sources: Sources) -> Section:
    figure = load_figure(
        sources.fedhip / "stack.svg",
        "One bar a client: the share of each family of heads in its personalized head.",
        "What each client's personalized head is the weighted sum of, by leave-one-out on its "
        "training samples.",
    )
    return Section("stack", "What personalized heads are made of", [], [figure])


def _repeat(sources: Sources) -> Section:
    text = (
        "With these parameters and versions “dvc repro” makes every artifact again, to the same "
        "bytes on the same kind of machine. “head -1 FILE” shows a file's SHA-256; dvc.lock has "
        "the hashes of all inputs and results."
    )
    parameters = Listing("Parameters", sources.parameters)
    parts = (parameters, versions_table(sources.artifacts), hashes_table(sources.artifacts))
    return Section("repeat", "To repeat this", [text], parts)


def _percent(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.1%}"
