"""`python -m pulsed`."""

import sys

from pulsed.cli import main

sys.exit(main())
