"""`python -m ptf_tests.conformance`."""

import sys

from ptf_tests.conformance.run import main

if __name__ == "__main__":
    sys.exit(main())
