"""What is mutated: for each format some files, how they are read, and how a reading is judged without fubini."""

import gzip
import io
import json
import lzma
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import jax
import numpy as np

import fubini as fb
from fubini import dist
from fubini.engines.code_cache import CacheFiles
from fubini.infer import driver
from fubini.infer.checkpoint import HEADER, Checkpoint, _digest
from fubini.io.bif import parse_bif
from fubini.io.net import format_net
from fubini.io.xdsl import format_xdsl
from fubini.io.xml_text import decode_xml
from fubini.io.xmlbif import format_xmlbif
from fubini.questions import infer as inference
from fubini.questions import label_sampler
from tests.thorough import plain_readers

ASIA = """network n { property p "x" ; }
variable a { type discrete [ 2 ] { no, yes }; }
variable "b c" { type discrete [ 3 ] { "l 1", m, h }; }
variable d { type discrete [ 2 ] { 0, 1 }; } // a comment
probability ( a ) { table 0.8, 0.2; }
probability ( "b c" | a ) { (no) 0.5, 0.3, 0.2; (yes) 0.1, 0.1, 0.8; }
probability ( d | "b c", a ) { default 0.5, 0.5; (m, yes) 0.25, 0.75; /* here */ }
"""
UAI = ["MARKOV\n3\n2 2 3\n2\n2 0 1\n2 2 1\n\n4\n 4.0 2.5\n 1.5 0.0\n6\n 1 2\n 3 4\n 5 6e-1\n"]
UAI += ["BAYES # chain\n2\n2 3\n2\n1 0\n2 0 1\n2\n 0.25 0.75\n6\n 0.5 0.25 0.25\n 0.125 0.125 0.75\n"]
NODES = [
    {"name": "s", "type": "discrete", "states": ["u", "v"], "parents": [], "prob": [0.25, 0.75]},
    {
        "name": "t",
        "type": "discrete",
        "states": ["u", "v", "w"],
        "parents": ["s"],
        "prob": [[0.5, 0.2], [0.3, 0.7], [0.2, 0.1]],
    },
    {"name": "h", "type": "gaussian", "parents": [], "intercept": 2.0, "coef": {}, "sd": 0.5},
    {
        **{"name": "f", "type": "clg", "discrete_parents": ["s"], "levels": {"s": ["v", "u"]}},
        **{"continuous_parents": ["h"], "intercept": [1, 2], "coef": {"h": [0.1, 0.2]}, "sd": [1.1, 1.2]},
    },
]


DETERMINISTIC = """<?xml version="1.0" encoding="ISO-8859-1"?><smile version="1.0" id="n"><nodes>
<cpt id="a"><state id="u" /><state id="v" /><probabilities>0.25 0.75</probabilities></cpt>
<deterministic id="b"><state id="x" /><state id="y" /><parents>a</parents><resultingstates>y x</resultingstates>
</deterministic></nodes><extensions><genie version="1.0" app="GeNIe"><node id="a" /></genie></extensions></smile>
"""
FLAT = """net { node_size = (50 50); label = "a \\"b\\"; }"; }
node a { states = (no yes ); label = "%"; } % a comment
discrete node b { states = ("l 1" "m" "h"); position = (1 2); }
potential (a) { data = (0.8 0.2); } potential (b | a) { data = (0.5 0.3 0.2  0.1 0.1 0.8); }
"""


class Subject:
    """A format."""

    name, suffix = "", ""

    def __init__(self, folder: Path) -> None:
        self.path = folder / f"file{self.suffix}"
        self.seeds: list[bytes] = []

    def read(self, content: bytes) -> Any:
        """What fubini reads."""
        raise NotImplementedError

    def fault(self, content: bytes, found: Any) -> str:
        """What is wrong with that, or nothing."""
        raise NotImplementedError

    def repro(self, content: bytes) -> str:
        return f"{self.name}: {content!r}"


def same_tables(found: list, wanted: list) -> bool:
    return len(found) == len(wanted) and all(
        list(a[0]) == list(b[0]) and np.shape(a[1]) == np.shape(b[1]) and np.allclose(a[1], b[1], rtol=1e-12, atol=0)
        for a, b in zip(found, wanted, strict=True)
    )


def tables_of(network: fb.Network) -> list:
    return [
        (list(map(str, factor.inputs)), factor.weights) for factor in network.factors if isinstance(factor, fb.Table)
    ]


class Texts(Subject):
    """Text, plain and compressed; the suffix goes with the first bytes."""

    texts: Sequence[str] = ()

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        plain = [text.encode() for text in self.texts]
        self.seeds = plain * 4 + [gzip.compress(plain[0], mtime=0), lzma.compress(plain[0])]

    def read(self, content: bytes) -> Any:
        suffix = ".gz" if content[:2] == b"\x1f\x8b" else ".xz" if content[:2] == b"\xfd7" else ""
        path = self.path.with_name(self.path.name + suffix)
        path.write_bytes(content)
        return self.network(path)

    def network(self, path: Path) -> Any:
        raise NotImplementedError

    def plain(self, content: bytes) -> str:
        content = gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content
        content = lzma.decompress(content) if content[:2] == b"\xfd7" else content
        return content.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")

    def wanted(self, text: str) -> Any:
        raise NotImplementedError

    def fault(self, content: bytes, found: Any) -> str:
        try:
            wanted = self.wanted(self.plain(content))
        except Exception as error:
            return f"read, but {type(error).__name__} in the plain reader"
        return "" if self.agrees(found, wanted) else "read otherwise than the plain reader reads"

    def agrees(self, found: Any, wanted: Any) -> bool:
        raise NotImplementedError


class Bif(Texts):
    name, suffix, texts = "bif", ".bif", [ASIA]
    network = staticmethod(fb.io.read_bif)
    wanted = staticmethod(plain_readers.bif)

    def agrees(self, found: Any, wanted: Any) -> bool:
        labels, *tables = wanted
        listed = {name: list(domain.labels) for name, domain in found.variables.items()}
        return listed == labels and same_tables(tables_of(found), tables)


class XmlBif(Bif):
    name, suffix, texts = "xmlbif", ".xmlbif", [format_xmlbif(parse_bif(ASIA))]
    network = staticmethod(fb.io.read_network)
    wanted = staticmethod(plain_readers.xmlbif)

    def plain(self, content: bytes) -> str:
        for magic, unpack in ((b"\x1f\x8b", gzip.decompress), (b"\xfd7", lzma.decompress)):
            content = unpack(content) if content.startswith(magic) else content
        return decode_xml(content)


class Xdsl(XmlBif):
    name, suffix, texts = "xdsl", ".xdsl", [format_xdsl(parse_bif(ASIA)), DETERMINISTIC]
    wanted = staticmethod(plain_readers.xdsl)


class Net(Bif):
    name, suffix, texts = "net", ".net", [format_net(parse_bif(ASIA)), FLAT]
    network = staticmethod(fb.io.read_network)
    wanted = staticmethod(plain_readers.net)


class Uai(Texts):
    name, suffix, texts = "uai", ".uai", UAI
    network = staticmethod(fb.io.read_uai)
    wanted = staticmethod(plain_readers.uai)

    def agrees(self, found: Any, wanted: Any) -> bool:
        sizes, *tables = wanted
        return [domain.size for domain in found.variables.values()] == sizes and same_tables(tables_of(found), tables)


class Evidence(Texts):
    name, suffix, texts = "evidence", ".evid", ["2  0 1  2 0\n", "1\n2 0 1 1 0 # seen\n"]
    wanted = staticmethod(plain_readers.evidence)

    def network(self, path: Path) -> Any:
        model = path.with_name("model.uai")
        if not model.exists():
            model.write_text(UAI[0])
        return dict(fb.io.read_uai(model, path).evidence)

    def agrees(self, found: Any, wanted: Any) -> bool:
        return found == wanted


class Json(Texts):
    name, suffix, texts = "json", ".json", [json.dumps({"name": "n", "nodes": NODES}), json.dumps({"nodes": NODES[:2]})]
    network = staticmethod(fb.io.read_json)
    wanted = staticmethod(plain_readers.json_tables)

    def agrees(self, found: Any, wanted: Any) -> bool:
        return same_tables(tables_of(found), [entry for entry in wanted if len(entry) == 2]) and len(wanted) == len(
            found.factors
        )


class Stop(Exception):
    """A run that stops."""


def stop_after(count: int):
    """`Checkpoint.save`, which ends a run after so many of them."""
    save, left = Checkpoint.save, [count]

    def some(self, arrays):
        save(self, arrays)
        left[0] -= 1
        if not left[0]:
            raise Stop

    return some


def archived(content: bytes) -> dict[str, np.ndarray]:
    with np.load(io.BytesIO(content), allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


def forged(content: bytes, name: str, place: int, value: float) -> bytes:
    """A checkpoint with another number, and the digest that it then has."""
    arrays = archived(content)
    array = arrays[name].copy()
    array.flat[place % array.size] = np.asarray(value).astype(array.dtype)
    arrays[name] = array
    header = json.loads(arrays.pop(HEADER).tobytes())
    header["digest"] = _digest(arrays)
    file = io.BytesIO()
    np.savez(file, **{HEADER: np.frombuffer(json.dumps(header).encode(), np.uint8)}, **arrays)
    return file.getvalue()


class Checkpoints(Subject):
    """A run that was stopped: what it would go on with."""

    suffix = ".npz"

    def made(self, run: Any, count: int) -> None:
        save = Checkpoint.save
        Checkpoint.save = stop_after(count)
        try:
            run(self.path)
        except Stop:
            pass
        finally:
            Checkpoint.save = save
        content = self.path.read_bytes()
        self.original = archived(content)
        names = [name for name in self.original if name != HEADER]
        with np.errstate(all="ignore"):
            self.seeds = [content] * 10 + [
                forged(content, name, place, value)
                for name in names
                for place in (0, 7)
                for value in (3, -1, 2.0**62, np.nan if self.original[name].dtype.kind == "f" else 200)
            ]
        self.path.with_name(self.path.name + ".previous").unlink(missing_ok=True)

    def repro(self, content: bytes) -> str:
        return f"{self.name}: a file of {len(content)} bytes or more"

    def captured(self, module: Any, run: Callable[[Path], Any]) -> None:
        """What the driver is given for a run, once: the sampler, its first state, the schedule, the file."""
        subject, take = self, module.run

        def capture(sampler: Any, key: Any, schedule: Any, file: Checkpoint, progress: bool) -> None:
            subject.sampler, subject.schedule, subject.file = sampler, schedule, file
            subject.state = sampler.init(key, schedule.chains)
            raise Stop

        module.run = capture
        try:
            with suppress(Stop):
                run(self.path)
        finally:
            module.run = take

    def read(self, content: bytes) -> Any:
        self.path.write_bytes(content)
        stretches = list(self.schedule.stretches(self.sampler.warmup))
        sink = driver.InMemory(self.schedule)
        sink.open(self.sampler.draw(self.state))
        state, done = driver._resume(self.file, self.sampler, self.state, sink, stretches, self.schedule.thin)
        return state, sink.drawn, sum(draws for _, draws in stretches[:done])

    def fault(self, content: bytes, found: Any) -> str:
        """The draws are those of the file, and the sampler could have made them."""
        state, drawn, kept = found
        arrays = archived(content)
        same = all(
            np.array_equal(value, arrays[f"{kind}:{name}"], equal_nan=value.dtype.kind == "f")
            for kind, part in zip(("drawn", "info"), drawn, strict=True)
            for name, value in part.items()
        )
        return "" if same and self.is_possible(state, drawn, kept) else "states or draws that were not written"

    def is_possible(self, state: Any, drawn: Any, kept: int) -> bool:
        raise NotImplementedError


class NutsCheckpoints(Checkpoints):
    name = "nuts"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        from tests.infer.resumed import infer

        self.made(infer, 13)
        self.captured(inference, infer)

    def is_possible(self, state: Any, drawn: Any, kept: int) -> bool:
        """Positions and their density are finite."""
        finite = all(np.isfinite(value[:, :kept]).all() for value in drawn.values.values())
        return finite and all(np.isfinite(np.asarray(one.potential_energy)).all() for one in state)


@fb.model
def classes():
    z = yield dist.Categorical(np.array([0.5, 0.3, 0.2])).expand([6])
    mu = yield dist.Normal(0.0, 3.0).expand([3])
    y = yield dist.Normal(mu[z], 1.0)


class GibbsCheckpoints(Checkpoints):
    name = "gibbs"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        post = classes().condition(y=np.array([-2.0, -1.9, 0.1, 0.2, 3.0, 3.1]))
        sampler = post.eliminate("mu").gibbs("z", engine="python")

        def run(path: Path) -> Any:
            return sampler.run(jax.random.key(0), sweeps=20, chains=2, checkpoint=path, progress=False)

        self.made(run, 15)
        self.captured(label_sampler, run)

    def is_possible(self, state: Any, drawn: Any, kept: int) -> bool:
        labels = [drawn.values["z"][:, :kept], *(one.labels["z"] for one in state)]
        return all(part.size == 0 or (part.min() >= 0 and part.max() <= 2) for part in labels)


class CompiledCode(Subject):
    name, suffix = "cache", ".nbc"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.kept = CacheFiles(folder, "loops_0.f")
        self.code = ("library", os.urandom(2000), {"a": [1.0, 2]})
        self.kept.save("key", self.code)
        self.seeds = [self.kept.path("key").read_bytes()]

    def read(self, content: bytes) -> Any:
        self.kept.path("key").write_bytes(content)
        return self.kept.load("key")

    def fault(self, content: bytes, found: Any) -> str:
        """The code, or nothing, and then the file is removed."""
        if found is None:
            return "the damaged file is still there" if self.kept.path("key").exists() else ""
        return "" if found == self.code else "other code than was written"


SUBJECTS = {
    one.name: one
    for one in (Bif, XmlBif, Xdsl, Net, Uai, Evidence, Json, NutsCheckpoints, GibbsCheckpoints, CompiledCode)
}
