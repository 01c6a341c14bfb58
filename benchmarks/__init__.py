"""Ours and its peers side by side: `python -m benchmarks.NAME`, after `make bench`."""

import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")  # read when jax is first imported
