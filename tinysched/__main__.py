"""``python -m tinysched`` is the command line."""

import sys

from tinysched.cli import main

if __name__ == "__main__":
    sys.exit(main())
