"""What is known of a network: observations, soft evidence, interventions; and the most probable values of all else."""

from __future__ import annotations

from collections.abc import Iterator

from fubini.errors import FubiniError
from fubini.models.network import Network
from fubini.report.figure_axes import shown
from fubini.report.html_elements import Markup, Part, element, section, table

BEST, SHOWN = 5, 12  # assignments, and the variables of each


def network_section(network: Network | None) -> Markup | None:
    """Tables of the evidence and of the most probable assignments."""
    if network is None:
        return None
    return section("network", "The network", *_evidence(network), *_most_probable(network))


def _evidence(network: Network) -> Iterator[Part]:
    rows: list[list[Part]] = []
    for name, value in network.evidence.items():
        domain = network.variables[name]
        how = "set from outside" if name in network.interventions else "observed"
        rows.append([name, how, str(domain.label(value)) if domain.is_finite else str(value)])
    for name, weights in network.findings.items():
        domain = network.variables[name]
        each = (f"{domain.label(place)}: {shown(float(weight))}" for place, weight in enumerate(weights))
        rows.append([name, "soft evidence, by weights", ", ".join(each)])
    if not rows:
        yield element("p", "Nothing is observed.")
        return
    yield table("What is known", ("variable", "how", "value"), rows)
    if network.interventions:
        about = "A variable that is set from outside depends on no other: it says nothing about its causes."
        yield element("p", about, class_="note")


def _most_probable(network: Network) -> Iterator[Part]:
    names = [name for name in network.hidden if network.variables[name].is_finite]
    if not names:
        return
    try:
        best = network.most_probable(BEST, *(() if len(names) == len(network.hidden) else names))
    except FubiniError as error:
        yield element("p", f"The most probable values of all variables are not known: {str(error).splitlines()[0]}")
        return
    rows = [[shown(one.probability), *(str(one[name]) for name in names[:SHOWN])] for one in best]
    more = f" {len(names) - SHOWN:,} more variables are not shown." if len(names) > SHOWN else ""
    yield element("p", f"The most probable values of all variables together, given what is known.{more}")
    yield table("The most probable assignments", ("probability", *names[:SHOWN]), rows)
