"""Model and data files as a user writes them."""

from pathlib import Path

import numpy as np
import pytest

REGRESSION = """
import fubini as fb
from fubini import dist


@fb.model
def regression(dose, site, n_site):
    level = yield dist.Normal(0.0, 3.0).expand([n_site])
    slope = yield dist.Normal(0.0, 2.0)
    response = yield dist.Normal(level[site] + slope * dose, 0.5)
"""
LEVEL = """
import fubini as fb
from fubini import dist


@fb.model
def level(dose):
    mean = yield dist.Normal(0.0, 3.0)
    response = yield dist.Normal(mean + 0.0 * dose, 0.5)
"""
ROWS = 40


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a model, its rival and data, as the working directory."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "regression.py").write_text(REGRESSION)
    (tmp_path / "level.py").write_text(LEVEL)
    random = np.random.default_rng(1)
    dose, site = random.uniform(0.0, 2.0, ROWS), random.choice(["north", "south", "west"], ROWS)
    response = dose + np.select([site == "north", site == "south"], [1.0, -1.0], 0.0) + 0.5 * random.normal(size=ROWS)
    lines = [f"{d},{s},{r},{k}" for k, (d, s, r) in enumerate(zip(dose, site, response, strict=True))]
    (tmp_path / "data.csv").write_text("\n".join(["dose,site,response,row", *lines]) + "\n")
    return tmp_path
