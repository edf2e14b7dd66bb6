"""Run-time checks of array annotations, installed by an import hook.

A call that violates an annotation is repeated without the check. If the function itself raises
FighterError, that error passes: functions for users check their arguments by hand, for their own
messages. Otherwise the violation is raised.
"""

import ast
import sys
from functools import wraps
from importlib.machinery import PathFinder, SourceFileLoader

from beartype import BeartypeConf, beartype
from jaxtyping import TypeCheckError, jaxtyped

ARRAYS = {"Float", "Bool", "Tensor"}
_check = jaxtyped(typechecker=beartype(conf=BeartypeConf(is_pep484_tower=True)))  # int is a float


def checked(function):
    """Wrap a function so that every call is checked against its annotations."""
    strict = _check(function)

    @wraps(function)
    def call(*args, **kwargs):
        try:
            return strict(*args, **kwargs)
        except TypeCheckError as violation:
            if not hasattr(violation, "confirmed"):  # else an inner call has raised it
                _raise_own_error(function, args, kwargs)
                violation.confirmed = True
            raise

    return call


def _raise_own_error(function, args, kwargs):
    from fighter.errors import FighterError

    try:
        function(*args, **kwargs)
    except FighterError:
        raise
    except Exception:  # the violation says more
        pass


class _Decorator(ast.NodeTransformer):
    """Decorates the functions whose annotations name an array type."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        self.generic_visit(node)
        parts = [*ast.walk(node.args), *(ast.walk(node.returns) if node.returns else ())]
        if ARRAYS & {part.id for part in parts if isinstance(part, ast.Name)}:
            decorator = ast.parse("__import__('tests.shapes').shapes.checked", mode="eval").body
            node.decorator_list.append(ast.copy_location(decorator, node))
        return node


class _Loader(SourceFileLoader):
    """Compiles a module with decorated functions; nothing is cached on disk."""

    def get_code(self, fullname: str):
        tree = _Decorator().visit(ast.parse(self.get_data(self.path), self.path))
        return compile(ast.fix_missing_locations(tree), self.path, "exec", dont_inherit=True)


class _Finder:
    def __init__(self, packages: tuple[str, ...]):
        self.packages = packages

    def find_spec(self, fullname, path=None, target=None):
        if not any(f"{fullname}.".startswith(f"{package}.") for package in self.packages):
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _Loader(spec.loader.name, spec.loader.path)
        return spec


def check_annotations(*packages: str) -> None:
    """Check the array annotations of all modules in ``packages`` imported from now on."""
    sys.meta_path.insert(0, _Finder(packages))
