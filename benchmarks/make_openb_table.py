"""Make `simulator/openb_counts.json` again from the published files of the openb trace.

python -m benchmarks.make_openb_table NODES.csv PODS.csv > simulator/openb_counts.json
"""

import sys
from pathlib import Path

from simulator.openb_table import count_trace, write_table
from simulator.openb_trace import TraceText


def main() -> None:
    """Read the two files named, write the table."""
    nodes, pods = (TraceText(name, Path(name).read_text(encoding="utf-8")) for name in sys.argv[1:])
    sys.stdout.buffer.write(write_table(count_trace(nodes, pods)))


if __name__ == "__main__":
    main()
