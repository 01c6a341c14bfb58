"""Make the pages, pictures and notebooks of the gallery; pages whose data are not there stay as they are.

python -m gallery eight_schools nile
python -m gallery --notebooks            # without running anything
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Sequence
from pathlib import Path

from PIL import Image
from PIL.PngImagePlugin import PngInfo

from gallery.cells import Cell, parse, run, to_notebook
from gallery.contents import CONTENTS, FOLDER, NAMES, PAGES
from gallery.pages import first_sentence, index, page, title


def read(name: str) -> list[Cell]:
    """The cells of a model."""
    return parse((FOLDER / f"{name}.py").read_text(encoding="utf-8"))


def write_notebook(name: str) -> None:
    """Write the notebook, without outputs."""
    path = PAGES / "notebooks" / f"{name}.ipynb"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(to_notebook(read(name)), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def write_page(name: str) -> None:
    """Run the model, and write its page and its pictures."""
    cells = read(name)
    outputs = list(run(cells, name, quick=False))
    pictures = [output.picture for output in outputs if output is not None and output.picture is not None]
    (PAGES / "pictures").mkdir(parents=True, exist_ok=True)
    for place, picture in enumerate(pictures):
        make_small(picture.save(PAGES / "pictures" / f"{name}{f'_{place + 1}' if place else ''}.png"), picture.text)
    (PAGES / f"{name}.md").write_text(page(name, cells, outputs), encoding="utf-8")


def make_small(path: Path, text: str) -> None:
    """Keep 64 colours of a picture, and its text."""
    information = PngInfo()
    information.add_itxt("Description", text)
    Image.open(path).convert("RGB").quantize(64).save(path, optimize=True, pnginfo=information)


def index_rows() -> dict[str, list[tuple[str, str, str]]]:
    """Name, title and question of each model, by theme."""
    return {
        theme: [(name, title(read(name)), first_sentence(read(name))) for name in names]
        for theme, names in CONTENTS.items()
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Make what is asked for, or all."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", help="models; all where none is given")
    parser.add_argument("--notebooks", action="store_true", help="notebooks and the index alone")
    options = parser.parse_args(argv)
    for name in options.names or NAMES:
        write_notebook(name)
        if options.notebooks:
            continue
        if any("FUBINI_DATA" in cell.source for cell in read(name)) and "FUBINI_DATA" not in os.environ:
            print(f"{name}: FUBINI_DATA is unset, the page stays as it is")
            continue
        start = time.process_time()
        write_page(name)
        print(f"{name}: {time.process_time() - start:.1f} s of processor time", flush=True)
    (PAGES / "index.md").write_text(index(index_rows()), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
