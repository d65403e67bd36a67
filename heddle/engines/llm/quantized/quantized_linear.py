"""Layers whose weights lie on a grid of 8 bits, in panels. (ADR 47)"""

from typing import Final

import torch
from torch import Tensor, nn

from heddle.engines.llm.quantized.panels import SIDE_BY_SIDE, Panels
from heddle.kernels.operations import Operation
from heddle.kernels.quantized_kernel import (
    QuantizedKernel,
    QuantizedProduct,
    Unpacking,
)

WHOLE_ROWS_MAX: Final = 16  # that are multiplied by whole numbers: QUANTIZED_ROWS of `quantized.h`
# Weights that become float32 at once: they and their products stay in the second cache.
UNPACKED_NUMBERS: Final = 1 << 18
# Rows on their grid take 2.25 bytes of an input each: 16 of them in tiles of 6, and BLOCK_ROWS of
# `quantized_tiles.h`. Where many rows need a pair of panels in bfloat16 instead, it takes 64.
SCRATCH_OF_INPUT: Final = 42
MANY_SCRATCH_OF_INPUT: Final = 216


class QuantizedLinear(nn.Module):
    """A linear layer with weights on a grid of 8 bits.

    Up to 16 rows are brought onto a grid of 15 bits and multiplied as whole numbers, and so are
    more of them in float32 where the CPU does that fast. Elsewhere weights become numbers again for
    more rows, a piece at a time.

    Args:
        panels: the weights.
        bias: [out], of the number type that the model computes in; None: there is none.
        kernel: the compiled kernel of that number type.
    """

    def __init__(self, panels: Panels, bias: Tensor | None, kernel: QuantizedKernel) -> None:
        super().__init__()
        self.panels = panels
        self.bias = None if bias is None else nn.Parameter(bias, requires_grad=False)
        self._kernel = kernel
        self._inputs, self._outputs = panels.inputs, panels.outputs

    def __deepcopy__(self, memo: object) -> "QuantizedLinear":
        """Return itself: weights don't change."""
        return self

    def forward(self, rows: Tensor) -> Tensor:
        """Return rows @ weight.T + bias. Shapes: rows [..., n, in]; result [..., n, out]."""
        rows = rows.contiguous()
        out = rows.new_empty(*rows.shape[:-1], self._outputs)
        count = rows.numel() // self._inputs
        is_many = count > WHOLE_ROWS_MAX
        if is_many and self._kernel.multiply_many is None:
            self._multiply_by_torch(rows.view(count, -1), out.view(count, -1))
        elif count:
            self._multiply(rows, out, count, is_many=is_many)
        return out

    @property
    def few_rows_max(self) -> int:
        """Most rows of `few_rows`."""
        return WHOLE_ROWS_MAX

    def scratch_bytes(self, threads: int) -> int:
        """What a product takes beside its inputs and outputs [bytes]."""
        return threads * SCRATCH_OF_INPUT * self._inputs

    def few_rows(self, rows: Tensor, out: Tensor, scratch: Tensor) -> Operation:
        """Return the product of few rows, for the kernel to compute later.

        Shapes: rows [n, in], out [n, out], contiguous; scratch [`scratch_bytes`] uint8.
        """
        product = self._product(rows, out, len(rows), scratch, self.scratch_bytes(threads=1))
        return Operation(self._kernel.multiply_quantized, product)

    def _multiply(self, rows: Tensor, out: Tensor, count: int, *, is_many: bool) -> None:
        threads = torch.get_num_threads()
        each = (MANY_SCRATCH_OF_INPUT if is_many else SCRATCH_OF_INPUT) * self._inputs
        scratch = torch.empty(threads * each, dtype=torch.uint8)
        product = self._product(rows, out, count, scratch, each)
        self._kernel.multiply(product, threads, is_many=is_many)

    def _product(
        self, rows: Tensor, out: Tensor, count: int, scratch: Tensor, scratch_bytes: int
    ) -> QuantizedProduct:
        return QuantizedProduct(
            rows=rows.data_ptr(),
            weights=self.panels.data.data_ptr(),
            bias=None if self.bias is None else self.bias.data_ptr(),
            out=out.data_ptr(),
            scratch=scratch.data_ptr(),
            scratch_bytes=scratch_bytes,
            count=count,
            inputs=self._inputs,
            outputs=self._outputs,
            threads=torch.get_num_threads(),
        )

    def _multiply_by_torch(self, rows: Tensor, out: Tensor) -> None:
        """Compute in float32. Shapes: rows [n, in]; out [n, out]. Mutates: out."""
        threads = torch.get_num_threads()
        panels = self.panels.data
        at_once = max(1, UNPACKED_NUMBERS // (self._inputs * SIDE_BY_SIDE))
        numbers = torch.empty(min(at_once, len(panels)) * self._inputs * SIDE_BY_SIDE)
        for start in range(0, len(panels), at_once):
            part = panels[start : start + at_once]
            self._kernel.unpack(
                Unpacking(
                    weights=part.data_ptr(),
                    out=numbers.data_ptr(),
                    panels=len(part),
                    inputs=self._inputs,
                ),
                threads,
            )
            first, width = start * SIDE_BY_SIDE, len(part) * SIDE_BY_SIDE
            weight = numbers[: self._inputs * width].view(self._inputs, width)
            product = out[:, first : first + width]
            torch.mm(rows, weight[:, : product.shape[1]], out=product)
        if self.bias is not None:
            out.add_(self.bias)


class QuantizedEmbedding(nn.Module):
    """An embedding whose rows are taken from panels.

    Args:
        panels: [vocabulary, hidden].
        dtype: the number type that the model computes in; an empty parameter `weight` has it.
    """

    def __init__(self, panels: Panels, dtype: torch.dtype) -> None:
        super().__init__()
        self.panels = panels
        empty = torch.empty(0, panels.inputs, dtype=dtype)
        self.weight = nn.Parameter(empty, requires_grad=False)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the tokens' rows. Shapes: tokens [...] int64; result [..., hidden]."""
        rows = self.panels.rows(tokens.flatten()).to(self.weight.dtype)
        return rows.view(*tokens.shape, -1)
