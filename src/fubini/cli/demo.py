"""`fubini demo`."""


def add_to(commands):
    pass
