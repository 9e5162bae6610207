"""`python -m endpoint`: see endpoint.traffic.cli."""

import sys

from endpoint.traffic.cli import main

sys.exit(main())
