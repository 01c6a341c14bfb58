"""Instances of the UAI 2014 competition: partition functions and all marginals agree with the stored ones."""

import csv
import math
import re
from pathlib import Path

import numpy as np
import pytest

import fubini as fb
from fubini.eliminate.slicing import WORK_LIMIT
from fubini.errors import MemoryLimit
from fubini.io.uai import parse_uai_marginals, parse_uai_partition

INSTANCES = (
    *("Alchemy_11", "CSP_12", "DBN_11", "DBN_12", "Grids_11", "Grids_12", "ObjectDetection_61", "ObjectDetection_74"),
    *("Pedigree_11", "Pedigree_12", "Promedus_11", "Promedus_12", "Segmentation_11", "Segmentation_12"),
)
SLOW = ("CSP_13",)
LARGE = ("linkage_11", "linkage_12")  # not recomputed by whoever stored the references
CASES = (*INSTANCES, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW))

GIBIBYTE = 2**30


def read(data: Path, name: str) -> fb.Network:
    folder = data / "uai2014"
    return fb.io.read_uai(folder / f"{name}.uai.gz", folder / f"{name}.uai.evid")


def reference(data: Path, name: str, suffix: str) -> str:
    return (data / "uai2014" / f"{name}.uai.{suffix}").read_text()


def agree_on_partition(found: fb.Value, stored: float) -> None:
    """To half a unit of the last of the six digits stored."""
    log10 = float(found) / math.log(10)
    unit = 10.0 ** (math.floor(math.log10(abs(stored))) - 5)
    assert log10 == pytest.approx(stored, rel=0, abs=0.51 * unit)


def agree_on_marginals(net: fb.Network, found: dict[str, fb.Table], stored: dict[str, np.ndarray]) -> None:
    """Every hidden variable to 1e-5; what the file says of an observed one is a point mass at the evidence."""
    assert list(stored) == list(net.variables) and list(found) == list(net.hidden)
    for name, belief in stored.items():
        if name in net.evidence:
            assert belief.tolist() == [float(value == net.evidence[name]) for value in range(belief.size)]
        else:
            marginal = found[name]
            assert isinstance(marginal, fb.Table) and marginal.inputs == {name: net.variables[name]}
            assert str(marginal.exactness) == "exact"
            np.testing.assert_allclose(np.exp(marginal.log().data), belief, rtol=0, atol=1e-5)


def test_index(data: Path) -> None:
    """The instances tested are those of the index, told apart by whether they were recomputed."""
    with (data / "uai2014" / "index.csv").open() as file:
        rows = {row["instance"]: row["recomputed"] for row in csv.DictReader(file)}
    assert {name for name, recomputed in rows.items() if recomputed == "yes"} == {*INSTANCES, *SLOW}
    assert set(rows) == {*INSTANCES, *SLOW, *LARGE}


@pytest.mark.parametrize("name", CASES)
def test_partition(data: Path, name: str) -> None:
    """log₁₀ of the partition function, of the evidence where there is some."""
    agree_on_partition(read(data, name).log_evidence(), parse_uai_partition(reference(data, name, "PR")))


@pytest.mark.parametrize("name", CASES)
def test_marginals(data: Path, name: str) -> None:
    net = read(data, name)
    agree_on_marginals(net, net.marginals(), parse_uai_marginals(reference(data, name, "MAR")))


@pytest.mark.slow
def test_linkage_12(data: Path) -> None:
    """Tables above 2²⁵ entries, and still within the default limits."""
    agree_on_partition(
        read(data, "linkage_12").log_evidence(), parse_uai_partition(reference(data, "linkage_12", "PR"))
    )


@pytest.mark.slow
def test_linkage_11(data: Path) -> None:
    """Within 256 MiB the answer agrees, or is refused with the memory and the work that slicing would take."""
    net, stored = read(data, "linkage_11"), parse_uai_partition(reference(data, "linkage_11", "PR"))
    try:
        found = net.log_evidence(memory_limit=GIBIBYTE // 4)
    except MemoryLimit as refusal:
        agree_on_refusal(str(refusal))
    else:
        agree_on_partition(found, stored)


def agree_on_refusal(message: str) -> None:
    """More memory than the limit before slicing, less after it, and more work than a plan may take unasked."""
    number = r"([\d.,e+]+)"
    needed = re.search(rf"need {number} GiB", message)
    limit = re.search(rf"at most {number} GiB", message)
    sliced = re.search(
        rf"sliced over (\d+) variables \({number} passes\) it needs {number} GiB and {number} m", message
    )
    assert needed and limit and sliced and "multiply-adds" in message, message
    assert to_number(sliced[3]) <= to_number(limit[1]) == 0.25 < to_number(needed[1])
    assert int(sliced[1]) > 0 and to_number(sliced[2]) > 1 and to_number(sliced[4]) > WORK_LIMIT
    assert "memory_limit=" in message


def to_number(text: str) -> float:
    return float(text.replace(",", ""))
