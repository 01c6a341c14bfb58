"""JSON networks: every number in its cell, levels in any order, faults named with their node and what is expected."""

import copy
import gzip
import itertools
import json
import lzma
import math
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import fubini as fb
from fubini.cli import main
from fubini.errors import FileFormatError
from fubini.io.json_network import parse_json

SEASON = {"name": "season", "type": "discrete", "states": ["cold", "warm"], "parents": [], "prob": [0.25, 0.75]}
RAIN = {
    "name": "rain",
    "type": "discrete",
    "states": ["none", "some", "much"],
    "parents": ["season"],
    "prob": [[0.5, 0.2], [0.3, 0.7], [0.2, 0.1]],
}
HEIGHT = {"name": "height", "type": "gaussian", "parents": [], "intercept": 2.0, "coef": {}, "sd": 0.5}
FLOW = {
    "name": "flow",
    "type": "clg",
    "discrete_parents": ["season", "rain"],
    "levels": {"season": ["cold", "warm"], "rain": ["none", "some", "much"]},
    "continuous_parents": ["height"],
    "intercept": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
    "coef": {"height": [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]},
    "sd": [1.1, 1.2, 1.3, 1.4, 1.5, 1.6],
}
LEVEL = {"name": "level", "type": "gaussian", "parents": ["flow"], "intercept": -1.0, "coef": {"flow": 2.0}, "sd": 3.0}
RIVER = {"name": "river", "nodes": [SEASON, RAIN, HEIGHT, FLOW, LEVEL]}


def changed(node: str, **values: object) -> dict:
    """The river with some entries of one node replaced; `...` removes an entry."""
    made = copy.deepcopy(RIVER)
    found = next(entry for entry in made["nodes"] if entry["name"] == node)
    for key, value in values.items():
        if value is ...:
            del found[key]
        else:
            found[key] = value
    return made


def parse(network: object) -> fb.Network:
    return parse_json(json.dumps(network), "river.json")


def log_joint(season: int, rain: int, height: float, flow: float, level: float) -> float:
    """The river by hand: six cells, the season varying fastest."""
    cell = season + 2 * rain
    return (
        math.log(SEASON["prob"][season])
        + math.log(RAIN["prob"][rain][season])
        + stats.norm(2.0, 0.5).logpdf(height)
        + stats.norm(FLOW["intercept"][cell] + FLOW["coef"]["height"][cell] * height, FLOW["sd"][cell]).logpdf(flow)
        + stats.norm(-1.0 + 2.0 * flow, 3.0).logpdf(level)
    )


CELLS = list(itertools.product(range(2), range(3)))


def check_river(net: fb.Network) -> None:
    """The joint at every cell, with labels."""
    rng = np.random.default_rng(0)
    for season, rain in CELLS:
        height, flow, level = rng.normal(2, 2, 3)
        assignment = {
            "season": SEASON["states"][season],
            "rain": RAIN["states"][rain],
            "height": height,
            "flow": flow,
            "level": level,
        }
        found = float(net.condition(assignment).log_evidence())
        assert found == pytest.approx(log_joint(season, rain, height, flow, level), rel=1e-12)


# -- what is read -----------------------------------------------------------------------------------------------------


def test_every_number_lands_in_its_cell() -> None:
    check_river(parse(RIVER))


def test_variables_and_name() -> None:
    net = parse(RIVER)
    assert list(net.variables) == ["season", "rain", "height", "flow", "level"]
    assert net.variables["rain"].labels == ("none", "some", "much")
    assert net.variables["flow"] == fb.Real
    assert net.name == "river" and net.directed and len(net.factors) == 5


@pytest.mark.parametrize("order", [(0, 1, 2, 3, 4), (4, 3, 2, 1, 0), (2, 4, 0, 3, 1)])
def test_nodes_in_any_order(order: tuple[int, ...]) -> None:
    """Children may stand before their parents."""
    check_river(parse({"name": "river", "nodes": [RIVER["nodes"][k] for k in order]}))


@pytest.mark.parametrize("season", list(itertools.permutations(range(2))))
@pytest.mark.parametrize("rain", list(itertools.permutations(range(3))))
def test_levels_in_any_order(season: tuple[int, ...], rain: tuple[int, ...]) -> None:
    """A node lists the levels of its parents in an order of its own, and its cells in that order."""
    cells = [s + 2 * r for r in rain for s in season]
    river = changed(
        "flow",
        levels={
            "season": [SEASON["states"][s] for s in season],
            "rain": [RAIN["states"][r] for r in rain],
        },
        intercept=[FLOW["intercept"][cell] for cell in cells],
        coef={"height": [FLOW["coef"]["height"][cell] for cell in cells]},
        sd=[FLOW["sd"][cell] for cell in cells],
    )
    check_river(parse(river))


def test_discrete_parents_in_another_order() -> None:
    cells = [s + 2 * r for s in range(2) for r in range(3)]
    river = changed(
        "flow",
        discrete_parents=["rain", "season"],
        intercept=[FLOW["intercept"][cell] for cell in cells],
        coef={"height": [FLOW["coef"]["height"][cell] for cell in cells]},
        sd=[FLOW["sd"][cell] for cell in cells],
    )
    check_river(parse(river))


def test_a_discrete_node_with_two_parents() -> None:
    """prob[state][first parent][second parent]."""
    rng = np.random.default_rng(1)
    prob = rng.dirichlet(np.ones(2), (2, 3)).transpose(2, 0, 1)
    flood = {
        "name": "flood",
        "type": "discrete",
        "states": ["no", "yes"],
        "parents": ["season", "rain"],
        "prob": prob.tolist(),
    }
    net = parse({"name": "flood", "nodes": [SEASON, RAIN, flood]})
    for (season, rain), yes in itertools.product(CELLS, range(2)):
        found = net.condition(season=season, rain=rain, flood=yes).log_evidence()
        expected = SEASON["prob"][season] * RAIN["prob"][rain][season] * prob[yes, season, rain]
        assert float(found) == pytest.approx(math.log(expected), rel=1e-12)


def test_states_that_are_numbers_are_labels() -> None:
    year = {"name": "year", "type": "discrete", "states": [1981, 1982], "parents": [], "prob": [0.4, 0.6]}
    rise = {
        "name": "rise",
        "type": "clg",
        "discrete_parents": ["year"],
        "levels": {"year": [1982, 1981]},
        "continuous_parents": [],
        "intercept": [2.0, 1.0],
        "coef": {},
        "sd": [0.2, 0.1],
    }
    net = parse({"name": "rise", "nodes": [year, rise]})
    assert net.variables["year"].labels == ("1981", "1982")
    assert float(net.condition(year="1981").marginals("rise")["rise"].mean("rise")) == pytest.approx(1.0)


def test_probabilities_that_are_off_by_rounding_are_normalised() -> None:
    net = parse({"nodes": [{**SEASON, "prob": [0.3333333, 0.6666666]}]})
    assert float(net.log_evidence()) == pytest.approx(0.0, abs=1e-14)


def test_an_sd_of_zero_is_a_point() -> None:
    """As many parents as there are, the child is their combination for certain."""
    net = parse({"nodes": [HEIGHT, {**LEVEL, "parents": ["height"], "coef": {"height": 2.0}, "sd": 0.0}]})
    found = net.marginals()
    assert float(found["level"].mean("level")) == pytest.approx(3.0, rel=1e-12)
    assert float(found["level"].variance("level")) == pytest.approx(1.0, rel=1e-12)


def test_a_point_observed() -> None:
    """level = 2 height − 1 for certain: seen, it is a density of height at a point, with the Jacobian."""
    net = parse({"nodes": [HEIGHT, {**LEVEL, "parents": ["height"], "coef": {"height": 2.0}, "sd": 0.0}]})
    posterior = net.condition(level=4.0)
    assert float(posterior.marginals("height")["height"].mean("height")) == pytest.approx(2.5, rel=1e-12)
    assert float(posterior.log_evidence()) == pytest.approx(stats.norm(3.0, 1.0).logpdf(4.0), rel=1e-12)


def test_sds_of_zero_in_some_cells() -> None:
    net = parse(changed("flow", sd=[0.0, 1.2, 0.0, 1.4, 1.5, 0.0]))
    mean, second = 0.0, 0.0
    for season, rain in CELLS:
        cell, weight = season + 2 * rain, SEASON["prob"][season] * RAIN["prob"][rain][season]
        slope = FLOW["coef"]["height"][cell]
        centre = FLOW["intercept"][cell] + slope * 2.0
        deviation = 0.0 if cell in (0, 2, 5) else FLOW["sd"][cell]
        mean += weight * centre
        second += weight * (centre**2 + slope**2 * 0.25 + deviation**2)
    found = net.marginals("flow")["flow"]
    assert float(found.mean("flow")) == pytest.approx(mean, rel=1e-12)
    assert float(found.variance("flow")) == pytest.approx(second - mean**2, rel=1e-11)


@pytest.mark.parametrize("pack", [None, gzip.compress, lzma.compress], ids=["plain", "gz", "xz"])
def test_files_plain_and_compressed(tmp_path: Path, pack: Callable | None) -> None:
    text = json.dumps(RIVER).encode()
    path = tmp_path / {None: "river.json", gzip.compress: "river.json.gz", lzma.compress: "river.json.xz"}[pack]
    path.write_bytes(text if pack is None else pack(text))
    check_river(fb.io.read_json(path))
    check_river(fb.io.read_json(str(path)))


def test_names_and_labels_outside_ascii(tmp_path: Path) -> None:
    season = {**SEASON, "name": "Jahreszeit", "states": ["kühl", "heiß"]}
    (tmp_path / "a.json").write_text(json.dumps({"nodes": [season]}, ensure_ascii=False), encoding="utf-8")
    assert fb.io.read_json(tmp_path / "a.json").variables["Jahreszeit"].labels == ("kühl", "heiß")


# -- what is not a network --------------------------------------------------------------------------------------------

NAN, INFINITY = float("nan"), float("inf")

FAULTS = {
    "not a mapping": ([], r"is not a network", r"nodes"),
    "no nodes": ({"name": "river"}, r"is not a network", r"nodes"),
    "nodes not a list": ({"nodes": {"a": 1}}, r"is not a network", r"nodes"),
    "a node that is text": ({"nodes": ["season"]}, r"node 1", r"name"),
    "no name": ({"nodes": [{"type": "discrete"}]}, r"node 1", r"name"),
    "a name that is a number": ({"nodes": [{**SEASON, "name": 3}]}, r"node 1", r"name"),
    "duplicate name": ({"nodes": [SEASON, SEASON]}, r"node 'season' occurs twice", r"one node for each name"),
    "unknown type": (changed("height", type="poisson"), r"node 'height'.*'poisson'", r"'discrete'.*'gaussian'.*'clg'"),
    "no type": (changed("height", type=...), r"node 'height'", r"'discrete'.*'gaussian'.*'clg'"),
    "a type that is a list": (changed("height", type=["clg"]), r"node 'height'", r"'discrete'.*'gaussian'.*'clg'"),
    "no prob": (changed("season", prob=...), r"node 'season' lacks 'prob'", r"'states'.*'parents'.*'prob'"),
    "no sd": (changed("height", sd=...), r"node 'height' lacks 'sd'", r"'intercept'"),
    "no levels": (changed("flow", levels=...), r"node 'flow' lacks 'levels'", r"'discrete_parents'"),
    "no coef": (changed("level", coef=...), r"node 'level' lacks 'coef'", r"'intercept'"),
    "states twice": (changed("season", states=["cold", "cold"]), r"node 'season'.*states", r"different"),
    "no states": (changed("season", states=[]), r"node 'season'.*states", r"labels"),
    "states not a list": (changed("season", states="cw"), r"node 'season'.*states", r"list"),
    "unknown parent": (changed("level", parents=["flaw"], coef={"flaw": 2.0}), r"node 'level'.*'flaw'", r"'flow'"),
    "unknown discrete parent": (changed("rain", parents=["saison"]), r"node 'rain'.*'saison'", r"'season'"),
    "a discrete parent of a regression": (
        changed("level", parents=["rain"], coef={"rain": 2.0}),
        r"node 'level'.*'rain'",
        r"continuous",
    ),
    "a continuous parent of a table": (changed("rain", parents=["height"]), r"node 'rain'.*'height'", r"discrete"),
    "a continuous node among discrete parents": (
        changed("flow", discrete_parents=["season", "height"], continuous_parents=["height"]),
        r"node 'flow'.*'height'",
        r"discrete",
    ),
    "a cycle": (changed("height", parents=["level"], coef={"level": 1.0}), r"cycle.*level.*height|cycle.*height", r""),
    "its own parent": (changed("height", parents=["height"], coef={"height": 1.0}), r"cycle.*height", r""),
    "too few probabilities": (changed("season", prob=[1.0]), r"node 'season'.*prob", r"\(2,\)"),
    "probabilities transposed": (
        changed("rain", prob=np.transpose(RAIN["prob"]).tolist()),
        r"node 'rain'.*prob",
        r"\(3, 2\)",
    ),
    "ragged probabilities": (changed("rain", prob=[[0.5, 0.2], [0.3], [0.2, 0.1]]), r"node 'rain'.*prob", r""),
    "probabilities that are words": (changed("season", prob=["a", "b"]), r"node 'season'.*prob", r"number"),
    "a probability below zero": (changed("season", prob=[-0.25, 1.25]), r"node 'season'", r"sum to 1|probabilit"),
    "probabilities that do not sum to one": (changed("season", prob=[0.25, 0.7]), r"node 'season'", r"sum to 1"),
    "one column that does not sum to one": (
        changed("rain", prob=[[0.5, 0.2], [0.3, 0.7], [0.2, 0.2]]),
        r"node 'rain'",
        r"sum to 1",
    ),
    "a probability that is NaN": (changed("season", prob=[NAN, 0.75]), r"node 'season'.*prob", r"finite|number"),
    "too few intercepts": (changed("flow", intercept=[1.0] * 5), r"node 'flow'.*intercept", r"6"),
    "too many sds": (changed("flow", sd=[1.0] * 7), r"node 'flow'.*sd", r"6"),
    "too few coefficients": (
        changed("flow", coef={"height": [1.0] * 4}),
        r"node 'flow'.*coefficient.*height",
        r"6",
    ),
    "an array for a gaussian": (changed("height", intercept=[2.0]), r"node 'height'.*intercept", r""),
    "negative sd": (changed("height", sd=-0.5), r"node 'height'.*negative sd", r"standard deviation"),
    "one negative sd": (changed("flow", sd=[1, 1, 1, -1, 1, 1]), r"node 'flow'.*negative sd", r"standard deviation"),
    "an intercept that is NaN": (changed("height", intercept=NAN), r"node 'height'.*intercept", r"finite"),
    "an sd that is infinite": (changed("height", sd=INFINITY), r"node 'height'.*sd", r"finite"),
    "a coefficient that is NaN": (changed("level", coef={"flow": NAN}), r"node 'level'.*flow", r"finite"),
    "an intercept that is a word": (changed("height", intercept="two"), r"node 'height'.*intercept", r"number"),
    "an intercept that is null": (changed("height", intercept=None), r"node 'height'.*intercept", r"number|finite"),
    "a coefficient of no parent": (
        changed("level", coef={"flow": 2.0, "rain": 1.0}),
        r"node 'level'.*'rain'",
        r"'flow'",
    ),
    "a parent without a coefficient": (changed("level", coef={}), r"node 'level'", r"'flow'"),
    "coefficients in a list": (changed("level", coef=[2.0]), r"node 'level'.*coef", r""),
    "levels of another parent": (
        changed("flow", levels={"season": ["cold", "warm"]}),
        r"node 'flow'.*'rain'",
        r"'none'.*'some'.*'much'",
    ),
    "an unknown level": (
        changed("flow", levels={"season": ["cold", "hot"], "rain": ["none", "some", "much"]}),
        r"node 'flow'.*'hot'.*'season'",
        r"'cold'.*'warm'",
    ),
    "levels in a list": (changed("flow", levels=["cold", "warm"]), r"node 'flow'.*levels", r""),
    "parents that are text": (changed("level", parents="flow"), r"node 'level'.*parents", r"list"),
    "parents that are null": (changed("season", parents=None), r"node 'season'.*parents", r"list"),
    "a parent twice": (changed("flow", continuous_parents=["height", "height"]), r"node 'flow'.*'height'", r""),
    "a discrete parent twice": (
        changed("rain", parents=["season", "season"], prob=np.full((3, 2, 2), 1 / 3).tolist()),
        r"node 'rain'.*'season'",
        r"",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_named(fault: str) -> None:
    """By an error of the format that names the file, the node and what is expected."""
    network, cause, expected = FAULTS[fault]
    with pytest.raises(FileFormatError) as caught:
        parse(network)
    text = str(caught.value)
    first, _, rest = text.partition("\n")
    assert "river.json" in first
    assert re.search(rf"(?s){cause}", first), text
    assert not expected or re.search(rf"(?s){expected}", rest or text), text


@pytest.mark.parametrize("text", ["", "{", '{"nodes": [}', "not json", '{"nodes": [1, 2,]}'])
def test_bad_json_is_named_with_its_line(text: str) -> None:
    with pytest.raises(FileFormatError, match=r"(?s)river.json.*1.*JSON"):
        parse_json(text, "river.json")


def test_bad_json_further_down_is_named_with_its_line() -> None:
    with pytest.raises(FileFormatError, match=r"river.json, line 3: not JSON"):
        parse_json('{\n "nodes": [\n  oops\n ]\n}', "river.json")


def test_a_missing_file() -> None:
    with pytest.raises((OSError, fb.FubiniError), match=r"absent.json"):
        fb.io.read_json("absent.json")


# -- the command line -------------------------------------------------------------------------------------------------


@pytest.fixture
def river(tmp_path: Path) -> str:
    path = tmp_path / "river.json"
    path.write_text(json.dumps(RIVER))
    return str(path)


def posterior_mean(level: float) -> tuple[float, float]:
    """Mean and deviation of flow given the level, by enumeration of six cells."""
    logs, means, variances = [], [], []
    for season, rain in CELLS:
        cell = season + 2 * rain
        slope = FLOW["coef"]["height"][cell]
        mean, variance = FLOW["intercept"][cell] + slope * 2.0, slope**2 * 0.25 + FLOW["sd"][cell] ** 2
        total = 4 * variance + 9
        logs.append(
            math.log(SEASON["prob"][season] * RAIN["prob"][rain][season])
            + stats.norm(2 * mean - 1, math.sqrt(total)).logpdf(level)
        )
        means.append(mean + 2 * variance / total * (level - 2 * mean + 1))
        variances.append(variance - 4 * variance**2 / total)
    weights = np.exp(np.array(logs) - np.logaddexp.reduce(logs))
    mean = weights @ np.array(means)
    return mean, math.sqrt(weights @ (np.array(variances) + (np.array(means) - mean) ** 2))


def test_query_of_a_real_given_a_real(river: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["query", river, "-e", "level=1.5", "-t", "flow"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "flow"
    mean, deviation = posterior_mean(1.5)
    assert f"{mean:.6g} ± {deviation:.4g}" in lines[1]


@pytest.mark.parametrize("value", ["-2", "1e1", "+3.25"])
def test_query_reads_numbers_as_written(river: str, value: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["query", river, "--evidence", f"level={value}", "--target", "flow"]) == 0
    mean, _ = posterior_mean(float(value))
    assert f"{mean:.6g} ±" in capsys.readouterr().out


def test_query_of_a_label_given_a_real(river: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["query", river, "-e", "season=cold", "-e", "height=2.5", "-t", "rain"]) == 0
    out = capsys.readouterr().out
    for label, share in zip(RAIN["states"], (0.5, 0.3, 0.2), strict=True):
        assert f"{label}  {share:.4f}" in out


def test_query_with_the_plan(river: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["query", river, "-e", "level=1.5", "-t", "flow", "--plan"]) == 0
    out = capsys.readouterr().out
    assert "exactness" in out and "Σ_" in out


def test_query_of_everything(river: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["query", river]) == 0
    out = capsys.readouterr().out
    assert [line for line in out.splitlines() if not line.startswith(" ")] == [node["name"] for node in RIVER["nodes"]]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-e", "level=high", "-t", "flow"], r"level='high'.*number"),
        (["-e", "level=nan", "-t", "flow"], r"level.*finite"),
        (["-e", "level=inf", "-t", "flow"], r"level.*finite"),
        (["-e", "season=hot", "-t", "flow"], r"season='hot'.*'cold'"),
        (["-e", "levle=1.5", "-t", "flow"], r"'levle'.*'level'"),
        (["-e", "level", "-t", "flow"], r"NAME=VALUE"),
        (["-e", "level=1.5", "-t", "level"], r"'level'.*1\.5"),
        (["-e", "level=1.5", "-t", "flwo"], r"'flwo'.*'flow'"),
        (["-e", "level=1.5", "-e", "level=1.6", "-t", "flow"], r"level.*1\.5"),
    ],
)
def test_a_bad_query_is_reported_on_standard_error(
    river: str, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["query", river, *arguments]) == 1
    caught = capsys.readouterr()
    assert caught.out == ""
    assert re.search(rf"(?s){message}", caught.err), caught.err


def test_a_bad_file_is_reported_on_standard_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "bad.json"
    path.write_text(json.dumps(changed("height", sd=-1.0)))
    assert main(["query", str(path)]) == 1
    assert "node 'height'" in capsys.readouterr().err


def test_a_packed_file_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "river.json.gz"
    path.write_bytes(gzip.compress(json.dumps(RIVER).encode()))
    assert main(["query", str(path), "-e", "level=1.5", "-t", "flow"]) == 0
    assert f"{posterior_mean(1.5)[0]:.6g} ±" in capsys.readouterr().out
