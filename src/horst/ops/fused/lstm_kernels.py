"""The Triton kernels of `lstm`: tiles [BP pixels, CP channels], arithmetic in float32.

Shapes: N maps of P pixels, so R = N * P rows; C channels, padded to CP. Channels have stride 1; `*_n` and `*_p` are the
strides of maps and pixels, where a tensor may be a slice of a clip. The others are contiguous, (R, C) or (R, 4 C).
Gates lie side by side: i, f, o, g.
"""

# Triton compiles these functions from source: their arguments have no Python types.
# mypy: disable-error-code="no-untyped-def, untyped-decorator, misc"
# ruff: noqa: N803

import triton
import triton.language as tl

ANY_ALIGNMENT = ["observed"]  # A slice of a clip, frame by frame: aligned or not, one compilation serves all


@triton.jit
def _tanh(x):
    return 2.0 * tl.sigmoid(2.0 * x) - 1.0


@triton.jit
def _gate(observed, at, recurrent, there, k, C: tl.constexpr, inside):
    """One of the four, before its activation."""
    seen = tl.load(observed + at + k * C, mask=inside, other=0.0).to(tl.float32)
    return seen + tl.load(recurrent + there + k * C, mask=inside, other=0.0).to(tl.float32)


@triton.jit
def _gates(
    observed, observed_n, observed_p, recurrent, recurrent_n, recurrent_p, r, c, P, C: tl.constexpr, inside
):  # fmt: skip
    """i, f, o and g of rows r and channels c."""
    n, p = (r // P).to(tl.int64), r % P
    at = (n * observed_n + p * observed_p)[:, None] + c[None, :]
    there = (n * recurrent_n + p * recurrent_p)[:, None] + c[None, :]
    i = tl.sigmoid(_gate(observed, at, recurrent, there, 0, C, inside))
    f = tl.sigmoid(_gate(observed, at, recurrent, there, 1, C, inside))
    o = tl.sigmoid(_gate(observed, at, recurrent, there, 2, C, inside))
    return i, f, o, _tanh(_gate(observed, at, recurrent, there, 3, C, inside))


@triton.jit(do_not_specialize_on_alignment=ANY_ALIGNMENT)
def forward_kernel(
    observed, observed_n, observed_p, recurrent, recurrent_n, recurrent_p, c, h, c_next, R, P,
    C: tl.constexpr, BP: tl.constexpr, CP: tl.constexpr,
):  # fmt: skip
    """h and the next c."""
    r, ch = tl.program_id(0) * BP + tl.arange(0, BP), tl.arange(0, CP)
    inside = (r < R)[:, None] & (ch < C)[None, :]
    i, f, o, g = _gates(
        observed, observed_n, observed_p, recurrent, recurrent_n, recurrent_p, r, ch, P, C, inside
    )  # fmt: skip
    row = r.to(tl.int64)[:, None] * C + ch[None, :]
    now = f * tl.load(c + row, mask=inside, other=0.0).to(tl.float32) + i * g
    tl.store(c_next + row, now.to(c_next.dtype.element_ty), mask=inside)
    tl.store(h + row, (o * _tanh(now)).to(h.dtype.element_ty), mask=inside)


@triton.jit(do_not_specialize_on_alignment=ANY_ALIGNMENT)
def backward_kernel(
    observed, observed_n, observed_p, recurrent, recurrent_n, recurrent_p, c, dh, dc_next, dgates, dc, R, P,
    C: tl.constexpr, BP: tl.constexpr, CP: tl.constexpr,
):  # fmt: skip
    """The gradients at the gates and at c. Everything in between is computed again."""
    r, ch = tl.program_id(0) * BP + tl.arange(0, BP), tl.arange(0, CP)
    inside = (r < R)[:, None] & (ch < C)[None, :]
    i, f, o, g = _gates(
        observed, observed_n, observed_p, recurrent, recurrent_n, recurrent_p, r, ch, P, C, inside
    )  # fmt: skip
    row = r.to(tl.int64)[:, None] * C + ch[None, :]
    before = tl.load(c + row, mask=inside, other=0.0).to(tl.float32)
    shown = _tanh(f * before + i * g)
    given = tl.load(dh + row, mask=inside, other=0.0).to(tl.float32)
    kept = tl.load(dc_next + row, mask=inside, other=0.0).to(tl.float32) + given * o * (1.0 - shown * shown)
    tl.store(dc + row, (kept * f).to(dc.dtype.element_ty), mask=inside)
    out = r.to(tl.int64)[:, None] * (4 * C) + ch[None, :]
    dtype = dgates.dtype.element_ty
    tl.store(dgates + out, (kept * g * i * (1.0 - i)).to(dtype), mask=inside)
    tl.store(dgates + out + C, (kept * before * f * (1.0 - f)).to(dtype), mask=inside)
    tl.store(dgates + out + 2 * C, (given * shown * o * (1.0 - o)).to(dtype), mask=inside)
    tl.store(dgates + out + 3 * C, (kept * i * (1.0 - g * g)).to(dtype), mask=inside)
