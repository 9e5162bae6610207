"""Run the command line as a module: `python -m p4switch`."""

import sys

from p4switch.cli import main

if __name__ == "__main__":
    sys.exit(main())
