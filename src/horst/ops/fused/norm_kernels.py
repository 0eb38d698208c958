"""The Triton kernels of `norm`: tiles [BP pixels, CP channels] of one group of one map, arithmetic in float32.

Shapes: N maps, P pixels, G groups (the second grid axis), C channels of ONE group, padded to CP. The first grid axis is
map * blocks + block. Channels have stride 1, so loads along them vectorise; `*_n` and `*_p` are the strides of maps and
pixels. Offsets of maps are int64 (a clip may exceed 2^31 elements), offsets within a map int32. The small tensors
(moments, stats, sums, gates, pooled maps) are contiguous. Sums run in a fixed order, without atomics: every result is
the same from run to run. Conditions on `None` and on constants are the compiler's, those on `g` and `block` a
program's: that is why they nest and repeat.
"""

import triton
import triton.language as tl

ANY_ALIGNMENT = ["stats", "pooled", "spread", "dpre"]
"""Slices of a clip's buffers, frame by frame: aligned or not, one compilation serves all."""


@triton.jit
def _load(x, stride_p, p, c, inside):
    return tl.load(x + p[:, None] * stride_p + c[None, :], mask=inside, other=0.0).to(tl.float32)


@triton.jit
def _store(out, stride_p, p, c, inside, y):
    tl.store(out + p[:, None] * stride_p + c[None, :], y.to(out.dtype.element_ty), mask=inside)


@triton.jit
def _row(x, c, C: tl.constexpr):
    """A value per channel, as a row that broadcasts over a tile."""
    return tl.load(x + c, mask=c < C, other=0.0).to(tl.float32)[None, :]


@triton.jit
def _activate(z, ACT: tl.constexpr):
    if ACT == "relu":
        z = tl.maximum(z, 0.0)
    elif ACT == "silu":
        z = z * tl.sigmoid(z)
    return z


@triton.jit
def _slope(z, ACT: tl.constexpr):
    """The activation's derivative at z; at 0 that of relu is 0, as in PyTorch."""
    slope = z * 0.0 + 1.0
    if ACT == "relu":
        slope = tl.where(z > 0.0, 1.0, 0.0)
    elif ACT == "silu":
        s = tl.sigmoid(z)
        slope = s * (1.0 + z * (1.0 - s))
    return slope


@triton.jit
def _merge(moments, row, P, C: tl.constexpr, BP: tl.constexpr, BLOCKS: tl.constexpr):
    """Mean and sum of squared deviations of a whole group, from those of its blocks (Chan et al.)."""
    b = tl.arange(0, BLOCKS)
    blocks = tl.cdiv(P, BP)
    there = b < blocks
    at = moments + row * blocks * 2
    mean = tl.load(at + 2 * b, mask=there, other=0.0)
    m2 = tl.load(at + 2 * b + 1, mask=there, other=0.0)
    count = tl.where(there, tl.minimum(P - b * BP, BP), 0).to(tl.float32) * C
    first = tl.load(at)  # deviations from it are small where the mean is large
    centre = first + tl.sum(count * (mean - first), 0) / (P * C)
    off = mean - centre
    return centre, tl.sum(m2 + count * off * off, 0)


@triton.jit
def moments_kernel(x, x_n, x_p, add, add_n, add_p, moments, P, C: tl.constexpr, BP: tl.constexpr, CP: tl.constexpr):
    """Mean and sum of squared deviations of every block; x becomes x + add where there is one."""
    blocks = tl.cdiv(P, BP)
    n, block, g = (tl.program_id(0) // blocks).to(tl.int64), tl.program_id(0) % blocks, tl.program_id(1)
    p, c = block * BP + tl.arange(0, BP), tl.arange(0, CP)
    inside = (p < P)[:, None] & (c < C)[None, :]
    x += n * x_n + g * C
    v = _load(x, x_p, p, c, inside)
    if add is not None:
        v += _load(add + n * add_n + g * C, add_p, p, c, inside)
        _store(x, x_p, p, c, inside, v)
        v = v.to(x.dtype.element_ty).to(tl.float32)  # later passes read the rounded sum: its statistics count
    count = tl.minimum(P - block * BP, BP) * C
    mean = tl.sum(v) / count
    off = tl.where(inside, v - mean, 0.0)
    at = moments + ((n * tl.num_programs(1) + g) * blocks + block) * 2
    tl.store(at, mean)
    tl.store(at + 1, tl.sum(off * off))


@triton.jit(do_not_specialize_on_alignment=ANY_ALIGNMENT)
def stats_kernel(moments, stats, P, eps, C: tl.constexpr, BP: tl.constexpr, BLOCKS: tl.constexpr):
    """Mean and reciprocal deviation of every group of every map, where no output is asked for."""
    row = tl.program_id(0).to(tl.int64)
    mean, m2 = _merge(moments, row, P, C, BP, BLOCKS)
    tl.store(stats + 2 * row, mean)
    tl.store(stats + 2 * row + 1, tl.rsqrt(m2 / (P * C) + eps))


@triton.jit(do_not_specialize_on_alignment=ANY_ALIGNMENT)
def apply_kernel(
    x, x_n, x_p, moments, stats, weight, bias, gate, out0, out0_n, out0_p, out1, out1_n, out1_p, pooled, P, eps,
    C: tl.constexpr, ACT: tl.constexpr, BP: tl.constexpr, CP: tl.constexpr, BLOCKS: tl.constexpr,
):  # fmt: skip
    """y of a tile. With `moments` each program merges them (a few kB from the L2 cache, cheaper than a launch) and the
    first of a map writes `stats`; without them it reads `stats`."""
    blocks = tl.cdiv(P, BP)
    n, block, g = (tl.program_id(0) // blocks).to(tl.int64), tl.program_id(0) % blocks, tl.program_id(1)
    p, c = block * BP + tl.arange(0, BP), tl.arange(0, CP)
    inside = (p < P)[:, None] & (c < C)[None, :]
    v = _load(x + n * x_n + g * C, x_p, p, c, inside)
    row = n * tl.num_programs(1) + g
    if moments is not None:
        mean, m2 = _merge(moments, row, P, C, BP, BLOCKS)
        rstd = tl.rsqrt(m2 / (P * C) + eps)
        if block == 0:
            tl.store(stats + 2 * row, mean)
            tl.store(stats + 2 * row + 1, rstd)
    else:
        mean, rstd = tl.load(stats + 2 * row), tl.load(stats + 2 * row + 1)
    y = _activate((v - mean) * rstd * _row(weight + g * C, c, C) + _row(bias + g * C, c, C), ACT)
    if gate is not None:
        y += y * _row(gate + n * C, c, C)
    # Stores stand in the branches, not a choice of pointers: so the compiler knows each pointer's alignment.
    if out1 is None:
        _store(out0 + n * out0_n, out0_p, p, c, inside, y)
    elif g == 0:
        _store(out0 + n * out0_n, out0_p, p, c, inside, y)
    else:
        _store(out1 + n * out1_n, out1_p, p, c, inside, y)
    if pooled is not None:
        if g == 0:
            y = y.to(out0.dtype.element_ty).to(tl.float32)
            at, there = pooled + n * 3 * P + p, (c < C)[None, :]
            top = tl.max(tl.where(there, y, float("-inf")), 1)
            tl.store(at, top, mask=p < P)
            tl.store(at + P, tl.sum(tl.where(there, y, 0.0), 1) / C, mask=p < P)
            tl.store(at + 2 * P, tl.sum((there & (y == top[:, None])).to(tl.float32), 1), mask=p < P)


@triton.jit(do_not_specialize_on_alignment=ANY_ALIGNMENT)
def channel_sums_kernel(
    x, x_n, x_p, dy, dy_n, dy_p, stats, weight, bias, sums, scale, P,
    C: tl.constexpr, ACT: tl.constexpr, BP: tl.constexpr, CP: tl.constexpr, TILES: tl.constexpr,
):  # fmt: skip
    """scale * (sum over a block's pixels of z, or of dy * z), z = act(norm(x)); one group."""
    blocks = tl.cdiv(P, BP * TILES)
    n, block = (tl.program_id(0) // blocks).to(tl.int64), tl.program_id(0) % blocks
    c = tl.arange(0, CP)
    mean, rstd = tl.load(stats + 2 * n), tl.load(stats + 2 * n + 1)
    w, b = _row(weight, c, C), _row(bias, c, C)
    total = tl.zeros([CP], tl.float32)
    for t in range(TILES):
        p = (block * TILES + t) * BP + tl.arange(0, BP)
        inside = (p < P)[:, None] & (c < C)[None, :]
        z = _activate((_load(x + n * x_n, x_p, p, c, inside) - mean) * rstd * w + b, ACT)
        if dy is not None:
            z *= _load(dy + n * dy_n, dy_p, p, c, inside)
        total += tl.sum(tl.where(inside, z, 0.0), 0)
    tl.store(sums + (n * blocks + block) * C + c, total * scale, mask=c < C)


@triton.jit(do_not_specialize_on_alignment=ANY_ALIGNMENT)
def filter_gradient_kernel(dpre, weight, pooled, out, width, P, C, BLOCK: tl.constexpr):
    """What the spatial filter sends to a channel (Eq. 4), from dpre (N, P) before its sigmoid: out (N, 2, P), to those
    that reach the maximum, in equal shares as torch.amax has it, and through the mean to all."""
    blocks = tl.cdiv(P, BLOCK)
    n, p = (tl.program_id(0) // blocks).to(tl.int64), tl.program_id(0) % blocks * BLOCK + tl.arange(0, BLOCK)
    row, column = p // width, p % width
    to_max, to_mean = tl.zeros([BLOCK], tl.float32), tl.zeros([BLOCK], tl.float32)
    for k in tl.static_range(9):  # the transpose of a zero-padded 3x3 convolution
        r, q = row - (k // 3 - 1), column - (k % 3 - 1)
        there = (r >= 0) & (r < P // width) & (q >= 0) & (q < width)
        d = tl.load(dpre + n * P + r * width + q, mask=there, other=0.0)
        to_max += d * tl.load(weight + k)
        to_mean += d * tl.load(weight + 9 + k)
    share = to_max / tl.load(pooled + n * 3 * P + 2 * P + p, mask=p < P, other=1.0)
    tl.store(out + n * 2 * P + p, share, mask=p < P)
    tl.store(out + n * 2 * P + P + p, to_mean / C, mask=p < P)


@triton.jit
def _given(dy0, dy0_n, dy0_p, dy1, dy1_n, dy1_p, n, g, p, c, inside):
    """dy of a tile, of the group that it belongs to. Masks choose, not a branch: the loads of several tiles can then
    be under way together, and the compiler knows the alignment of each pointer."""
    if dy1 is None:
        dy = _load(dy0 + n * dy0_n, dy0_p, p, c, inside)
    else:
        dy = _load(dy0 + n * dy0_n, dy0_p, p, c, inside & (g == 0))
        dy += _load(dy1 + n * dy1_n, dy1_p, p, c, inside & (g != 0))
    return dy


@triton.jit
def _through_activation(dy, xhat, w, b, gate, dmean, n, c, P, inside, C: tl.constexpr, ACT: tl.constexpr):
    """dz, the gradient at the norm's output before the activation, from dy; zero outside of the map."""
    if gate is not None:
        dy = dy * (1.0 + _row(gate + n * C, c, C)) + _row(dmean + n * C, c, C) / P
    return tl.where(inside, dy * _slope(xhat * w + b, ACT), 0.0)


@triton.jit(do_not_specialize_on_alignment=ANY_ALIGNMENT)
def backward_sums_kernel(
    dy0, dy0_n, dy0_p, dy1, dy1_n, dy1_p, x, x_n, x_p, stats, weight, bias, gate, dmean, partials, sums,
    spread, y, y_n, y_p, pooled, P,
    C: tl.constexpr, ACT: tl.constexpr, BP: tl.constexpr, CP: tl.constexpr, TILES: tl.constexpr,
):  # fmt: skip
    """The sums over a block's pixels of dz and dz * xhat: `partials` by channel, `sums` weighted over the group.

    `spread` is what the spatial filter sends to the first group's output y (`filter_gradient_kernel`): dy0 becomes the
    sum. Threads own channels and go down the pixels, so that sums over these need no other thread.
    """
    blocks, groups = tl.cdiv(P, BP * TILES), tl.num_programs(1)
    n, block, g = (tl.program_id(0) // blocks).to(tl.int64), tl.program_id(0) % blocks, tl.program_id(1)
    c = tl.arange(0, CP)
    row = n * groups + g
    mean, rstd = tl.load(stats + 2 * row), tl.load(stats + 2 * row + 1)
    w, b = _row(weight + g * C, c, C), _row(bias + g * C, c, C)
    dbias, dweight = tl.zeros([CP], tl.float32), tl.zeros([CP], tl.float32)
    for t in range(TILES):
        p = (block * TILES + t) * BP + tl.arange(0, BP)
        inside = (p < P)[:, None] & (c < C)[None, :]
        dy = _given(dy0, dy0_n, dy0_p, dy1, dy1_n, dy1_p, n, g, p, c, inside)
        if spread is not None:
            here, first = (p < P) & (g == 0), inside & (g == 0)
            top = tl.load(pooled + n * 3 * P + p, mask=here, other=0.0)
            share = tl.load(spread + n * 2 * P + p, mask=here, other=0.0)
            to_all = tl.load(spread + n * 2 * P + P + p, mask=here, other=0.0)
            reached = _load(y + n * y_n, y_p, p, c, first) == top[:, None]
            dy += to_all[:, None] + tl.where(reached, share[:, None], 0.0)
            _store(dy0 + n * dy0_n, dy0_p, p, c, first, dy)
            dy = dy.to(dy0.dtype.element_ty).to(tl.float32)  # as the second pass will read it
        xhat = (_load(x + n * x_n + g * C, x_p, p, c, inside) - mean) * rstd
        dz = _through_activation(dy, xhat, w, b, gate, dmean, n, c, P, inside, C, ACT)
        dbias += tl.sum(dz, 0)
        dweight += tl.sum(dz * xhat, 0)
    at = partials + (((n * blocks + block) * groups + g) * C + c) * 2
    tl.store(at, dbias, mask=c < C)
    tl.store(at + 1, dweight, mask=c < C)
    at = sums + (row * blocks + block) * 2
    tl.store(at, tl.sum(dbias[None, :] * w))
    tl.store(at + 1, tl.sum(dweight[None, :] * w))


@triton.jit(do_not_specialize_on_alignment=ANY_ALIGNMENT)
def backward_kernel(
    dy0, dy0_n, dy0_p, dy1, dy1_n, dy1_p, x, x_n, x_p, dx, dx_n, dx_p, stats, weight, bias, gate, dmean, sums,
    sum_blocks, P, C: tl.constexpr, ACT: tl.constexpr, BP: tl.constexpr, CP: tl.constexpr, BLOCKS: tl.constexpr,
):  # fmt: skip
    """dx of a tile, from dy and the sums of the first pass."""
    blocks = tl.cdiv(P, BP)
    n, block, g = (tl.program_id(0) // blocks).to(tl.int64), tl.program_id(0) % blocks, tl.program_id(1)
    p, c = block * BP + tl.arange(0, BP), tl.arange(0, CP)
    inside = (p < P)[:, None] & (c < C)[None, :]
    dy = _given(dy0, dy0_n, dy0_p, dy1, dy1_n, dy1_p, n, g, p, c, inside)
    row = n * tl.num_programs(1) + g
    mean, rstd = tl.load(stats + 2 * row), tl.load(stats + 2 * row + 1)
    w, b = _row(weight + g * C, c, C), _row(bias + g * C, c, C)
    xhat = (_load(x + n * x_n + g * C, x_p, p, c, inside) - mean) * rstd
    dz = _through_activation(dy, xhat, w, b, gate, dmean, n, c, P, inside, C, ACT)
    k = tl.arange(0, BLOCKS)
    at = sums + row * sum_blocks * 2 + 2 * k
    by_mean = tl.sum(tl.load(at, mask=k < sum_blocks, other=0.0), 0) / (P * C)
    by_rstd = tl.sum(tl.load(at + 1, mask=k < sum_blocks, other=0.0), 0) / (P * C)
    _store(dx + n * dx_n + g * C, dx_p, p, c, inside, rstd * (dz * w - by_mean - xhat * by_rstd))
