"""Errors on purpose: the kind, and the words of the message."""

import re
from collections.abc import Callable
from typing import Any

import pytest

import fubini as fb

Bad = tuple[Callable[[], Any], type[Exception], list[str]]


def check(bad: Bad) -> None:
    """An error of ours, of this kind, with these words."""
    ask, kind, words = bad
    with pytest.raises(kind) as caught:
        ask()
    assert isinstance(caught.value, fb.FubiniError)
    for word in words:
        assert re.search(re.escape(word), str(caught.value)), str(caught.value)
