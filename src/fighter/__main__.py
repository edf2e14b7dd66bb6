"""``python -m fighter`` is the command ``fighter``."""

import sys

from .cli import main

sys.exit(main())
