"""`python -m providers.cli`: the command line, without its script on PATH."""

import sys

from providers.cli.main import main

sys.exit(main())
