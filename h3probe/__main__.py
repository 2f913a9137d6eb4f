"""`python -m h3probe`."""

import sys

from h3probe.cli import main

if __name__ == "__main__":
    sys.exit(main())
