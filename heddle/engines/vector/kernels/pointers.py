"""Arrays over memory that isn't NumPy's, inside compiled code."""

from typing import Any

from numba import types
from numba.extending import intrinsic


def _pointer_to(element: Any) -> Any:  # noqa: ANN401 - Numba's own objects
    def pointer(typing_context: Any, address: Any) -> Any:  # noqa: ANN401
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ANN401
            return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

        return types.CPointer(element)(types.int64), generate

    return intrinsic(pointer)


float32_pointer = _pointer_to(types.float32)
"""An address (int64) -> a pointer to float32, for `numba.carray`."""

int64_pointer = _pointer_to(types.int64)
"""An address (int64) -> a pointer to int64, for `numba.carray`."""
