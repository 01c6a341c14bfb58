"""Twelve models as users write them, each with its data and with the quantities that its posterior is compared by."""
