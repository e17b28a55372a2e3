"""Five ways to spread training samples over clients.

Every scheme returns ``owner``, the client 0 … K-1 of each sample: each sample has exactly one
client and each client at least ``minimum`` samples. None draws again until it fits; what cannot be
met is refused with an :class:`~pfl.errors.InputError` that says what to change.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float, Int

from pfl.data.partition.apportion import apportion, assign
from pfl.data.partition.min_samples import reroute, top_up
from pfl.errors import InputError

RESOLUTION = float(2**32)
CONCENTRATIONS = (1e-6, 1e9)


def iid(
    samples: int, clients: int, minimum: int, rng: np.random.Generator
) -> Int[np.ndarray, " {samples}"]:
    """Deal a shuffled pack: every client is a random sample, sizes differ by at most one."""
    _check_room(samples, clients, minimum)
    return rng.permutation(np.arange(samples) % clients)


def quantity(
    samples: int, clients: int, concentration: float, minimum: int, rng: np.random.Generator
) -> Int[np.ndarray, " {samples}"]:
    """Sizes by a Dirichlet, labels IID [Li et al. 2022, "quantity skew"].

    p ~ Dir(concentration · 1_K) and N_k = minimum + (N - K·minimum) · p_k, rounded to whole
    numbers; small concentrations make few large clients and many of the minimum size.
    """
    _check_room(samples, clients, minimum)
    weights = _whole(_shares(clients, concentration, 1, rng)[0])
    sizes = minimum + apportion(samples - clients * minimum, weights, rng)
    return rng.permutation(np.repeat(np.arange(clients), sizes))


def dirichlet(
    label: Int[np.ndarray, " n"],
    clients: int,
    concentration: float,
    minimum: int,
    rng: np.random.Generator,
) -> Int[np.ndarray, " n"]:
    """Spread each class by its own Dirichlet [Yurochkin et al. 2019].

    For each class c with n_c samples, p_c ~ Dir(concentration · 1_K), and client k gets n_c · p_ck
    of them, rounded to whole numbers. Clients below the minimum then take samples of the classes
    they have the largest n_c · p_ck of from the largest clients
    (:func:`pfl.data.partition.min_samples.top_up`).
    """
    _check_room(len(label), clients, minimum)
    size = np.bincount(label)
    share = _shares(clients, concentration, len(size), rng)
    columns = [apportion(int(n), _whole(p), rng) for n, p in zip(size, share, strict=True)]
    count = np.stack(columns, axis=1)
    everything = np.ones(count.shape, bool)
    return assign(label, top_up(count, size * share.T, everything, minimum, rng), rng)


def pathological(
    label: Int[np.ndarray, " n"],
    clients: int,
    classes_per_client: int,
    minimum: int,
    rng: np.random.Generator,
) -> Int[np.ndarray, " n"]:
    """Give each client at most s classes [after McMahan et al. 2017].

    One client after another takes the s classes that the fewest have taken so far (ties at
    random), so numbers of holders differ by at most one; then each class is split evenly among its
    holders. Clients below the minimum take more of their own classes from the largest clients, if
    need be through chains of clients.
    """
    _check_room(len(label), clients, minimum)
    present, label = np.unique(label, return_inverse=True)
    holds = _choose_classes(clients, len(present), classes_per_client, rng)
    even = [
        apportion(int(n), column.astype(np.int64), rng)
        for n, column in zip(np.bincount(label), holds.T, strict=True)
    ]
    count = np.stack(even, axis=1)
    count = top_up(count, count.astype(float), holds, minimum, rng)
    settled = reroute(count, holds, minimum)
    if settled is None:
        raise _too_small(np.bincount(label), clients, classes_per_client, minimum)
    return assign(label, settled, rng)


def natural(
    group: Int[np.ndarray, " n"],
    names: Sequence[str],
    clients: int,
    minimum: int,
    rng: np.random.Generator,
) -> Int[np.ndarray, " n"]:
    """Make clients of natural groups (domains, sites, persons).

    With K = r·G clients for G groups, group g is split IID among clients g·r … g·r + r - 1.
    """
    each = clients_per_group(clients, len(names))
    owner = np.empty(len(group), np.int64)
    for g, name in enumerate(names):
        members = np.flatnonzero(group == g)
        _check_group(name, len(members), each, minimum)
        owner[members] = g * each + iid(len(members), each, minimum, rng)
    return owner


def clients_per_group(clients: int, groups: int) -> int:
    """Return r of K = r·G.

    Raises:
        InputError: the data have one group only, or K is no multiple of their number.
    """
    if groups < 2:
        raise InputError(
            "The scheme 'natural' needs data with groups, and the clients' samples form a single "
            "one: choose another scheme, or data whose folders or arrays name the groups."
        )
    if clients % groups:
        raise InputError(
            f"The scheme 'natural' needs a multiple of {groups} clients because the clients' "
            f"samples form {groups} groups: set clients to "
            f"{groups * max(1, round(clients / groups))} instead of {clients}."
        )
    return clients // groups


def _too_small(
    size: Int[np.ndarray, " classes"], clients: int, each: int, minimum: int
) -> InputError:
    remedies = ["lower min-samples" if minimum > 1 else "", "lower clients"]
    remedies += ["raise classes-per-client" if each < len(size) else ""]
    remedies += ["try another seed" if _seed_matters(size, clients, each, minimum) else ""]
    return InputError(
        f"The classes drawn for the clients are too small for min-samples {minimum}: "
        f"{', or '.join(filter(None, remedies))}."
    )


def _seed_matters(size: Int[np.ndarray, " classes"], clients: int, each: int, minimum: int) -> bool:
    r"""Whether some draw of classes may give every client its minimum.

    Of K·s holders in all, r = K·s mod d classes have h = ⌊K·s/d⌋ + 1, the others h - 1, and a draw
    decides which. h holders need at most h·minimum of a class, so that it meets
    min(n_c, h·minimum) of all needs. If the best choice of r classes leaves needs open, every
    draw does (for s = 1 also the other way round).
    """
    holders, more = divmod(clients * each, len(size))
    met = np.minimum(size, holders * minimum)
    gain = np.sort(np.minimum(size, (holders + 1) * minimum) - met)[::-1]
    return bool(met.sum() + gain[:more].sum() >= clients * minimum)


def _choose_classes(
    clients: int, classes: int, each: int, rng: np.random.Generator
) -> Bool[np.ndarray, "{clients} {classes}"]:
    if each > classes:
        raise InputError(
            f"classes-per-client is {each}, but the training samples have {classes} classes: "
            f"set it to {classes} or less."
        )
    if clients * each < classes:
        raise InputError(
            f"{clients} clients with at most {each} classes each cannot hold all {classes} "
            f"classes: raise classes-per-client to {-(-classes // clients)} or clients to "
            f"{-(-classes // each)}."
        )
    holds = np.zeros((clients, classes), bool)
    used = np.zeros(classes, np.int64)
    for client in range(clients):
        chosen = np.lexsort((rng.random(classes), used))[:each]
        holds[client, chosen] = True
        used[chosen] += 1
    return holds


def _shares(
    clients: int, concentration: float, draws: int, rng: np.random.Generator
) -> Float[np.ndarray, "{draws} {clients}"]:
    """Draws from Dir(concentration · 1_K)."""
    low, high = CONCENTRATIONS
    if not low <= concentration <= high:
        raise InputError(
            f"concentration is {concentration:g}: set it to a number between {low:g} and {high:g}."
        )
    return rng.dirichlet(np.full(clients, concentration), size=draws)


def _whole(share: Float[np.ndarray, " clients"]) -> Int[np.ndarray, " clients"]:
    """Shares as whole-number weights, exact to 2⁻³³."""
    return np.rint(share * RESOLUTION).astype(np.int64)


def _check_room(samples: int, clients: int, minimum: int) -> None:
    if clients * minimum <= samples:
        return
    remedy = f"make clients times min-samples at most {samples}"
    if samples >= clients:
        remedy += f", for instance with min-samples {samples // clients}"
    raise InputError(
        f"{clients} clients with min-samples {minimum} need {clients * minimum} training "
        f"samples, but the data have {samples}: {remedy}."
    )


def _check_group(name: str, samples: int, clients: int, minimum: int) -> None:
    if clients * minimum <= samples:
        return
    if samples == 0:
        remedy = "its samples are all test samples; give it training samples"
    elif samples < clients:
        remedy = f"lower clients until each group has at most {samples}"
    else:
        remedy = f"lower min-samples to {samples // clients}, or clients"
    raise InputError(
        f"The group '{name}' has {samples} training samples, but with min-samples {minimum} "
        f"it needs {clients * minimum} for its {clients} clients: {remedy}, or leave the group "
        "out of the data."
    )
