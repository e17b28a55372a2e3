"""Sections and keys: which are unknown, missing or blank; and what is wrong with each value."""

from collections.abc import Callable, Collection, Iterator

from pfl.cli.parameters.document import Entry, Finding
from pfl.cli.parameters.judging import judged, must, shown
from pfl.cli.parameters.methods import head_findings, method_findings
from pfl.cli.parameters.names import unknown
from pfl.cli.parameters.pipeline import Pipeline

# Sections whose keys are the names of methods and heads: no flags, but read by the stage itself.
TABLES: dict[str, Callable[[str, Entry], Iterator[Finding]]] = {
    "train": method_findings,
    "heads": head_findings,
}


def section_findings(document: Entry, pipeline: Pipeline) -> Iterator[Finding]:
    """What is wrong in each section by itself."""
    over = {key.partition(".")[0] for key in pipeline.lists}
    known = [*dict.fromkeys([*pipeline.sections, *sorted(over), *TABLES])]
    yield from unknown("", document, known)
    for section in known:
        keys = _keys(pipeline, section)
        must = f"it must hold {', '.join(keys)}" if keys else "it must hold names with their values"
        entry = document.value.get(section)
        if entry is None:
            yield Finding(section, None, f"The section {section} is missing: {must}.")
        elif not entry.is_section:
            told = f"{section} is {shown(entry)}, but a section: {must}."
            yield Finding(section, entry.line, told)
        elif section in TABLES:
            yield from _table(section, entry)
        else:
            yield from _flags(section, entry, pipeline)


def _keys(pipeline: Pipeline, section: str) -> list[str]:
    """Names of the keys of a section, in the stages' order."""
    prefix = f"{section}."
    lists = [key.removeprefix(prefix) for key in pipeline.lists if key.startswith(prefix)]
    return [*dict.fromkeys([*pipeline.sections.get(section, ()), *lists])]


def _table(section: str, entry: Entry) -> Iterator[Finding]:
    for name, below in entry.value.items():
        yield from TABLES[section](name, below)


def _flags(section: str, entry: Entry, pipeline: Pipeline) -> Iterator[Finding]:
    """What is wrong in a section whose keys become flags."""
    flags, keys = pipeline.sections.get(section, {}), _keys(pipeline, section)
    given: dict[str, Entry] = {}
    yield from _flattened(section, entry, keys, "", given)
    for name in keys:
        key = f"{section}.{name}"
        over = pipeline.lists.get(key)
        flag = flags.get(name, over)
        if name in given and flag is not None:
            yield from judged(flag, given[name], over)
        elif flag is not None and not _above_is_wrong(name, given):
            kind = must(flag, several=flag.is_list or over is not None)
            yield Finding(key, entry.line, f"{key} is missing: {kind}")


def _above_is_wrong(name: str, given: Collection[str]) -> bool:
    """Whether the section in the section that should hold it is there, but is none."""
    return name.rpartition(".")[0] in given


def _flattened(
    section: str, entry: Entry, keys: Collection[str], prefix: str, given: dict[str, Entry]
) -> Iterator[Finding]:
    """Gather values by dotted names in ``given``; tell what is unknown, or should be a section."""
    here = dict.fromkeys(
        name.removeprefix(prefix).partition(".")[0] for name in keys if name.startswith(prefix)
    )
    full = f"{section}.{prefix}".rstrip(".")
    yield from unknown(full, entry, here)
    for name, below in entry.value.items():
        dotted = f"{prefix}{name}"
        within = [key.removeprefix(f"{dotted}.") for key in keys if key.startswith(f"{dotted}.")]
        if name not in here:
            continue
        if within and below.is_section:
            yield from _flattened(section, below, keys, f"{dotted}.", given)
            continue
        given[dotted] = below
        if within:
            told = f"{section}.{dotted} is {shown(below)}, but a section: it must hold"
            yield Finding(f"{section}.{dotted}", below.line, f"{told} {', '.join(within)}.")
