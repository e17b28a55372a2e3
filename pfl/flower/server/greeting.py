"""Whether what clients have goes together; the first step of every run."""

from collections import Counter
from collections.abc import Mapping

from flwr.app import RecordDict

from pfl.errors import InputError
from pfl.flower.messages.hello import Hello, parse_hello
from pfl.flower.server.exchange import Exchange


def greet(
    net: Exchange, request: Mapping[int, RecordDict], kind: str, wanted: str
) -> dict[int, Hello]:
    """Ask every node who it is; returns those that go together, by node.

    All must have the fingerprint ``wanted``; where that is empty, that of most, of equally many
    that of the client with the lowest number. ``net`` learns the clients' numbers and, the first
    time, the classes.

    Raises:
        InputError: somebody failed and the run is to stop then.
    """
    hellos = dict(net.ask(request, kind, parse_hello))
    net.names |= {node: hello.client for node, hello in hellos.items()}
    known: dict[int, int] = {}
    for node, hello in sorted(hellos.items(), key=lambda item: (item[1].client, item[0])):
        if known.setdefault(hello.client, node) != node:
            net.fault(node, f"another node is client {hello.client} too; give it its own number")
            del hellos[node]
    return _of_the_classes(net, _alike(net, hellos, wanted))


def _of_the_classes(net: Exchange, hellos: dict[int, Hello]) -> dict[int, Hello]:
    """Those whose classes are among the run's: all that are known, if none are fixed yet."""
    lists = {hello.classes for hello in hellos.values()}
    if not net.classes:  # One list for all stays as it is, or else names are sorted.
        net.classes = lists.pop() if len(lists) == 1 else tuple(sorted(set().union(*lists)))
    for node, hello in list(hellos.items()):
        new = sorted(set(hello.classes) - set(net.classes))
        if new:
            net.fault(node, f"it has classes that this sum does not have ({', '.join(new)})")
            del hellos[node]
    return hellos


def _alike(net: Exchange, hellos: dict[int, Hello], wanted: str) -> dict[int, Hello]:
    """Those with the fingerprint that is wanted."""
    ordered = sorted(hellos.items(), key=lambda item: item[1].client)
    votes = Counter(hello.fingerprint for _, hello in ordered)
    fingerprint = wanted or max(votes, key=lambda name: votes[name], default="")
    models = [hello for _, hello in ordered if hello.fingerprint == fingerprint]
    for node, hello in ordered:
        if hello.fingerprint != fingerprint:
            net.fault(node, _difference(hello, models[0] if models else None, fingerprint))
            del hellos[node]
    return hellos


def first_of(hellos: Mapping[int, Hello]) -> Hello:
    """The greeting of a client with the same recipe as all.

    Raises:
        InputError: nobody has greeted.
    """
    if not hellos:
        raise InputError("No client is left: mend what the faults above tell, and run again.")
    return next(iter(hellos.values()))


def _difference(hello: Hello, model: Hello | None, expected: str) -> str:
    """In what a client differs from the others."""
    what = f"the fingerprint of its data is {hello.fingerprint}, not {expected}"
    if model is None:
        return what
    names = [name for name in model.recipe if hello.recipe.get(name) != model.recipe[name]]
    differences = "; ".join(
        f"its {name} is {hello.recipe.get(name)!r}, not {model.recipe[name]!r}" for name in names
    )
    return f"{what}: {differences}"
