"""Shapes in signatures: ``Float[Tensor, "batch heads nodes width"]``.

The tests check them on every call (``tests/shapes.py``). Without jaxtyping, as in a plain install,
an annotation stands for its array type alone.
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
