"""Models of many kinds, each with its data, the same for NumPyro, and inputs at which it predicts."""
