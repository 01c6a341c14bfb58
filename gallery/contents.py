"""The models of the gallery, in the order of its pages."""

from pathlib import Path

FOLDER = Path(__file__).parent
PAGES = FOLDER.parent / "docs" / "gallery"

CONTENTS = {
    "Hierarchies": ("eight_schools", "pumps", "hospitals", "radon"),
    "Regression": ("regression", "polynomials", "robust_regression", "challenger"),
    "Labels and mixtures": ("mixture", "documents", "topics", "clinical_trial"),
    "Time": ("coal", "earthquakes", "nile", "switching", "seals", "biased_sensors", "quadrants"),
    "Graphs": ("asia", "denoising", "clutter", "sushi"),
}
NAMES = tuple(name for names in CONTENTS.values() for name in names)
