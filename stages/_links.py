"""What `make repro` asks before anything runs: whether DVC can keep results where they lie."""

from pathlib import Path

from pfl.errors import InputError
from pfl.runtime.outside import refuse_links

RESULTS = (Path("data"), Path("reports"), Path("runs"))

if __name__ == "__main__":
    try:
        refuse_links(Path(), RESULTS)
    except InputError as error:
        raise SystemExit(f"Error: {error}") from error
