"""Numerics: arrays in, arrays out. Nothing here knows of terms or factors."""
