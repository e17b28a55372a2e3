"""Shape and type annotations of the library are checked while the tests run."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import hypothesis
import pytest
from jaxtyping import install_import_hook

from tests.workspace import command, copy_project

# Installed for the whole session on purpose: the hook stays until the process ends.
install_import_hook("pfl", "beartype.beartype")

# No deadline: the machines that run the tests are often busy, and a slow example is not a fault.
# Continuous integration tries the same examples each time, so that its verdict is about the change;
# elsewhere they are new ones each time, and a failure is printed with what reproduces it.
hypothesis.settings.register_profile("pfl", deadline=None)
hypothesis.settings.register_profile("pfl-ci", deadline=None, derandomize=True)
hypothesis.settings.load_profile("pfl-ci" if os.environ.get("CI") else "pfl")


@pytest.fixture(scope="session")
def finished(tmp_path_factory):
    """A copy of the project in which `dvc repro` ran once, for tests that only look."""
    folder = tmp_path_factory.mktemp("finished") / "project"
    folder.mkdir()
    copy_project(folder)
    command(folder, "dvc", "repro")
    return folder


@pytest.fixture(scope="session")
def tiny(tmp_path_factory):
    """All artifacts of a tiny pipeline, for tests that only look; see tests/tiny.py."""
    from tests.tiny import pipeline  # After the import hook: it imports the library.

    return pipeline(tmp_path_factory.mktemp("tiny") / "project")
