"""Load checkpoints of other implementations."""

from horst.compat.conv_tt_lstm import conv_lstm_from_official, conv_tt_lstm_from_official
from horst.compat.official import heads_from_official, horst_from_official
from horst.compat.rulstm import rulstm_from_official

__all__ = [
    "conv_lstm_from_official",
    "conv_tt_lstm_from_official",
    "heads_from_official",
    "horst_from_official",
    "rulstm_from_official",
]
