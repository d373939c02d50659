"""`python -m imitate` is the `imitate` command."""

import sys

from imitate.cli import main

if __name__ == "__main__":
    sys.exit(main())
