"""Measures as programs: written, simplified to closed forms, conditioned on what they return, printed again."""
