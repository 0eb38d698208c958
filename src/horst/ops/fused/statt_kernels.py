"""The Triton kernels of STATT. Each program owns the pixels of one block of one map and loops over the S states.

Names as in `statt`; sizes: B maps, P pixels, S states, E kept entries, NB blocks of pixels a map. All tensors are
contiguous: q (B, P, HEADS * C), keys and values (E, B, P, HEADS * C), filters (E, B, P). A window is S entries from
`first` on, of which `valid` (B, S) says which are there; the others are never read.

A program is of one of the HEADS: it sees the C channels of that head as if there were no others. What is kept by state
is a head's own, at b = m * HEADS + head in place of the map m: where it is said to be (B, S, ...), B counts heads.
`CP` and `SP` are C and S rounded up to powers of two, as tensors of a kernel must be.
"""

import triton
import triton.language as tl

CHANGING = ["first", "i", "t0"]  # arguments that are others at every step: compiled once for all of them


@triton.jit
def _tile(pixels, channels, b, P, C, HEADS: tl.constexpr):
    """Offsets and mask of a block of pixels in the channels that one head has of a map."""
    at = pixels[:, None] * (C * HEADS) + b % HEADS * C + channels[None, :]
    return at, (pixels[:, None] < P) & (channels[None, :] < C)


@triton.jit(do_not_specialize=CHANGING)
def q_hat_kernel(
    q, filters, valid, out, first, B, P, C,
    HEADS: tl.constexpr, S: tl.constexpr, SP: tl.constexpr, BP: tl.constexpr, BC: tl.constexpr, CHUNK: tl.constexpr,
    EXACT: tl.constexpr,
):  # fmt: skip
    """The mean of f_K q over the pixels of a chunk: a matrix product of S filters with q. out (B, chunks, S, C)."""
    b, part = tl.program_id(0).to(tl.int64), tl.program_id(2)
    m = b // HEADS
    channels, states = tl.program_id(1) * BC + tl.arange(0, BC), tl.arange(0, SP)
    there = tl.load(valid + m * S + states, states < S, 0) != 0
    rows = (first + states).to(tl.int64) * B + m
    total = tl.zeros((SP, BC), tl.float32)
    for start in range(0, CHUNK, BP):
        pixels = part * CHUNK + start + tl.arange(0, BP)
        inside = pixels < P
        f = tl.load(filters + rows[:, None] * P + pixels[None, :], there[:, None] & inside[None, :], 0.0)
        at = (m * P + pixels[:, None]) * (C * HEADS) + b % HEADS * C + channels[None, :]
        x = tl.load(q + at, inside[:, None] & (channels[None, :] < C), 0.0)
        if EXACT:
            total += tl.dot(f, x, input_precision="ieee")
        else:  # half precision for the matrix units, in two parts so that nothing of the filter is lost
            high = f.to(x.dtype)
            total += tl.dot(high, x) + tl.dot((f - high.to(tl.float32)).to(x.dtype), x)
    at = ((b * tl.num_programs(2) + part) * S + states[:, None]) * C + channels[None, :]
    tl.store(out + at, total / P, (states[:, None] < S) & (channels[None, :] < C))


@triton.jit
def sum_parts_kernel(parts, out, N, COUNT: tl.constexpr, BN: tl.constexpr):
    """out (B, N): parts (B, COUNT, N) summed in order."""
    b, at = tl.program_id(0).to(tl.int64), tl.program_id(1) * BN + tl.arange(0, BN)
    total = tl.zeros((BN,), tl.float32)
    for part in range(COUNT):
        total += tl.load(parts + (b * COUNT + part) * N + at, at < N, 0.0)
    tl.store(out + b * N + at, total, at < N)


@triton.jit(do_not_specialize=CHANGING)
def logits_kernel(
    q, f_q, q_hat, keys, filters, valid, spatial, dots, logits, first, B, P, C, HEADS: tl.constexpr, NB: tl.constexpr,
    S: tl.constexpr, BP: tl.constexpr, CP: tl.constexpr, STAGES: tl.constexpr, SPATIAL: tl.constexpr,
):  # fmt: skip
    """Both branches from one reading of the keys: S(Q, K) (B, S, P), q . K (B, S, P), and sums for T (B, NB, S)."""
    b, block = tl.program_id(0).to(tl.int64), tl.program_id(1)
    pixels, channels = block * BP + tl.arange(0, BP), tl.arange(0, CP)
    inside = pixels < P
    m, wide = b // HEADS, C * HEADS
    at, mask = _tile(pixels, channels, b, P, C, HEADS)
    x = tl.load(q + m * P * wide + at, mask, 0.0).to(tl.float32)
    look = tl.load(f_q + m * P + pixels, inside, 0.0)
    for s in tl.range(0, S, num_stages=STAGES):
        there = tl.load(valid + m * S + s) != 0
        row = (first + s).to(tl.int64) * B + m
        k = tl.load(keys + row * P * wide + at, mask & there, 0.0).to(tl.float32)
        hat = tl.load(q_hat + (b * S + s) * C + channels, channels < C, 0.0)
        f = tl.load(filters + row * P + pixels, inside & there, 0.0)
        dot = tl.sum(x * k, 1)
        where = tl.sigmoid(tl.sum(hat[None, :] * k, 1)) if SPATIAL else tl.full((BP,), 1.0, tl.float32)
        where = tl.where(there, where, 0.0)
        tl.store(spatial + (b * S + s) * P + pixels, where, inside)
        tl.store(dots + (b * S + s) * P + pixels, dot, inside)
        tl.store(logits + (b * NB + block) * S + s, tl.sum(look * f * dot))


@triton.jit
def _over_blocks(parts, b, NB: tl.constexpr, S: tl.constexpr, SP: tl.constexpr):
    """parts (B, NB, S) of one map summed over its blocks: (SP,). Many blocks at once, as each load takes its time."""
    states = tl.arange(0, SP)
    total = tl.zeros((SP,), tl.float32)
    for start in range(0, NB, 64):
        blocks = start + tl.arange(0, 64)
        mask = (blocks[:, None] < NB) & (states[None, :] < S)
        total += tl.sum(tl.load(parts + (b * NB + blocks[:, None]) * S + states[None, :], mask, 0.0), 0)
    return total


@triton.jit
def _temporal(
    logits, valid, b, scale, HEADS: tl.constexpr, NB: tl.constexpr, S: tl.constexpr, SP: tl.constexpr,
    SHARE: tl.constexpr,
):  # fmt: skip
    """T(Q, K) of one map (SP,), from sums by block; or equal shares of the states there are, or of all S."""
    states = tl.arange(0, SP)
    there = tl.load(valid + b // HEADS * S + states, states < S, 0) != 0
    if SHARE == "none":
        total = tl.where(there, _over_blocks(logits, b, NB, S, SP) * scale, float("-inf"))
        weights = tl.exp(total - tl.max(total))
    else:
        weights = there.to(tl.float32)
    return weights / (S if SHARE == "order" else tl.sum(weights))


@triton.jit(do_not_specialize=CHANGING)
def combine_kernel(
    values, spatial, logits, valid, plus, out, with_plus, temporal, first, B, P, C, scale, HEADS: tl.constexpr,
    NB: tl.constexpr, S: tl.constexpr, SP: tl.constexpr, BP: tl.constexpr, CP: tl.constexpr, STAGES: tl.constexpr,
    PLUS: tl.constexpr, SHARE: tl.constexpr,
):  # fmt: skip
    """Eq. (7): out (B, P, C), temporal (B, S), and where asked with_plus = out + plus (B, P, C)."""
    b, block = tl.program_id(0).to(tl.int64), tl.program_id(1)
    pixels, channels, states = block * BP + tl.arange(0, BP), tl.arange(0, CP), tl.arange(0, SP)
    m, wide = b // HEADS, C * HEADS
    at, mask = _tile(pixels, channels, b, P, C, HEADS)
    weights = _temporal(logits, valid, b, scale, HEADS, NB, S, SP, SHARE)
    if block == 0:
        tl.store(temporal + b * S + states, weights, states < S)
    total = tl.zeros((BP, CP), tl.float32)
    for s in tl.range(0, S, num_stages=STAGES):
        there = tl.load(valid + m * S + s) != 0
        row = (first + s).to(tl.int64) * B + m
        v = tl.load(values + row * P * wide + at, mask & there, 0.0).to(tl.float32)
        where = tl.load(spatial + (b * S + s) * P + pixels, pixels < P, 0.0)
        weight = tl.sum(tl.where(states == s, weights, 0.0))
        total += (weight * where)[:, None] * v
    tl.store(out + m * P * wide + at, total.to(out.dtype.element_ty), mask)
    if PLUS:
        total += tl.load(plus + m * P * wide + at, mask, 0.0).to(tl.float32)
        tl.store(with_plus + m * P * wide + at, total.to(out.dtype.element_ty), mask)


@triton.jit(do_not_specialize=CHANGING)
def reader_kernel(
    grad, more, total, keys, values, valid, spatial, temporal, d_where, d_temporal, d_hat, first, B, P, C,
    HEADS: tl.constexpr, NB: tl.constexpr, S: tl.constexpr, BP: tl.constexpr, CP: tl.constexpr, STAGES: tl.constexpr,
    MORE: tl.constexpr,
):  # fmt: skip
    """What the states' weights receive from the gradient of out, `grad` (+ `more`): of the spatial logits (B, S, P),
    and sums by block for T (B, NB, S) and for q_hat (B, NB, S, C)."""
    b, block = tl.program_id(0).to(tl.int64), tl.program_id(1)
    pixels, channels = block * BP + tl.arange(0, BP), tl.arange(0, CP)
    inside = pixels < P
    m, wide = b // HEADS, C * HEADS
    at, mask = _tile(pixels, channels, b, P, C, HEADS)
    d = tl.load(grad + m * P * wide + at, mask, 0.0).to(tl.float32)
    if MORE:
        d += tl.load(more + m * P * wide + at, mask, 0.0).to(tl.float32)
    tl.store(total + m * P * wide + at, d.to(total.dtype.element_ty), mask)
    for s in tl.range(0, S, num_stages=STAGES):
        there = tl.load(valid + m * S + s) != 0
        row = (first + s).to(tl.int64) * B + m
        v = tl.load(values + row * P * wide + at, mask & there, 0.0).to(tl.float32)
        k = tl.load(keys + row * P * wide + at, mask & there, 0.0).to(tl.float32)
        weight = tl.load(temporal + b * S + s)
        where = tl.load(spatial + (b * S + s) * P + pixels, inside, 0.0)
        d_weight = tl.sum(d * v, 1)
        g = weight * d_weight * where * (1.0 - where)
        tl.store(d_where + (b * S + s) * P + pixels, g, inside)
        tl.store(d_temporal + (b * NB + block) * S + s, tl.sum(where * d_weight))
        sums = (b * NB + block) * S + s
        tl.store(d_hat + sums * C + channels, tl.sum(g[:, None] * k, 0), channels < C)


@triton.jit
def reader_sums_kernel(
    d_temporal, parts, temporal, slope, d_hat, C, scale,
    NB: tl.constexpr, S: tl.constexpr, SP: tl.constexpr, BN: tl.constexpr, BC: tl.constexpr, SHARE: tl.constexpr,
):  # fmt: skip
    """The sums of `reader_kernel` over the blocks: slope (B, S) of q . K through T, and d_hat (B, S, C)."""
    b, s, part = tl.program_id(0).to(tl.int64), tl.program_id(1), tl.program_id(2)
    states, channels = tl.arange(0, SP), part * BC + tl.arange(0, BC)
    if part == 0:
        total = _over_blocks(d_temporal, b, NB, S, SP)
        weights = tl.load(temporal + b * S + states, states < S, 0.0)
        slopes = tl.zeros((SP,), tl.float32)  # of shares, which are constants
        if SHARE == "none":
            slopes = scale * weights * (total - tl.sum(weights * total))
        tl.store(slope + b * S + s, tl.sum(tl.where(states == s, slopes, 0.0)))
    hat = tl.zeros((BC,), tl.float32)
    for start in range(0, NB, BN):
        blocks = start + tl.arange(0, BN)
        at = ((b * NB + blocks[:, None]) * S + s) * C + channels[None, :]
        hat += tl.sum(tl.load(parts + at, (blocks[:, None] < NB) & (channels[None, :] < C), 0.0), 0)
    tl.store(d_hat + (b * S + s) * C + channels, hat, channels < C)


@triton.jit(do_not_specialize=CHANGING)
def entry_kernel(
    grad, q, f_q, filters, valid, spatial, temporal, dots, q_hat, d_where, slope, d_hat,
    out_k, out_f, out_v, more_k, more_f, more_v, i, t0, T, before, B, P, C, HEADS: tl.constexpr,
    S: tl.constexpr, BP: tl.constexpr, CP: tl.constexpr, STAGES: tl.constexpr, MORE: tl.constexpr, SLOPE: tl.constexpr,
):  # fmt: skip
    """The gradient of entry i, gathered from the frames t0, t0 + 1, ... that attended to it: each reads it once, and
    nothing is added up in memory. Frame t had it at place i - t - before + S of its window."""
    b, block = tl.program_id(0).to(tl.int64), tl.program_id(1)
    pixels, channels = block * BP + tl.arange(0, BP), tl.arange(0, CP)
    inside = pixels < P
    m, wide = b // HEADS, C * HEADS
    at, mask = _tile(pixels, channels, b, P, C, HEADS)
    f = tl.load(filters + (i.to(tl.int64) * B + m) * P + pixels, inside, 0.0)
    d_k = tl.zeros((BP, CP), tl.float32)
    d_v = tl.zeros((BP, CP), tl.float32)
    d_f = tl.zeros((BP,), tl.float32)
    if MORE:
        d_k += tl.load(more_k + m * P * wide + at, mask, 0.0).to(tl.float32)
        d_v += tl.load(more_v + m * P * wide + at, mask, 0.0).to(tl.float32)
        d_f += tl.load(more_f + m * P + pixels, inside & (b % HEADS == 0), 0.0)  # once for all heads
    for r in tl.range(0, S, num_stages=STAGES):
        t = t0 + r
        reads = (t < T) & (i - t - before + S >= 0)
        row = tl.where(reads, t, 0).to(tl.int64) * B + m
        state = tl.where(reads, i - t - before + S, 0)
        place = (row * HEADS + b % HEADS) * S + state
        there = reads & (tl.load(valid + row * S + state) != 0)
        d = tl.load(grad + row * P * wide + at, mask & there, 0.0).to(tl.float32)
        x = tl.load(q + row * P * wide + at, mask & there, 0.0).to(tl.float32)
        look = tl.load(f_q + row * P + pixels, inside & there, 0.0) * tl.load(slope + place, there, 0.0)
        g = tl.load(d_where + place * P + pixels, inside & there, 0.0)
        where = tl.load(spatial + place * P + pixels, inside & there, 0.0) * tl.load(temporal + place, there, 0.0)
        dot = tl.load(dots + place * P + pixels, inside & there, 0.0)
        hat = tl.load(q_hat + place * C + channels, (channels < C) & there, 0.0)
        back = tl.load(d_hat + place * C + channels, (channels < C) & there, 0.0)
        d_v += where[:, None] * d
        d_k += (look * f)[:, None] * x + g[:, None] * hat[None, :]
        d_f += look * dot + tl.sum(back[None, :] * x, 1) / P
    if SLOPE:  # of the filter's sigmoid
        d_f = d_f * f * (1.0 - f)
    tl.store(out_k + m * P * wide + at, d_k.to(out_k.dtype.element_ty), mask)
    tl.store(out_v + m * P * wide + at, d_v.to(out_v.dtype.element_ty), mask)
    tl.store(out_f + b * P + pixels, d_f, inside)


@triton.jit
def query_kernel(
    keys, f_q, filters, valid, dots, slope, d_hat, out_q, out_f, before, B, P, C, HEADS: tl.constexpr,
    S: tl.constexpr, BP: tl.constexpr, CP: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """The gradient of all queries (T * B, P, C), and of their filters before the sigmoid (T * B, P)."""
    head_row, block = tl.program_id(0).to(tl.int64), tl.program_id(1)
    row, wide = head_row // HEADS, C * HEADS
    t, m = row // B, row % B
    pixels, channels = block * BP + tl.arange(0, BP), tl.arange(0, CP)
    inside = pixels < P
    at, mask = _tile(pixels, channels, head_row, P, C, HEADS)
    look = tl.load(f_q + row * P + pixels, inside, 0.0)
    d_q = tl.zeros((BP, CP), tl.float32)
    d_f = tl.zeros((BP,), tl.float32)
    for s in tl.range(0, S, num_stages=STAGES):
        place = head_row * S + s
        there = tl.load(valid + row * S + s) != 0
        entry = (t + before - S + s) * B + m
        k = tl.load(keys + entry * P * wide + at, mask & there, 0.0).to(tl.float32)
        f = tl.load(filters + entry * P + pixels, inside & there, 0.0)
        dot = tl.load(dots + place * P + pixels, inside & there, 0.0)
        back = tl.load(d_hat + place * C + channels, (channels < C) & there, 0.0)
        weighed = tl.load(slope + place) * f
        d_q += (weighed * look)[:, None] * k + (f / P)[:, None] * back[None, :]
        d_f += weighed * dot
    tl.store(out_q + row * P * wide + at, d_q.to(out_q.dtype.element_ty), mask)
    tl.store(out_f + head_row * P + pixels, d_f * look * (1.0 - look), inside)
