"""`python -m chroma_repair`."""

import sys

from chroma_repair.command import main

sys.exit(main())
