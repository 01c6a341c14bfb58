"""Meshes of the eight simulated devices, on both kinds of axes."""

import jax
import pytest
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec


def mesh_of(kind: AxisType, **axes: int) -> Mesh:
    """A mesh with axes of one kind."""
    return jax.make_mesh(tuple(axes.values()), tuple(axes), axis_types=(kind,) * len(axes))


def rows_of(kind: AxisType) -> NamedSharding:
    """Rows over all devices, on an axis of this kind."""
    return NamedSharding(mesh_of(kind, rows=8), PartitionSpec("rows"))


both_kinds = pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit], ids=["auto", "explicit"])
