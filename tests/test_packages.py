"""The packages Fighter needs: their licences, their versions, and what its own archives hold.

``python -m tests.test_packages`` prints the licence of every package that a user may get, and fails
if one is not allowed; with ``--versions`` it prints versions only.
"""

import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]

# Licences that let Fighter be used and passed on under its own. MPL-2.0 and LGPL bind changes of
# their files only, which Fighter does not make.
ALLOWED = {
    "0BSD", "Apache-2.0", "Apache-2.0 WITH LLVM-exception", "BSD-2-Clause", "BSD-3-Clause",
    "BSL-1.0", "CC0-1.0", "HPND", "ISC", "MIT", "MIT-CMU", "MPL-2.0", "PSF-2.0", "Python-2.0",
    "Unlicense", "Zlib",
}  # fmt: skip
# Names in classifiers and in the older field License, as SPDX.
SPDX = {
    "Apache Software License": "Apache-2.0",
    "Apache 2.0": "Apache-2.0",
    "Apache 2.0 License": "Apache-2.0",
    "Apache License 2.0": "Apache-2.0",
    "BSD License": "BSD-3-Clause",
    "BSD": "BSD-3-Clause",
    "3-Clause BSD License": "BSD-3-Clause",
    "ISC License (ISCL)": "ISC",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-2.0",
    "Dual License": "Apache-2.0 OR BSD-3-Clause",  # python-dateutil
}
# The libraries of CUDA, which torch brings on Linux. Their licence is NVIDIA's own; Fighter neither
# holds them nor passes them on.
OTHER_TERMS = ("nvidia-", "cuda-")


def bounded() -> dict[str, str]:
    """Return the lowest version of every requirement that has one."""
    wanted = map(Requirement, [*PROJECT["dependencies"], *(r for x in EXTRAS.values() for r in x)])
    return {canonicalize_name(r.name): str(r.specifier) for r in wanted if r.name != "fighter"}


def pins(name: str) -> dict[str, str]:
    lines = (ROOT / name).read_text().splitlines()
    return dict(line.split("==") for line in lines if line and not line.startswith("#"))


def packages() -> dict[str, Distribution]:
    """Return the installed packages that an installation with every extra brings."""
    extras = [EXTRAS[name] for name in EXTRAS if name != "dev"]
    todo = [Requirement(text) for texts in (PROJECT["dependencies"], *extras) for text in texts]
    found: dict[str, Distribution] = {}
    seen = set()
    while todo:
        wanted = todo.pop()
        name = canonicalize_name(wanted.name)
        if (key := (name, *sorted(wanted.extras))) in seen or name == "fighter":
            continue
        seen.add(key)
        try:
            found[name] = distribution(name)
        except PackageNotFoundError:
            continue
        for needed in map(Requirement, found[name].requires or ()):
            asked = [{"extra": extra} for extra in (*wanted.extras, "")]
            if needed.marker is None or any(map(needed.marker.evaluate, asked)):
                todo.append(needed)
    return dict(sorted(found.items()))


def licence(package: Distribution) -> str:
    """Return the licence a package declares, as SPDX where its name is known."""
    data = package.metadata
    if expression := data.get("License-Expression"):
        return expression
    classes = [text.rpartition(" :: ")[2] for text in data.get_all("Classifier") or ()
               if text.startswith("License ::")]  # fmt: skip
    classes = [text for text in classes if text != "OSI Approved"]
    names = classes or [(data.get("License") or "unknown").strip().partition("\n")[0]]
    return " AND ".join(SPDX.get(name, name) for name in names)


def allowed(expression: str) -> bool:
    """Return True if a licence, or one of those to choose from, is allowed."""
    if "(" in expression:  # without taking brackets apart: every licence in it must be allowed
        expression = re.sub(r"[()]", "", expression).replace(" OR ", " AND ")
    return any({*choice.split(" AND ")} <= ALLOWED for choice in expression.split(" OR "))


def refused(found: dict[str, Distribution]) -> dict[str, str]:
    """Return the packages whose licence is not allowed."""
    names = [name for name in found if not name.startswith(OTHER_TERMS)]
    return {name: text for name in names if not allowed(text := licence(found[name]))}


def test_the_licences_of_all_packages_are_allowed():
    found = packages()
    assert {"torch", "numpy", "pandas", "matplotlib", "plotly"} <= found.keys()
    assert refused(found) == {}


@pytest.mark.parametrize(
    ("expression", "verdict"),
    [("MIT", True), ("MIT AND GPL-3.0-only", False), ("GPL-2.0-only OR MIT", True),
     ("AGPL-3.0-or-later", False), ("unknown", False), ("(MIT OR Apache-2.0) AND GPL-3.0", False)],
)  # fmt: skip
def test_a_licence_is_allowed_if_every_part_of_one_choice_is(expression, verdict):
    assert allowed(expression) == verdict


def test_the_lowest_versions_are_those_of_the_project():
    lowest = pins("constraints-lowest.txt")
    limits = {name: text for name, text in bounded().items() if text}
    for name, specifier in limits.items():
        bound = Version(re.fullmatch(r">=([\d.]+)", specifier)[1])
        assert Version(lowest[name]) == bound, f"{name}{specifier} is tested with {lowest[name]}"


def test_whatever_users_install_has_a_lowest_version():
    tools = {canonicalize_name(Requirement(text).name) for text in EXTRAS["dev"]}
    assert {name for name, text in bounded().items() if not text} <= tools


def test_every_direct_requirement_is_pinned_within_its_bounds():
    pinned = pins("constraints.txt")
    for name, specifier in bounded().items():
        assert Requirement(f"{name}{specifier}").specifier.contains(pinned[name]), name


@pytest.fixture(scope="module")
def archives(tmp_path_factory):
    pytest.importorskip("hatchling", reason="hatchling is not installed")
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as file:
        in_wheel = file.namelist()
    with tarfile.open(sdist) as file:
        in_sdist = [name.partition("/")[2] for name in file.getnames()]
    return in_wheel, in_sdist


@pytest.mark.slow
def test_the_wheel_holds_the_package_and_its_licence_only(archives):
    in_wheel, _ = archives
    info = [name for name in in_wheel if ".dist-info/" in name]
    assert {"LICENSE", "NOTICE"} <= {name.rpartition("/")[2] for name in info}
    rest = {*in_wheel} - {*info}
    tracked = {str(p.relative_to(ROOT / "src")) for p in (ROOT / "src").rglob("*") if p.is_file()}
    assert rest == {name for name in tracked if "__pycache__" not in name}
    weights = "fighter/models/pretrained.safetensors"
    assert all(name.endswith((".py", ".html", "py.typed")) for name in rest - {weights})


@pytest.mark.slow
def test_the_sdist_holds_what_the_tests_need(archives):
    _, in_sdist = archives
    assert {"LICENSE", "NOTICE", "README.md", "pyproject.toml", "constraints.txt"} <= {*in_sdist}
    tops = {name.partition("/")[0] for name in in_sdist}
    assert {"src", "tests", "docs", "paper", "benchmarks"} <= tops
    assert not tops & {"results", ".venv", ".lowest-venv", "fighter-demo"}


if __name__ == "__main__":
    installed = packages()
    for name, package in installed.items():
        version = package.version.partition("+")[0]
        row = f"{name:28}{version:16}{licence(package)}"
        sys.stdout.write((f"{name}=={version}" if "--versions" in sys.argv else row) + "\n")
    if refused(installed):
        sys.exit(f"not allowed: {refused(installed)}")
