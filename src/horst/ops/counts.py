"""Operations (multiplications) of one step of attention, as the paper counts them."""

from horst.ops.reference import Mode


def statt_ops(order: int, channels: int, height: int, width: int) -> int:
    """Spatial-temporal attention: (6S + 1) CHW + 18 (S + 1) HW, the filters of all S keys among them."""
    return weighing_ops("spatial-temporal", order, channels, height, width) + 18 * (order + 1) * height * width


def joint_ops(order: int, channels: int, height: int, width: int) -> int:
    """Joint space-time attention: 2 S (HW)^2 C."""
    return 2 * order * (height * width) ** 2 * channels


def temporal_ops(order: int, channels: int, height: int, width: int) -> int:
    """Full temporal attention: 2 S HW C."""
    return 2 * order * height * width * channels


def weighing_ops(mode: Mode, order: int, channels: int, height: int, width: int) -> int:
    """A step without the cached filters: comparing the query with S keys and weighting S values."""
    if mode == "joint":
        return joint_ops(order, channels, height, width)
    maps = {"spatial-temporal": 6 * order + 1, "temporal": 3 * order + 1, "spatial": 4 * order}[mode]
    return maps * channels * height * width
