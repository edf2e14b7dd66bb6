"""Run-time checks of array annotations, installed by an import hook.

A call that violates an annotation is repeated without the check. If the function itself raises
FighterError, that error passes: functions for users check their arguments by hand, for their own
messages. Otherwise the violation is raised.
"""

import ast
import sys
from functools import wraps
from importlib.machinery import PathFinder, SourceFileLoader
from inspect import isgeneratorfunction
from typing import get_args

from beartype import beartype
from jaxtyping import AbstractArray, TypeCheckError, jaxtyped
from torch import Tensor


def checked(function):
    """Wrap a function with arrays in its annotations so that every call is checked."""
    hints = function.__annotations__
    if not any(map(_has_array, hints.values())):
        return function
    function.__annotations__ = {name: hint for name, hint in hints.items() if _has_array(hint)}
    strict = jaxtyped(typechecker=beartype)(function)
    function.__annotations__ = hints

    @wraps(function)
    def call(*args, **kwargs):
        try:
            return strict(*args, **kwargs)
        except TypeCheckError as violation:
            if not hasattr(violation, "confirmed"):  # else an inner call has raised it
                _raise_own_error(function, args, kwargs)
                violation.confirmed = True
            raise

    @wraps(function)
    def generate(*args, **kwargs):
        return (yield from call(*args, **kwargs))

    # Other decorators, such as torch.no_grad, treat generator functions differently.
    return generate if isgeneratorfunction(function) else call


def _has_array(hint) -> bool:
    if isinstance(hint, type) and issubclass(hint, Tensor | AbstractArray):
        return True
    return any(map(_has_array, get_args(hint)))


def _raise_own_error(function, args, kwargs):
    from fighter.errors import FighterError

    try:
        function(*args, **kwargs)
    except FighterError:
        raise
    except Exception:  # the violation says more
        pass


class _Decorator(ast.NodeTransformer):
    """Decorates all functions; those without arrays in their annotations stay as they are."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        self.generic_visit(node)
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
