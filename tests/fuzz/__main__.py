"""Run cases by seed: `python -m tests.fuzz FIRST LAST [--log sqlite] [--folder FOLDER]`.

Prints one line for each kind of failure and how often it came. With a folder, the smallest case of each is written
there: `--case FILE` runs one again, and in `cases/` it is a regression test. Exits with 1 where a case failed.
"""

import argparse
import sys
import tempfile
import time
import warnings
from collections import Counter
from pathlib import Path

from tests.fuzz.case import read, written
from tests.fuzz.databases import KINDS, Fresh, databases
from tests.fuzz.generator import OBJECTS, generated
from tests.fuzz.running import failure_of, message_of, smallest
from tests.fuzz.shrink import TRIES_MAX


def main() -> None:
    """Run the seeds that are asked for."""
    warnings.simplefilter("error")  # As in the tests.
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("first", type=int, nargs="?", default=0)
    parser.add_argument("last", type=int, nargs="?", default=0, help="the first seed not run")
    parser.add_argument("--log", choices=KINDS, default="memory")
    parser.add_argument("--objects", type=int, default=OBJECTS, help="of each case")
    parser.add_argument("--folder", type=Path, help="where smaller cases are written")
    parser.add_argument("--case", type=Path, help="run this case instead")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, databases(options.log, Path(folder)) as fresh:
        if options.case:
            case = read(options.case.read_text())
            print(failure_of(case, fresh) or "passed", message_of(case, fresh))
        else:
            seeds = range(options.first, options.last)
            sys.exit(_run(seeds, options.objects, fresh, options.folder))


def _run(seeds: range, objects: int, fresh: Fresh, folder: Path | None) -> int:
    found: Counter[str] = Counter()
    began, done = time.process_time(), 0
    for seed in seeds:
        case = generated(seed, objects)
        done += case.objects
        failure = failure_of(case, fresh)
        found[failure] += 1
        if not failure or found[failure] > 1:
            continue
        print(f"seed {seed}: {failure}: {message_of(case, fresh)}", flush=True)
        if folder is not None:
            folder.mkdir(exist_ok=True)
            name = "".join(one if one.isalnum() else "-" for one in failure)
            small = smallest(case, failure, fresh, TRIES_MAX)
            (folder / f"{name}.json").write_text(written(small))
    for failure, count in found.most_common():
        print(f"{count:6} {failure or 'passed'}")
    print(f"{done} objects in {time.process_time() - began:.1f} s of CPU time", flush=True)
    return int(set(found) != {""})


if __name__ == "__main__":
    main()
