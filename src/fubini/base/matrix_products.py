"""Products of matrices keep the digits of their dtype: GPUs and TPUs round factors to a few bits unless told not to.

Without it the answers in single precision of a regression, a Gaussian or a chain would have three digits there.
`jax.config.update("jax_default_matmul_precision", …)`, before or after fubini is imported, decides otherwise.
"""

from typing import Any

import jax

config: Any = jax.config
if config.jax_default_matmul_precision is None:
    config.update("jax_default_matmul_precision", "highest")
