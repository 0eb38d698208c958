"""What docs/reference/methods.md says of each method in its tables, and the picture that its section shows."""

from __future__ import annotations

from dataclasses import dataclass

from horst.models.registry import METHODS


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """A section of the page: its picture, and what of its row in the table is not counted."""

    methods: tuple[str, ...]
    """Of METHODS; the first one's name is that of the picture."""
    title: str
    """Of the section."""
    shows: str
    """What the picture shows, for those who cannot see it."""
    idea: str
    memory: str
    learns: str
    published: str = "not published"


LAST_SECOND = "4 frames"
CE = "cross-entropy"
ABLATIONS = tuple(name for name, method in METHODS.items() if method.options)
"""The ablations of HORST."""
ENTRIES = (
    Entry(
        methods=("cnn3d",),
        title="3D-CNN",
        shows="3-D convolutions over three frames each, and the mean of what they make of all frames so far",
        idea="convolve over time, then average",
        memory="running mean; 2 inputs a layer",
        learns=CE,
    ),
    Entry(
        methods=("conv_lstm",),
        title="ConvLSTM",
        shows="A map of state, handed on from frame to frame through convolutions",
        idea="an LSTM made of convolutions",
        memory="h and c, maps, a layer",
        learns=CE,
        published="3.97 M for 12 layers of video prediction (Su et al. 2020)",
    ),
    Entry(
        methods=("e3d_lstm",),
        title="E3D-LSTM",
        shows="Cells over two frames each; the newest recalls all past cells, and a second memory goes on",
        idea="recall past cells by attention",
        memory="H and 8 cells a layer; M",
        learns=CE,
        published="12,898,832 for video prediction, counted from the authors' code",
    ),
    Entry(
        methods=("conv_tt_lstm",),
        title="Conv-TT-LSTM",
        shows="A queue of three states goes through a chain of cores into the gates; the new state joins the queue",
        idea="several states through a train",
        memory="3 h and c, maps, a layer",
        learns=CE,
        published="2.69 M for 12 layers of video prediction (Su et al. 2020)",
    ),
    Entry(
        methods=("horst", "horst_anticipation", *ABLATIONS),
        title="HORST",
        shows="A query of the frame weighs kept keys and values of past frames by time and place; its own join them",
        idea="attend to kept past states",
        memory="K and V of 8 frames a layer",
        learns=CE,
    ),
    Entry(
        methods=("dmr",),
        title="DMR",
        shows="One frame, three guesses of the features a second later; the nearest learns, their mean is named",
        idea="several guesses of the future",
        memory="nothing",
        learns=f"{CE}; squared distance of the nearest guess",
    ),
    Entry(
        methods=("atsn",),
        title="ATSN",
        shows="The mean of four frames gives a verb and a noun, whose product is the action",
        idea="verb and noun learnt apart",
        memory=LAST_SECOND,
        learns=f"{CE} of verb and noun",
    ),
    Entry(
        methods=("mce",),
        title="MCE, also called VNMCE",
        shows="Actions such as open fridge and open jar sum to the verb open, and likewise to nouns",
        idea="verbs are sums of actions",
        memory=LAST_SECOND,
        learns=f"{CE} of action, and of verb and noun as sums",
    ),
    Entry(
        methods=("vn_ce",),
        title="VN-CE",
        shows="Verb and noun each have a cross-entropy; the action is read off both and never taught",
        idea="two labels, two cross-entropies",
        memory=LAST_SECOND,
        learns=f"{CE} of verb and noun",
    ),
    Entry(
        methods=("svm_top3", "svm_top5"),
        title="SVM-TOP3 and SVM-TOP5",
        shows="Scores in order: the true one must exceed the k-th best of the others by a margin",
        idea="right among k is enough",
        memory=LAST_SECOND,
        learns="smooth top-k SVM",
    ),
    Entry(
        methods=("vnmce_t3", "vnmce_t5"),
        title="VNMCE+T3 and VNMCE+T5",
        shows="The k - 1 best of the other actions are left out of the loss; verbs and nouns are sums of actions",
        idea="the strongest rivals are forgiven",
        memory=LAST_SECOND,
        learns=f"truncated top-k entropy; {CE} of verb and noun as sums",
    ),
    Entry(
        methods=("lstm",),
        title="LSTM",
        shows="A vector of state, handed on from frame to frame",
        idea="one state carried through time",
        memory="h and c, vectors",
        learns=CE,
    ),
    Entry(
        methods=("encoder_decoder",),
        title="ED",
        shows="An encoder reads frames; a decoder goes on with features that it has foretold itself",
        idea="decode the features to come",
        memory="h and c, vectors",
        learns=f"{CE}; squared distance of features",
    ),
    Entry(
        methods=("feedback",),
        title="FN",
        shows="Two LSTMs, one on top of the other; what was said of a frame is read at the next one",
        idea="read what was said before",
        memory="h and c twice, last output",
        learns=CE,
    ),
    Entry(
        methods=("ranking",),
        title="RL",
        shows="The probability of the true action over time: wherever it falls below its best so far, there is loss",
        idea="certainty must never fall back",
        memory="h and c, vectors",
        learns=f"{CE}; ranking",
    ),
    Entry(
        methods=("exponential",),
        title="EL",
        shows="Bars over the frames that rise exponentially towards the last one",
        idea="late mistakes cost exponentially more",
        memory="h and c, vectors",
        learns=f"{CE}, weighed exponentially",
    ),
    Entry(
        methods=("rulstm",),
        title="RU",
        shows="A rolling row reads frames; from each of them an unrolling row goes ahead to the action",
        idea="one rolls, another unrolls ahead",
        memory="h and c, vectors",
        learns=CE,
        published="19,369,425 counted from the authors' code",
    ),
    Entry(
        methods=("action_banks",),
        title="ActionBanks",
        shows="Fourteen frames; the whole past cut in 2, 3 and 5 parts, and recent spans of 6, 5, 3 and 2 frames",
        idea="recent spans ask the past",
        memory="14 frames",
        learns=CE,
        published="118,376,184 counted from the authors' code, with verbs and nouns",
    ),
    Entry(
        methods=("imagine_rnn",),
        title="ImagineRNN",
        shows="Features to come, each a difference added to the last; the right frame is to be told from others",
        idea="imagine differences, frame by frame",
        memory="h and c, vectors",
        learns=f"{CE}; contrast of features",
    ),
    Entry(
        methods=("avt",),
        title="AVT-h",
        shows="A triangle of attention: each frame looks at itself and all before it, and foretells the next",
        idea="a causal transformer foretells features",
        memory="10 frames",
        learns=f"{CE}; squared distance of features",
        published="613,170,641 counted from the authors' code",
    ),
    Entry(
        methods=("horst_url",),
        title="HORST-url",
        shows="Two HORST layers with their queue, and an LSTM that runs on from them until the action",
        idea="HORST, then unrolled to action",
        memory="K and V of 8 frames a layer",
        learns=f"{CE} of action, verb and noun",
    ),
)
