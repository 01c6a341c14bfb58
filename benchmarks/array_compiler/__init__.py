"""The five benchmarks of the array compiler: collapsed samplers and exact posteriors, beside hand-written ones."""
