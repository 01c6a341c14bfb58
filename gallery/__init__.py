"""The gallery: one file a model, of which pages and notebooks are made (`python -m gallery`)."""
