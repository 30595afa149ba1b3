"""Shared by all tests: the folder on the path (for `twin`), a quiet cache, reproducible Hypothesis."""

import sys
from pathlib import Path

from hypothesis import settings

sys.path.insert(0, str(Path(__file__).parent))

# derandomize: the same examples on every machine and every day, so that a failure is a change in the code.
settings.register_profile("mixflow", deadline=None, derandomize=True, max_examples=25)
settings.load_profile("mixflow")
