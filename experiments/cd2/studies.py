"""Studies of CD2-pFed's open questions: what is tried, on which data, against which controls.

Settings with a ``group`` leave a tenth of each client's training samples out, with seed 0; the one
of a group that is right there most often is then played with all samples, by all seeds, on the
partitions of two seeds (:func:`confirmed`). Nothing is chosen by test samples.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from experiments.cd2.data import EXTERNAL, Data
from experiments.cd2.readings import OF_ALL, OF_CD2
from experiments.studies import CD2, CIFAR10, Setting

FIVE = (CD2, "local", "fedavg", "fedper", "lg-fed")
OTHERS = (
    "fedrep", "fedavg-ft", "fedprox", "ditto", "apfl", "pfedme", "fedbabu", "fedavg-prior",
    "fedrod",
)  # fmt: skip
HELD_OUT, CONFIRMED_ON = "validation-fraction", (0, 1)  # partition seeds
FALLING = {"learning-rate-decay": 0.94}  # over 50 rounds to a twentieth
AT_ONCE: dict[str, object] = {"increase": False, "cross": "output"}  # chosen before
BOTTOM: dict[str, object] = {"shared-end": "bottom"}
TUNED = {"epochs": 1, "learning-rate": 0.01}  # of fine-tuning, as the rounds have it
OWN: dict[str, Mapping[str, object]] = {"fedavg-ft": TUNED, "fedbabu": TUNED}
HUNDRED = {
    "fraction": 0.1, "batch-size": 50, "learning-rate": 0.1, "momentum": 0.5, "nesterov": False,
    "weight-decay": 0.0, "evaluate-every": 100,
}  # fmt: skip
ALBUMS = 4


def compared(group: str, settings: Iterable[Setting]) -> Iterator[Setting]:
    """Candidates on held-out samples; so is what they begin from."""
    for one in settings:
        begin = one.begin and _held_out(one.begin)
        yield replace(_held_out(one), group=group, begin=begin)


def _held_out(one: Setting) -> Setting:
    return replace(one, rounds={**one.rounds, HELD_OUT: 0.1}, seeds=(0,))


def confirmed(settings: Iterable[Setting], rows: Sequence[Mapping[str, str]]) -> Iterator[Setting]:
    """The best of each group whose candidates all have lines, for all seeds and two partitions."""
    found = {
        row["setting"]: float(row["validation"])
        for row in rows
        if row["validation"] and row["seed"] == "0"
    }
    groups: dict[str, list[Setting]] = {}
    for one in settings:
        if one.group:
            groups.setdefault(one.group, []).append(one)
    for group, candidates in groups.items():
        if all(one.name in found for one in candidates):
            best = max(candidates, key=lambda one: found[one.name])
            for partition in CONFIRMED_ON:
                name = f"{group}/confirmed/partition-{partition}"
                begin = best.begin and _whole(best.begin, best.begin.name, partition)
                yield replace(_whole(best, name, partition), begin=begin)


def _whole(one: Setting, name: str, partition: int) -> Setting:
    rounds = {key: value for key, value in one.rounds.items() if key != HELD_OUT}
    name = name if "partition-" in name else f"{name}/all/partition-{partition}"
    return replace(one, name=name, rounds=rounds, partition=partition, seeds=(), group="")


def _ta_li_off() -> Iterator[Setting]:
    """TA and LI off, falling rate; local training with the same rate is the control."""
    tried = [
        Setting(
            f"ta-li-off/{ratio}-{cross}-{'cd' if distill else 'plain'}", CD2,
            {"increase": False, "average": False, "ratio": ratio, "cross": cross,
             "distill": distill}, FALLING,
        )
        for ratio in (0.5, 0.75)
        for cross in ("both-shared", "output")
        for distill in (True, False)
    ]  # fmt: skip
    yield from compared("ta-li-off", tried)
    yield from compared("ta-li-off-local", [Setting("ta-li-off/local", "local", {}, FALLING)])


def _trained() -> Iterator[Setting]:
    """Models as just trained, each round, so that both tests have means over the last ten."""
    values: dict[str, object] = {"evaluate-every": 1, "test": "trained"}
    for method in (*FIVE, *OTHERS):
        seeds = () if method in (*FIVE, "fedrep") else (0,)
        yield Setting(f"trained/{method}", method, OWN.get(method, {}), values, seeds=seeds)


def _warm() -> Iterator[Setting]:
    """From 200 rounds of FedAvg; fine-tuned FedAvg and local training are the controls."""
    begin = Setting("warm/fedavg-200", "fedavg", {}, {"rounds": 200, "evaluate-every": 50})
    tried: dict[str, tuple[str, Mapping[str, object]]] = {
        CD2: (CD2, {}), "cd2-at-once": (CD2, AT_ONCE), "lg-fed": ("lg-fed", {}),
        "lg-fed-bottom": ("lg-fed", BOTTOM), "fedper": ("fedper", {}), "local": ("local", {}),
        "fedrep": ("fedrep", {}), "fedavg-ft": ("fedavg-ft", TUNED),
    }  # fmt: skip
    for name, (method, own) in tried.items():
        constant = Setting(f"warm/{name}", method, own, {}, begin=begin)
        falling = replace(constant, name=f"warm/{name}-falling", rounds=FALLING)
        yield from compared(f"warm/{name}", [constant, falling])


def _warm_100() -> Iterator[Setting]:
    """LG-FedAvg's protocol: 1,200 rounds of FedAvg and then 200, ten of a hundred clients each."""
    begin = Setting("warm-100/fedavg-1200", "fedavg", {}, {**HUNDRED, "rounds": 1200}, clients=100)
    once = Setting("", "", {}, {**HUNDRED, "rounds": 200}, clients=100, begin=begin, seeds=(0,))
    tuned = {"epochs": 1, "learning-rate": 0.1}
    for name, (method, own) in {
        "lg-fed-bottom": ("lg-fed", BOTTOM), "lg-fed": ("lg-fed", {}), CD2: (CD2, {}),
        "cd2-at-once": (CD2, AT_ONCE), "fedper": ("fedper", {}), "local": ("local", {}),
        "fedavg-ft": ("fedavg-ft", tuned),
    }.items():  # fmt: skip
        yield replace(once, name=f"warm-100/{name}", method=method, own=own)


def _long_200() -> Iterator[Setting]:
    """T = 200, the fall of the learning rate tuned for both sides."""
    sides = {"local": ("local", {}), CD2: (CD2, {}), "cd2-at-once": (CD2, AT_ONCE)}
    for name, (method, own) in sides.items():
        tried = [
            Setting(
                f"long-200/{name}-{fall}", method, own,
                {"rounds": 200, "learning-rate-decay": fall, "evaluate-every": 50},
            )
            for fall in (1.0, 0.995, 0.99, 0.985, 0.98)
        ]  # fmt: skip
        yield from compared(f"long-200/{name}", tried)


def _readings() -> Iterator[Setting]:
    """Each reading once, everything else as the paper has it; shards are a study of their own."""
    tried = [Setting("readings/paper", CD2)]
    tried += [Setting(f"readings/{name}", CD2, reading=name) for name in (*OF_CD2, *OF_ALL)]
    tried += [
        Setting(f"readings/cross-{cross}", CD2, {"cross": cross}) for cross in ("input", "either")
    ]
    yield from compared("readings", tried)
    kept = Setting("readings/local-kept-momentum", "local", reading="kept-momentum")
    yield from compared("readings-local", [Setting("readings/local", "local"), kept])
    shards = replace(CIFAR10, shards=2)
    for method in FIVE:
        yield Setting(f"readings/shards/{method}", method, data=shards, seeds=(0,))


def _diagnostic() -> Iterator[Setting]:
    """Tests in each round: how much the best round by test samples would promise."""
    for method in FIVE:
        yield Setting(f"diagnostic/{method}", method, {}, {"evaluate-every": 1}, seeds=(0,))


def _classes() -> Iterator[Setting]:
    for classes in (2, 3, 4, 5, 8, 10):
        partition = {**CIFAR10.partition, "classes-per-client": classes}
        for method in FIVE:
            seeds = () if method in (CD2, "local") else (0,)
            data = replace(CIFAR10, partition=partition)
            yield Setting(f"s/{classes}/{method}", method, data=data, seeds=seeds)


def _cifar100() -> Iterator[Setting]:
    """A folder of images; the whole protocol is `experiments.cd2.pieces`."""
    partition = {"scheme": "pathological", "classes-per-client": 40}
    data = Data("cifar100", {"dataset": "folder"}, partition)
    for network in ("lenet5", "resnet20"):
        values = {"network": network, "image-size": 32, "rounds": 20}
        for method in FIVE:
            name = f"cifar100/{network}/{method}"
            yield Setting(name, method, {}, values, clients=30, data=data, seeds=(0,))


def _ratings() -> Iterator[Setting]:
    """Thirty users are clients, and others' albums are external, each with a run of its own."""
    own = {CD2: {"ratio": 0.8}}
    for album in range(ALBUMS):
        partition = {"scheme": "natural", EXTERNAL: f"user {album:03d}"}
        data = Data("cifar10", {"dataset": "ratings"}, partition, raters=31)
        for method in FIVE:
            values = {"batch-size": 4, "rounds": 20}
            name = f"ratings/album-{album}/{method}"
            yield Setting(
                name, method, own.get(method, {}), values, clients=30, data=data, seeds=(0,)
            )


def _histo() -> Iterator[Setting]:
    """Three made centres and an external one; shortcuts without parameters, as the paper's."""
    prepare = {"dataset": "folder", "differ": "stain", "sites": 4}
    data = Data("histology", prepare, {"scheme": "natural", EXTERNAL: "site 3"})
    values = {"network": "resnet32a", "image-size": 32, "batch-size": 4, "epochs": 4}
    for method in FIVE:
        yield Setting(f"histo/{method}", method, {}, values, clients=3, data=data, seeds=(0,))


CD2_STUDIES = {
    "ta-li-off": _ta_li_off, "trained": _trained, "warm": _warm, "warm-100": _warm_100,
    "long-200": _long_200, "readings": _readings, "diagnostic": _diagnostic, "s": _classes,
    "cifar100": _cifar100, "ratings": _ratings, "histo": _histo,
}  # fmt: skip
