"""Linear layers whose weights lie in memory as steps read them fastest. (ADR 8, ADR 45)"""

import ctypes
import logging
from typing import Final

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from heddle.core.instruction_sets import multiplies_bfloat16
from heddle.engines.llm.model.huge_pages import move_to_huge_pages
from heddle.kernels.compiled_kernel import (
    Product,
    RowKernel,
    find_row_kernel,
)
from heddle.kernels.operations import Operation

PACKED_ROWS_MAX: Final = 96  # beyond it the plain product is as fast
# Of all layouts that oneDNN makes, the best one for 2 to 32 rows, and as good as any for 64.
PACKED_FOR_ROWS: Final = 4
FEW_ROWS_MAX: Final = 32  # that the compiled kernel multiplies: `few_rows.h`
DEPTH: Final = 32  # inputs are a multiple of it
log = logging.getLogger(__name__)


class PackedLinear(nn.Module):
    """A linear layer with a second copy of its weights, in oneDNN's blocked layout.

    A step that decodes has one row for each sequence, and torch lays weights out for many. The
    packed copy serves 2 to 96 rows. The loaded weights are stored column by column, which is
    fastest for a single row and as good for many.

    Args:
        linear: the layer to stand in for; float32, on the CPU.

    Mutates: the layer's weight is stored anew; it stays the same parameter.
    """

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.weight = linear.weight
        self.bias = linear.bias
        weight = linear.weight.detach()
        self._packed = torch.ops.mkldnn._reorder_linear_weight(weight, PACKED_FOR_ROWS)
        self.weight.data = weight.t().contiguous().t()

    def forward(self, rows: Tensor) -> Tensor:
        """Return rows @ weight.T + bias. Shapes: rows [..., n, in]; result [..., n, out]."""
        if 1 < rows.shape[-2] <= PACKED_ROWS_MAX:
            result: Tensor = torch.ops.mkldnn._linear_pointwise(
                rows, self._packed, self.bias, "none", [], ""
            )
            return result
        return F.linear(rows, self.weight, self.bias)


class BlockedLinear(nn.Module):
    """A linear layer whose weights lie in oneDNN's blocked layout alone, for any number of rows.

    In bfloat16 torch would bring them into it anew in each call, so no other copy is kept. Few rows
    are multiplied by the compiled kernel, which reads the weights 1.5 times as fast as oneDNN does.

    Args:
        linear: the layer to stand in for; bfloat16, on a CPU that multiplies it in hardware.
    """

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.bias = linear.bias
        weight = linear.weight.detach()
        self._outputs, self._inputs = weight.shape
        self._packed = torch.ops.mkldnn._reorder_linear_weight(weight, PACKED_FOR_ROWS)
        self._address = int(torch.ops.mkldnn.data_ptr(self._packed))
        self._stop = self._address + int(torch.ops.mkldnn._nbytes(self._packed))
        self._kernel = find_row_kernel(in_bfloat16=True).kernel
        if self._kernel is not None and not self._is_in_panels(weight, self._kernel.panel):
            log.info("few rows are multiplied by oneDNN: weights lie in a layout of their own")
            self._kernel = None

    def __deepcopy__(self, memo: object) -> "BlockedLinear":
        """Return itself: weights don't change, and a copy would read them at its own address."""
        return self

    @property
    def span(self) -> tuple[int, int]:
        """The addresses [first, stop) of the weights."""
        return self._address, self._stop

    def forward(self, rows: Tensor) -> Tensor:
        """Return rows @ weight.T + bias. Shapes: rows [..., n, in]; result [..., n, out]."""
        count = rows.numel() // self._inputs
        if self._kernel is not None and 0 < count <= FEW_ROWS_MAX:
            return self._multiplied(self._kernel, rows.contiguous(), count)
        result: Tensor = torch.ops.mkldnn._linear_pointwise(
            rows, self._packed, self.bias, "none", [], ""
        )
        return result

    @property
    def few_rows_max(self) -> int:
        """Most rows of `few_rows`; 0: the compiled kernel can't read these weights."""
        return 0 if self._kernel is None else FEW_ROWS_MAX

    def scratch_bytes(self, threads: int) -> int:
        """What a product takes beside its inputs and outputs [bytes]."""
        return 0

    def few_rows(self, rows: Tensor, out: Tensor, scratch: Tensor) -> Operation:
        """Return the product of few rows, for the kernel to compute later.

        Shapes: rows [n, in], out [n, out], contiguous.
        """
        assert self._kernel is not None, "oneDNN multiplies here"
        assert self._kernel.multiply_few is not None, "only the kernel for bfloat16 multiplies"
        return Operation(self._kernel.multiply_few, self._product(rows, out, len(rows)))

    def _multiplied(self, kernel: RowKernel, rows: Tensor, count: int) -> Tensor:
        out = rows.new_empty(*rows.shape[:-1], self._outputs)
        kernel.multiply(self._product(rows, out, count), torch.get_num_threads())
        return out

    def _product(self, rows: Tensor, out: Tensor, count: int) -> Product:
        return Product(
            rows=rows.data_ptr(),
            weights=self._address,
            bias=None if self.bias is None else self.bias.data_ptr(),
            out=out.data_ptr(),
            count=count,
            inputs=self._inputs,
            outputs=self._outputs,
        )

    def _is_in_panels(self, weight: Tensor, outputs: int) -> bool:
        """Whether the weights lie as the kernel reads them: oneDNN is free to change its layouts.

        The first panel and the last one are looked at: [in / 2, outputs, 2] numbers each.
        """
        if self._inputs % DEPTH:
            return False
        panels = -(-self._outputs // outputs)
        panel_bytes = outputs * self._inputs * weight.element_size()
        if self._stop - self._address != panels * panel_bytes:
            return False
        return all(
            _panel_of(weight, panel, outputs)
            == ctypes.string_at(self._address + panel * panel_bytes, panel_bytes)
            for panel in {0, panels - 1}
        )


def _panel_of(weight: Tensor, panel: int, outputs: int) -> bytes:
    own = weight[panel * outputs : (panel + 1) * outputs]
    filled = F.pad(own.view(torch.int16), (0, 0, 0, outputs - len(own)))
    return filled.view(outputs, -1, 2).transpose(0, 1).contiguous().numpy().tobytes()


def can_pack(device: torch.device, dtype: torch.dtype) -> bool:
    """Whether packing pays: on a CPU in a dtype that it is fast in; oneDNN's operators do it."""
    if device.type != "cpu" or not hasattr(torch.ops.mkldnn, "_reorder_linear_weight"):
        return False
    return dtype is torch.float32 or (dtype is torch.bfloat16 and multiplies_bfloat16())


def pack_linears(model: nn.Module) -> None:
    """Replace every linear layer of a model by a packed one.

    Mutates: the model; packed bfloat16 is moved into huge pages.
    """
    for parent in list(model.modules()):
        for name, child in parent.named_children():
            if type(child) is nn.Linear:
                is_float32 = child.weight.dtype is torch.float32
                setattr(parent, name, (PackedLinear if is_float32 else BlockedLinear)(child))
    blocked = (module for module in model.modules() if isinstance(module, BlockedLinear))
    if spans := [module.span for module in blocked]:
        move_to_huge_pages(spans)
