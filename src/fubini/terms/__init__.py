"""Terms: Values in index notation, and Factors."""
