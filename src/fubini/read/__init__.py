"""Reading models: from JAX programs to index notation."""
