"""The methods that the paper compares HORST with, one file each, with the contract of `horst.layers.Core`.

What a method brings is a core, a head, or both; `horst.models.zoo` puts them together.
"""

from __future__ import annotations

from horst.heads import HEADS
from horst.models.cores import CORES
from horst.models.methods.action_banks import ActionBanks, ActionBanksConfig
from horst.models.methods.atsn import TSN, TSNConfig
from horst.models.methods.avt import AVT, AVTConfig
from horst.models.methods.cnn3d import CNN3D, CNN3DConfig
from horst.models.methods.conv_lstm import ConvLSTM, ConvLSTMConfig
from horst.models.methods.conv_tt_lstm import ConvTTLSTM, ConvTTLSTMConfig
from horst.models.methods.dmr import DMR, DMRConfig
from horst.models.methods.e3d_lstm import E3DLSTM, E3DLSTMConfig
from horst.models.methods.encoder_decoder import EncoderDecoderHead
from horst.models.methods.feedback import Feedback, FeedbackConfig
from horst.models.methods.imagine_rnn import ImagineHead
from horst.models.methods.lstm import LSTM, LSTMConfig
from horst.models.methods.rulstm import RollingUnrollingHead
from horst.models.methods.verb_noun import MarginalHead, VerbNounHead

__all__ = [
    "AVT",
    "CNN3D",
    "DMR",
    "E3DLSTM",
    "LSTM",
    "TSN",
    "AVTConfig",
    "ActionBanks",
    "ActionBanksConfig",
    "CNN3DConfig",
    "ConvLSTM",
    "ConvLSTMConfig",
    "ConvTTLSTM",
    "ConvTTLSTMConfig",
    "DMRConfig",
    "E3DLSTMConfig",
    "EncoderDecoderHead",
    "Feedback",
    "FeedbackConfig",
    "ImagineHead",
    "LSTMConfig",
    "MarginalHead",
    "RollingUnrollingHead",
    "TSNConfig",
    "VerbNounHead",
]

CORES.update(
    {
        config.name: (config, core)
        for config, core in (
            (CNN3DConfig, CNN3D),
            (ConvLSTMConfig, ConvLSTM),
            (E3DLSTMConfig, E3DLSTM),
            (ConvTTLSTMConfig, ConvTTLSTM),
            (LSTMConfig, LSTM),
            (FeedbackConfig, Feedback),
            (TSNConfig, TSN),
            (DMRConfig, DMR),
            (ActionBanksConfig, ActionBanks),
            (AVTConfig, AVT),
        )
    }
)
HEADS.register("rolling_unrolling")(RollingUnrollingHead)
HEADS.register("encoder_decoder")(EncoderDecoderHead)
HEADS.register("imagine")(ImagineHead)
HEADS.register("marginal")(MarginalHead)
HEADS.register("verb_noun")(VerbNounHead)
