"""Some of the forty models against long runs of NumPyro; `python -m benchmarks.answers` compares all of them."""

import json
import os
from pathlib import Path

import pytest

from benchmarks.answers import FAR, ask_draws, ask_evidence, ask_prediction
from examples.forty.all_studies import studies
from tests.forty.reference import FILE

STORED = json.loads(FILE.read_text())
FOLDER = os.environ.get("FUBINI_DATA")
QUICK = ("O-rings", "lifetimes", "eight schools", "rugged", "coin", "change point")


def test_forty_models_are_stored(data: Path) -> None:
    """With their data, at least fifteen of them from files."""
    found = studies(data)
    assert len(found) >= 40 and {study.name for study in found} == set(STORED) - {"made by"}
    assert sum(bool(study.data) for study in found) >= 15


@pytest.mark.parametrize("name", QUICK)
def test_answers(name: str) -> None:
    """Evidence, draws and predictions at new inputs, in standard errors from the long runs."""
    found = [study for study in studies(Path(FOLDER) if FOLDER else None) if study.name == name]
    if not found:
        pytest.skip("FUBINI_DATA is not set: the data of the model are needed")
    (study,) = found
    assert ask_evidence(study, STORED[name])[2] < FAR
    draws, _, furthest, _ = ask_draws(study, STORED[name], 500)
    assert furthest < FAR
    assert ask_prediction(study, STORED[name], draws)[0] < FAR
