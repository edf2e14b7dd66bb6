"""Shapes in signatures: ``Float[Tensor, "batch heads nodes width"]``.

With jaxtyping installed (the tests have it) the shapes are checked on every call; without it,
as in a plain install, an annotation means just its array type.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int
else:
    try:
        from jaxtyping import Bool, Float, Int
    except ImportError:

        class _Unchecked:
            def __class_getitem__(cls, item: tuple[Any, str]) -> Any:
                return item[0]

        Bool = Float = Int = _Unchecked

__all__ = ["Bool", "Float", "Int"]
