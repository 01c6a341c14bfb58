"""Pictures and text for people."""
