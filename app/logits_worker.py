"""Computes the logits of runs in a process of its own: `python -m frostbench.app.logits_worker REQUEST`.

REQUEST is JSON with `store`, `keys`, `cache` and `plugins`. What went wrong is the last line on the error stream.
"""

import json
import sys
from pathlib import Path


def main(text: str) -> int:
    """Compute and keep the logits of the runs that a request names; return the exit status."""
    from frostbench.benchmarks.decisions.computing import compute_logits

    request = json.loads(text)
    try:
        for key in request["keys"]:
            compute_logits(Path(request["store"]), key, Path(request["cache"]), request["plugins"])
    except (ValueError, OSError) as error:
        print(" ".join(str(error).split()), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
