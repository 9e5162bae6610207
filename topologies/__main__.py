"""Launch a fabric: `python -m topologies` (what `make run` calls)."""

from __future__ import annotations

import sys

from topologies.launch import main

if __name__ == "__main__":
    sys.exit(main())
