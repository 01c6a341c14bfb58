"""Network files: `fb.io.read_network`, `fb.io.write_network`, the same for one format, `fb.io.Limits`."""

from fubini.base.file_limits import Limits as Limits
from fubini.io.files import read_bif as read_bif
from fubini.io.files import read_json as read_json
from fubini.io.files import read_network as read_network
from fubini.io.files import read_uai as read_uai
from fubini.io.files import write_bif as write_bif
from fubini.io.files import write_network as write_network
from fubini.io.files import write_uai as write_uai
