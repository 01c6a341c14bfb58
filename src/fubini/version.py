"""The version of the package, which its metadata repeat."""

__version__ = "0.1.0.dev0"
