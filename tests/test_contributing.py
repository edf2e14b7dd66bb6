"""CONTRIBUTING.md: the map is made from module docstrings, and what the walks name exists."""

import ast
import re
import tomllib
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "CONTRIBUTING.md"
START, END = "<!-- map: written by `make map` -->\n", "<!-- end of map -->"


def rooms() -> list[str]:
    """Packages and root modules, from the top of the import contract to its bottom."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    layers = project["tool"]["importlinter"]["contracts"][0]["layers"]
    return [name.strip() for layer in layers for name in layer.split("|")]


def described(path: Path) -> str:
    """Return the first line of a module's docstring."""
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    assert text, f"{path} has no docstring"
    return text.splitlines()[0]


def module_map() -> str:
    lines = []
    for room in rooms():
        base = ROOT / ("src" if room.startswith("fighter") else "") / Path(*room.split("."))
        top = ROOT / "src" if room.startswith("fighter") else ROOT
        if not base.is_dir():
            file = base.with_suffix(".py")
            lines.append(f"- **`{file.relative_to(top)}`**: {described(file)}")
            continue
        lines.append(f"- **`{base.relative_to(top)}/`**: {described(base / '__init__.py')}")
        for file in sorted(base.rglob("*.py")):
            if file.name == "__init__.py" and file.parent == base:
                continue
            name = file.parent if file.name == "__init__.py" else file
            lines.append(f"  - `{name.relative_to(base)}`: {described(file)}")
    return "\n".join(lines) + "\n"


def parts() -> tuple[str, str, str]:
    head, _, rest = PAGE.read_text(encoding="utf-8").partition(START)
    written, _, tail = rest.partition(END)
    return head, written, tail


def test_the_map_is_what_the_module_docstrings_say():
    assert parts()[1] == module_map(), "run make map"


def test_every_stop_of_the_walks_exists():
    names = re.findall(r"`(fighter\.[\w.]+\.\w+)`", PAGE.read_text(encoding="utf-8"))
    assert len(names) > 15
    for name in names:
        module, attributes = name.split("."), []
        while module:
            try:
                found = import_module(".".join(module))
                break
            except ImportError:
                attributes.insert(0, module.pop())
        for attribute in attributes:
            found = getattr(found, attribute)


if __name__ == "__main__":
    head, _, tail = parts()
    PAGE.write_text(head + START + module_map() + END + tail, encoding="utf-8")
