"""Commands of the documents work as they stand, typed into a shell beside a finished pipeline."""

import shutil

import pytest

from tests.docs.kinds import COMMANDS, kind
from tests.docs.pages import ALL
from tests.docs.shell import commands, typed
from tests.docs.warm import programs
from tests.docs.workshop import furnish, provide
from tests.docs.workshop import typed as run

pytestmark = pytest.mark.slow


def fresh(found):
    """Blocks with a command that no block before them has: what has worked is not typed again."""
    seen = []
    for block in found:
        words = list(commands(block.text))
        if any(one not in seen for one in words):
            yield block
        seen += words


RUN = list(fresh(block for block in ALL if kind(block) == COMMANDS and not block.mark))


@pytest.fixture(scope="module")
def binaries(tmp_path_factory):
    with programs(tmp_path_factory.mktemp("warm")) as folder:
        yield folder


@pytest.fixture(scope="module")
def workshop(finished, binaries, tmp_path_factory):
    folder = tmp_path_factory.mktemp("workshop") / "project"
    shutil.copytree(finished, folder, symlinks=True)
    furnish(folder, binaries)
    return folder


@pytest.mark.parametrize("block", RUN, ids=lambda block: block.place)
def test_the_commands_of_a_block_work(block, workshop, binaries, tmp_path):
    folder = shutil.copytree(workshop, tmp_path / "project", symlinks=True)
    provide(folder, block.text)
    run(folder, binaries, typed(block.text))
