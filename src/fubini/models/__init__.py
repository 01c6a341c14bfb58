"""Models as joint distributions: the contract, and the ways in which one is written."""
