"""Where the search for a head's settings begins, what it tries, and how it climbs.

Every setting has a *ladder*, its values in order. From where an entry begins, one setting after
another climbs while that makes the measure better, first down, then up; when all have, they climb
again, until a whole pass changes nothing. Then both neighbors of every setting have been measured
and are no better: the best is *inside*, but for settings at an end of their ladder and for
neighbors that the budget left out, which are told.
"""

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

FIRST_RATE, FIRST_HIDDEN = 0.03, 64
SIDES = (-1, 1)  # of a value on its ladder
OWN = "settings."  # before the name of a setting that the method alone has

Entry = dict[str, Any]  # of `heads` in params.yaml
Ladders = Mapping[str, Sequence[float]]
Measure = Callable[[Entry], float]

RATES = (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
WEIGHTS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
COUNTS = (1, 2, 3, 5, 10, 20, 50)
LADDERS: dict[str, Sequence[float]] = {
    "learning-rate": RATES,
    "hidden": (16, 64, 256, 1024),
    f"{OWN}learning-rate": RATES,
    f"{OWN}epochs": COUNTS,
    f"{OWN}head-epochs": COUNTS,
    f"{OWN}inner-steps": COUNTS,
    f"{OWN}mu": WEIGHTS,
    f"{OWN}attraction": WEIGHTS,
    f"{OWN}smoothing": WEIGHTS,
    f"{OWN}alpha": (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0),
}


def entry(method: str, hidden: int = 0, **settings: object) -> Entry:
    """Where the search for a head's settings begins."""
    named = {name.replace("_", "-"): value for name, value in settings.items()}
    return {"method": method, "hidden": hidden, "learning-rate": FIRST_RATE, "settings": named}


STARTS: dict[str, Entry] = {
    "fedavg": entry("fedavg"),
    "fedavg-prior": entry("fedavg-prior", smoothing=0.1),
    "local": entry("local"),
    "fedavg-ft": entry("fedavg-ft", epochs=5, learning_rate=0.01),
    "fedprox": entry("fedprox", mu=0.1),
    "ditto": entry("ditto", attraction=0.1),
    "apfl": entry("apfl", alpha=0.5, adaptive=True),
    "pfedme": entry("pfedme", attraction=1.0, inner_steps=3, learning_rate=0.3),
    "fedrod": entry("fedrod"),
    "local-mlp": entry("local", FIRST_HIDDEN),
    "fedavg-mlp": entry("fedavg", FIRST_HIDDEN),
    "fedavg-prior-mlp": entry("fedavg-prior", FIRST_HIDDEN, smoothing=0.1),
    "fedper": entry("fedper", FIRST_HIDDEN, private_layers=1),
    "lg-fed": entry("lg-fed", FIRST_HIDDEN, shared_layers=1, shared_end="top"),
    "fedrep": entry("fedrep", FIRST_HIDDEN, private_layers=1, head_epochs=1),
    "fedbabu": entry("fedbabu", FIRST_HIDDEN, head_layers=1, epochs=5, learning_rate=0.01),
    "fedrod-mlp": entry("fedrod", FIRST_HIDDEN),
}


def ladders_of(start: Entry) -> Ladders:
    """Those of the entry's settings, in the order in which they climb; a linear head stays so."""
    named = [*start, *(f"{OWN}{name}" for name in start["settings"])]
    return {
        name: steps
        for name, steps in LADDERS.items()
        if name in named and (name != "hidden" or start["hidden"])
    }


@dataclass(frozen=True)
class Found:
    """The outcome of a search.

    Attributes:
        entry: the best settings found.
        score: their measure.
        trainings: how many entries were measured.
        ends: settings that stand at an end of their ladder.
        unknown: settings of which a neighbor was not measured, the budget being spent.
    """

    entry: Entry
    score: float
    trainings: int
    ends: tuple[str, ...]
    unknown: tuple[str, ...]


def search(start: Entry, ladders: Ladders, measure: Measure, budget: int) -> Found:
    """Climb from ``start`` with at most ``budget`` measurements; a tie changes nothing."""
    values: dict[str, float] = {}

    def value(candidate: Entry) -> float | None:
        key = repr(candidate)
        if key not in values:
            if len(values) == budget:
                return None
            values[key] = measure(candidate)
        return values[key]

    best, before = deepcopy(start), None
    top = value(best) or 0.0
    while best != before:
        before = best
        for name, steps in ladders.items():
            for step in SIDES:
                while (candidate := _stepped(best, name, steps, step)) is not None:
                    found = value(candidate)
                    if found is None or found <= top:
                        break
                    best, top = candidate, found
    around = {name: _neighbors(best, name, steps) for name, steps in ladders.items()}
    ends = tuple(name for name, near in around.items() if len(near) < 2)
    unknown = (n for n, near in around.items() if any(repr(one) not in values for one in near))
    return Found(best, top, len(values), ends, tuple(unknown))


def _neighbors(of: Entry, name: str, steps: Sequence[float]) -> list[Entry]:
    both = (_stepped(of, name, steps, step) for step in SIDES)
    return [one for one in both if one is not None]


def _stepped(of: Entry, name: str, steps: Sequence[float], step: int) -> Entry | None:
    """The entry with the setting ``name`` one step up or down its ladder, if there is one."""
    own = name.removeprefix(OWN)
    holder = of["settings"] if own != name else of
    place = steps.index(holder[own]) + step
    if not 0 <= place < len(steps):
        return None
    changed = {**holder, own: steps[place]}
    return {**of, "settings": changed} if own != name else changed
