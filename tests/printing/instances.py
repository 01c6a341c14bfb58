"""An instance of every public class: those of the reference, and those that functions and methods return."""

from tests.printing import factor_instances, model_instances
from tests.printing.register import INSTANCES

__all__ = ["INSTANCES", "factor_instances", "model_instances"]
