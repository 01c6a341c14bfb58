"""The drawing of a graph: parents above, nodes beside each other, arrows around what lies between."""

import re
import xml.etree.ElementTree as ElementTree
from itertools import combinations

import numpy as np

from fubini.models.graph_drawing import RADIUS, draw, place_nodes

PARENTS = {"v": (), "a name that is long": ("v",), "y": ("a name that is long", "v"), "z": ("v",), "u": ("z", "y")}
DEPTHS = {"v": 0, "a name that is long": 1, "z": 1, "y": 2, "u": 3}
KINDS = {**dict.fromkeys(PARENTS, "random"), "u": "observed"}


def test_nodes_lie_below_their_parents_and_apart() -> None:
    nodes = place_nodes(PARENTS, KINDS, DEPTHS)
    assert all(nodes[parent].y < nodes[name].y for name, parents in PARENTS.items() for parent in parents)
    for a, b in combinations(nodes.values(), 2):
        assert a.y != b.y or abs(a.x - b.x) > a.half + b.half


def test_arrows_do_not_cross_nodes() -> None:
    nodes = place_nodes(PARENTS, KINDS, DEPTHS)
    paths = re.findall(
        r'd="M([-\d.]+) ([-\d.]+)Q([-\d.]+) ([-\d.]+) ([-\d.]+) ([-\d.]+)"', draw(PARENTS, KINDS, DEPTHS)
    )
    assert len(paths) == sum(map(len, PARENTS.values()))
    at = np.linspace(0.02, 0.98, 200)
    for path in paths:
        a, b, c, d, e, f = map(float, path)
        x = (1 - at) ** 2 * a + 2 * at * (1 - at) * c + at**2 * e
        y = (1 - at) ** 2 * b + 2 * at * (1 - at) * d + at**2 * f
        for node in nodes.values():
            assert np.all(((x - node.x) / node.half) ** 2 + ((y - node.y) / RADIUS) ** 2 > 0.98), (path, node.name)


def test_everything_lies_in_the_box() -> None:
    drawing = draw(PARENTS, KINDS, DEPTHS, {name: "sampled" for name in PARENTS})
    root = ElementTree.fromstring(drawing)
    left, top, width, height = map(float, str(root.get("viewBox")).split())
    for ellipse in root.iter("{http://www.w3.org/2000/svg}ellipse"):
        x, y, across, down = (float(ellipse.attrib[key]) for key in ("cx", "cy", "rx", "ry"))
        assert left <= x - across and x + across <= left + width and top <= y - down and y + down <= top + height


def test_roles_make_buttons() -> None:
    assert 'role="button"' not in draw(PARENTS, KINDS, DEPTHS)
    drawing = draw(PARENTS, KINDS, DEPTHS, {"v": 'a "<role>"'})
    assert drawing.count('role="button"') == len(PARENTS)
    assert 'aria-label="v, a &quot;&lt;role&gt;&quot;"' in drawing and 'aria-label="u, observed"' in drawing


def test_an_empty_graph_is_drawn() -> None:
    ElementTree.fromstring(draw({}, {}, {}))


def test_long_names_keep_both_ends() -> None:
    name = "a_rather_long_name_of_a_site_12"
    drawing = draw({name: ()}, {name: "random"}, {name: 0})
    assert ">a_rather_…_site_12<" in drawing and f"<title>{name}</title>" in drawing
