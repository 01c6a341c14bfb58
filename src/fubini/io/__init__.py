"""Network files and objects of other libraries.

`fb.io.read_network`, `fb.io.write_network`, the same for one format, `fb.io.Limits`; `fb.io.from_model`,
`fb.io.to_pgmpy`, `fb.io.to_pyagrum`.
"""

from fubini.base.file_limits import Limits as Limits
from fubini.io.files import from_model as from_model
from fubini.io.files import read_bif as read_bif
from fubini.io.files import read_json as read_json
from fubini.io.files import read_network as read_network
from fubini.io.files import read_uai as read_uai
from fubini.io.files import to_pgmpy as to_pgmpy
from fubini.io.files import to_pyagrum as to_pyagrum
from fubini.io.files import write_bif as write_bif
from fubini.io.files import write_network as write_network
from fubini.io.files import write_uai as write_uai
