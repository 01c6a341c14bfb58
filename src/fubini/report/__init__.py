"""The report: a model, how it was integrated, and its posterior, as one HTML file that needs nothing else."""
