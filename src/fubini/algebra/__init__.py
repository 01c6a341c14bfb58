"""Index notation: scalar expressions in index variables and the entries of arrays."""
