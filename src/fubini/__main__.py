"""`python -m fubini` is the command line."""

import sys

from fubini.cli import main

sys.exit(main())
