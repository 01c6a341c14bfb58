"""What the exact interpretation does with open products: the rules are registered when their modules are imported."""

from fubini.bridge.disintegrate import disintegrate as disintegrate
