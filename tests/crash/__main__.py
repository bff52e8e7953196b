"""`python -m tests.crash`: see `matrix`."""

import sys

from tests.crash.matrix import main

if __name__ == "__main__":
    sys.exit(main())
