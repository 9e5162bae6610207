"""`python -m wireshark`: install the dissector; see `make wireshark`."""

import sys

from wireshark.install import main

sys.exit(main())
