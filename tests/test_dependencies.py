"""What saferank stands on: pinned with hashes, nothing more than needed, private parts bounded."""

import inspect
import re
import tomllib
from importlib import metadata
from pathlib import Path

import numba.core.caching
import numba.core.cgutils
import numba.core.typing.templates
import numba.extending
import pytest
from numba.core.datamodel.models import PrimitiveModel
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from saferank._core import kernels
from saferank.plackett_luce import lanes

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
LOCKS = {
    name: (ROOT / name).read_text() for name in ("requirements.lock", "requirements-build.lock")
}
ENTRY = re.compile(r"^([a-z0-9-]+)==(\S+)( ; [^\\\n]+)?((?: \\\n    --hash=sha256:[0-9a-f]{64})+)$")


def entries(text):
    """Packages with their versions; some have one for some Pythons and another for others."""
    blocks = re.split(r"\n(?=[a-z])", re.sub(r"^#.*\n", "", text, flags=re.MULTILINE).strip())
    matches = [ENTRY.match(block) for block in blocks]
    assert all(matches), "a line without version or hash"
    return by_name(f"{match[1]}=={match[2]}{match[3] or ''}" for match in matches)


def pins():
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    return by_name(line for line in lines if not line.startswith("#"))


def by_name(lines):
    versions: dict[str, set[str]] = {}
    for line in lines:
        name, _, version = line.partition("==")
        versions.setdefault(name, set()).add(version)
    return versions


def test_every_package_but_torch_has_a_version_and_hashes():
    locked = entries(LOCKS["requirements.lock"])
    assert {**locked, "torch": {"2.13.0"}} == pins()
    built = entries(LOCKS["requirements-build.lock"])
    assert all(versions <= locked[name] for name, versions in built.items())


def roots():
    project = PROJECT["project"]
    extras = [one for group in project["optional-dependencies"].values() for one in group]
    build = [*PROJECT["build-system"]["requires"], "pip", "setuptools", "editables"]
    return [Requirement(one) for one in (*project["dependencies"], *extras, *build)]


def test_every_direct_dependency_is_pinned_within_its_bounds():
    known = pins()
    for requirement in roots():
        if requirement.name != "saferank":
            versions = {one.split(" ;")[0] for one in known[canonicalize_name(requirement.name)]}
            assert all(requirement.specifier.contains(version) for version in versions)


def test_nothing_is_pinned_that_nothing_needs():
    needed, left = set(), roots()
    while left:
        requirement = left.pop()
        name, extras = canonicalize_name(requirement.name), sorted(requirement.extras)
        if (name, *extras) in needed:
            continue
        needed.add((name, *extras))
        try:
            inner = [Requirement(one) for one in metadata.requires(name) or ()]
        except metadata.PackageNotFoundError:
            continue  # for another system or Python
        for one in inner:
            wanted = [{"extra": extra} for extra in ("", *extras)]
            if one.marker is None or any(one.marker.evaluate(how) for how in wanted):
                left.append(one)
    installed = {canonicalize_name(one.name) for one in metadata.distributions()}
    assert set(pins()) & installed - {name for name, *_ in needed} == set()


def test_the_build_is_pinned():
    (tool,) = PROJECT["build-system"]["requires"]
    (version,) = pins()["hatchling"]
    assert tool == f"hatchling=={version}"


PRIVATE = {
    "numba": re.compile(r"\bnumba\.core\b|\bnumba\.config\b"),
    "llvmlite": re.compile("llvmlite"),
}


@pytest.mark.parametrize("name", PRIVATE)
def test_a_dependency_whose_private_parts_are_used_has_an_upper_bound(name):
    text = "\n".join(path.read_text() for path in (ROOT / "src").rglob("*.py"))
    assert PRIVATE[name].search(text)
    (requirement,) = [one for one in roots() if one.name == name]
    assert any(one.operator == "<" for one in requirement.specifier)


def test_no_other_private_part_of_a_dependency_is_imported():
    pattern = re.compile(
        r"^\s*(?:from|import) ((?!saferank|__future__)\w+(?:\.\w+)*\.(?:_\w+|core)\b)", re.M
    )
    found = {
        match[1].split(".")[0]
        for path in (ROOT / "src").rglob("*.py")
        for match in pattern.finditer(path.read_text())
    }
    assert found <= set(PRIVATE)


def test_numbas_cache_is_what_ours_is_made_of():
    base = numba.core.caching.FunctionCache
    for name, wanted in {
        "load_overload": ["self", "sig", "target_context"],
        "save_overload": ["self", "sig", "data"],
        "flush": ["self"],
    }.items():
        assert list(inspect.signature(getattr(base, name)).parameters) == wanted
    dispatcher = kernels._compiled(vars(lanes)["between"].py_func)
    assert isinstance(dispatcher._cache, kernels._KernelCache)
    stamp = dispatcher._cache._cache_file._source_stamp
    assert stamp[1] == kernels._SOURCES
    assert isinstance(vars(numba.config)["CACHE_DIR"], str)


def test_numbas_tools_for_new_types_are_what_lanes_are_made_of():
    parameters = inspect.signature(PrimitiveModel.__init__).parameters
    assert list(parameters) == ["self", "dmm", "fe_type", "be_type"]
    for home, names in {
        numba.extending: ("intrinsic", "lower_builtin", "register_model"),
        numba.core.typing.templates: ("AbstractTemplate", "infer_global", "signature"),
        numba.core.cgutils: ("get_or_insert_function",),
    }.items():
        assert all(callable(getattr(home, name, None)) for name in names)
