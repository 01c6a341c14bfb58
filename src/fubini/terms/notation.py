"""The notation of terms, which is that of `fubini.show`."""

from fubini.show.notation import Call as Call
from fubini.show.notation import Notation as Notation
from fubini.show.notation import Symbol as Symbol
from fubini.show.text import text as text
