"""The Triton kernels of a norm over the pixels of each channel: one program has a map, or some channels of one.

Shapes: N maps (the first grid axis), P pixels, C channels (CP of them a program, the second grid axis); x, y and their
gradients are contiguous (N, P, C), arithmetic is in float32. A program goes over its map twice, in tiles of BP pixels:
once to sum, once to write. The second time it goes backwards, so that what it read last, and is still in a cache, is
what it reads first. Sums are kept for each place of a tile and joined at the end, in a fixed order and without atomics:
every result is the same from run to run.

C is known to the compiler, and so is that rows of 24 channels start at multiples of 16 bytes: strides that are
arguments are known to it only where 16 divides them.
"""

import triton
import triton.language as tl

from horst.ops.fused.norm_kernels import _activate, _load, _row, _slope, _store


@triton.jit
def forward_kernel(
    x, y, stats, weight, bias, P, eps,
    C: tl.constexpr, ACT: tl.constexpr, BP: tl.constexpr, CP: tl.constexpr, TILES: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """y = act(norm(x)), and stats (N, C, 2): mean and reciprocal deviation."""
    n = tl.program_id(0).to(tl.int64)
    c, place = tl.program_id(1) * CP + tl.arange(0, CP), tl.arange(0, BP)
    x += n * P * C
    y += n * P * C
    mean, m2 = tl.zeros([BP, CP], tl.float32), tl.zeros([BP, CP], tl.float32)
    for t in tl.range(0, TILES, num_stages=STAGES):  # each place its own mean and squared deviations (Welford)
        p = t * BP + place
        inside = (p < P)[:, None] & (c < C)[None, :]
        v = _load(x, C, p, c, inside)
        off = tl.where(inside, v - mean, 0.0)
        mean += off * (1.0 / (t + 1))
        m2 += off * (v - mean)
    count = ((P + BP - 1 - place) // BP).to(tl.float32)[:, None]
    first = tl.sum(tl.where(place[:, None] == 0, mean, 0.0), 0)[None, :]  # deviations from it are small
    centre = first + tl.sum(count * (mean - first), 0)[None, :] / P
    off = mean - centre
    rstd = tl.rsqrt(tl.sum(m2 + count * off * off, 0)[None, :] / P + eps)
    at = stats + (n * C + c[None, :]) * 2
    tl.store(at, centre, mask=c[None, :] < C)
    tl.store(at + 1, rstd, mask=c[None, :] < C)
    scale, b = rstd * _row(weight, c, C), _row(bias, c, C)
    for t in tl.range(0, TILES, num_stages=STAGES):
        p = (TILES - 1 - t) * BP + place
        inside = (p < P)[:, None] & (c < C)[None, :]
        _store(y, C, p, c, inside, _activate((_load(x, C, p, c, inside) - centre) * scale + b, ACT))


@triton.jit
def backward_kernel(
    dy, x, dx, stats, weight, bias, partials, P,
    C: tl.constexpr, ACT: tl.constexpr, BP: tl.constexpr, CP: tl.constexpr, TILES: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """dx, and partials (N, C, 2): the map's share of the gradients at bias and weight."""
    n = tl.program_id(0).to(tl.int64)
    c, place = tl.program_id(1) * CP + tl.arange(0, CP), tl.arange(0, BP)
    dy += n * P * C
    x += n * P * C
    dx += n * P * C
    at, there = (n * C + c[None, :]) * 2, c[None, :] < C
    mean, rstd = tl.load(stats + at, mask=there, other=0.0), tl.load(stats + at + 1, mask=there, other=0.0)
    scale, b = rstd * _row(weight, c, C), _row(bias, c, C)
    # In terms of off = x - mean, which leaves one row of values less in the registers than xhat = off * rstd.
    by_bias, by_off = tl.zeros([BP, CP], tl.float32), tl.zeros([BP, CP], tl.float32)
    for t in tl.range(0, TILES, num_stages=STAGES):
        p = t * BP + place
        inside = (p < P)[:, None] & (c < C)[None, :]
        off = _load(x, C, p, c, inside) - mean
        dz = _load(dy, C, p, c, inside) * _slope(off * scale + b, ACT)  # outside of the map dy is 0, and so is this
        by_bias += dz
        by_off += dz * off
    to_bias, to_weight = tl.sum(by_bias, 0)[None, :], tl.sum(by_off, 0)[None, :] * rstd
    tl.store(partials + at, to_bias, mask=there)
    tl.store(partials + at + 1, to_weight, mask=there)
    by_mean, by_rstd = to_bias / P, to_weight * rstd / P
    for t in tl.range(0, TILES, num_stages=STAGES):
        p = (TILES - 1 - t) * BP + place
        inside = (p < P)[:, None] & (c < C)[None, :]
        off = _load(x, C, p, c, inside) - mean
        dz = _load(dy, C, p, c, inside) * _slope(off * scale + b, ACT)
        _store(dx, C, p, c, inside, scale * (dz - by_mean - off * by_rstd))
