"""Message passing on factors, by their operations alone: junction trees, belief propagation, expectation propagation.

No file here names a representation: what multiplies, sums and divides goes through.
"""
