"""All that is wrong in a project's ``params.yaml``, by its lines; and what will run."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pfl.cli.parameters.across import refusals
from pfl.cli.parameters.document import Entry, Finding, read_document
from pfl.cli.parameters.pipeline import read_pipeline
from pfl.cli.parameters.sections import section_findings

PARAMETERS, PIPELINE = "params.yaml", "dvc.yaml"


@dataclass(frozen=True)
class Checked:
    """The findings, in the order of their lines, and the values of the file."""

    findings: tuple[Finding, ...]
    values: Mapping[str, Any]

    @property
    def runs(self) -> dict[str, Any]:
        """What `dvc repro` makes of parameters without findings."""
        compare, prepare = self.values["compare"], self.values["prepare"]
        return {
            "dataset": prepare["dataset"],
            "clients": self.values["partition"]["clients"],
            "scheme": self.values["partition"]["scheme"],
            "methods": compare["methods"],
            "heads": compare["heads"],
            "seeds": compare["seeds"],
        }


def check_parameters(root: Path) -> Checked:
    """Check the parameters of the project in a folder, all of them whatever is wrong.

    Raises:
        InputError: its ``params.yaml`` is no YAML, or its ``dvc.yaml`` no pipeline.
    """
    document, findings = read_document(root / PARAMETERS)
    findings += section_findings(document, read_pipeline(root / PIPELINE))
    keys = {finding.key for finding in findings}

    def wrong(name: str) -> bool:
        """Whether something is wrong with a key, in it, or with what it is in."""
        below = any(key == name or key.startswith(f"{name}.") for key in keys)
        return below or any(name.startswith(f"{key}.") for key in keys)

    values = document.plain
    for key, told in refusals(values, root, wrong):
        findings.append(Finding(key, _line(document, key), told))
    ordered = sorted(findings, key=lambda finding: (finding.line or 0, finding.key))
    return Checked(tuple(ordered), values)


def _line(document: Entry, key: str) -> int | None:
    """The line of a key."""
    entry = document
    for name in key.split("."):
        if not entry.is_section or name not in entry.value:
            return None
        entry = entry.value[name]
    return entry.line
