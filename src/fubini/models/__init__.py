"""Models as joint distributions, and the questions to them."""
