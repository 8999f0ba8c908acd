"""Runs scripts of this folder as lines say, in one process and one JVM: to start one takes seconds.

serve.py JARS   each line is a list in JSON: the name of a script, and its arguments behind JARS.
                What the script prints ends with a line null
"""

import json
import sys
from importlib import import_module


def main(jars: str) -> None:
    """Serve until the input ends, or a script fails."""
    for line in sys.stdin:
        name, *arguments = json.loads(line)
        import_module(f"tests.peers.{name}").main([jars, *arguments])
        print("null", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
