"""Products of matrices in single precision keep its digits on every device, unless the user says otherwise."""

import os
import re
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np

import fubini as fb

ASK = [sys.executable, "-c", "import fubini, jax; print(jax.config.jax_default_matmul_precision)"]


@fb.model
def regression(X):
    w = yield fb.dist.Normal(0.0, 1.0).expand([X.shape[1]]).named("w")
    yield fb.dist.Normal(X @ w, 1.0).named("y")


def test_every_product_of_a_compiled_question_is_in_full_precision() -> None:
    X, y = jnp.ones((40, 5), jnp.float32), jnp.ones(40, jnp.float32)
    ask = jax.jit(lambda X, y: regression(X).condition(y=y).log_prob(w=jnp.ones(5, jnp.float32)))
    products = re.findall(r"dot_general .*", ask.lower(X, y).as_text())
    assert products and all("HIGHEST" in product for product in products)


def test_a_choice_of_the_user_is_kept() -> None:
    environment = {**os.environ, "JAX_DEFAULT_MATMUL_PRECISION": "tensorfloat32"}
    answer = subprocess.run(ASK, env=environment, capture_output=True, text=True, check=True)
    assert answer.stdout.split() == ["tensorfloat32"]
    with jax.default_matmul_precision("bfloat16"):
        text = jax.jit(lambda a: a @ a).lower(np.ones((4, 4), np.float32)).as_text()
    assert "HIGHEST" not in text
