"""The terms of report pages: each is explained at the end of the page, and its first use links there."""

import re
from html import escape

TERMS = {
    "area": ("area(?: under top-1)?|mean over the clip", "Mean of top-1 over the observed part of a clip."),
    "attention": (
        "(?:(?:temporal|spatial) )?attention|attends to",
        "How much each past frame counts for the prediction (temporal), and each place in that frame (spatial).",
    ),
    "calibration error": ("calibration(?: error)?", "Mean difference between confidence and accuracy; 0% is best."),
    "chance": ("chance", "Accuracy of guessing: 1 / number of classes, or 5 / number of classes for top-5."),
    "channels": ("channels?", "Numbers that a layer computes at each place of a frame."),
    "class": ("class(?:es)?", "One of the actions that the model chooses from."),
    "confidence": ("confidence", "Probability that the model gives to its most likely class."),
    "confusion matrix": ("confusion matrix", "How often clips of each class are predicted as each class."),
    "decided": ("decided|prediction is final", "Mean part of a clip after which the most likely class stays the same."),
    "epoch": ("epochs?", "One pass of training over all training clips."),
    "layer": ("layers?", "One of the steps of the network; each works on the output of the one before."),
    "learning rate": ("learning rate", "How far training changes the weights at each step."),
    "loss": ("loss", "What training makes small: it is high if the true class gets a low probability."),
    "many-shot": ("many-shot", "Classes with many training examples."),
    "noise": ("noise", "Differences that other clips could reverse; the limit is 1.96 standard errors of top-1."),
    "observed": ("observed", "Part of a clip that the model has seen when it predicts."),
    "overconfident": ("overconfident", "Confidence is higher than accuracy; underconfident: lower."),
    "parameters": ("parameters", "Weights of the network, which training sets."),
    "prior": ("prior", "Accuracy without a model: always the most frequent classes of the training clips."),
    "protocol": ("protocol", "Rule for what a prediction may see; a leak is an example that saw more."),
    "recall@5": ("(?:mean )?recall(?:@| at )5", "Top-5 of each class, averaged over classes: rare ones count equally."),
    "S": (r"(?-i:S)(?= = \d)", "Number of past frames that the model attends to."),
    "seed": ("seed", "Start of the random numbers; another seed gives slightly different results."),
    "tail": ("tail", "Classes with few training examples."),
    "time to action": ("time to action", "Mean time before the action from which on it is in the top 5."),
    "top-1": ("top-1", "Share of clips for which the most likely class is the true one."),
    "top-5": (
        "top[- ]5",
        "The five most likely classes; as a number, the share of clips with the true class among them.",
    ),
    "unseen": ("unseen", "Videos of people who do not occur in the training clips."),
    "val": ("val", "Validation: the clips that are kept out of training to evaluate the model."),
    "variant": ("variant", "The paper and its published code differ in details: paper or released."),
}  # name: (how it is written, as a regular expression; its explanation)
NAMES = list(TERMS)
WORDS = re.compile("|".join(rf"\b({pattern})\b" for pattern, _ in TERMS.values()), re.IGNORECASE)
MARKUP = re.compile(
    r"(<svg.*?</svg>|<pre.*?</pre>|<h\d.*?</h\d>|<summary.*?</summary>|<label.*?</label>|<[^>]*>)", re.DOTALL
)  # what has no links


def explain(html: str) -> tuple[str, str]:
    """A page's body with the first use of each term as a link, and the list of the terms that it uses."""
    linked = set[str]()

    def link(word: re.Match[str]) -> str:
        if (name := _name(word)) in linked:
            return word[0]
        linked.add(name)
        return f'<a class=term href="#{_id(name)}" title="{escape(TERMS[name][1])}">{word[0]}</a>'

    parts = MARKUP.split(html)  # text, markup, text, ...
    parts[::2] = [WORDS.sub(link, text) for text in parts[::2]]
    used = set(map(_name, WORDS.finditer(re.sub("<pre.*?</pre>|<[^>]*>", "\n", html, flags=re.DOTALL))))
    rows = (f'<dt id="{_id(name)}">{name}</dt><dd>{escape(TERMS[name][1])}</dd>' for name in NAMES if name in used)
    glossary = f"<details id=terms open><summary>Terms</summary><dl>{''.join(rows)}</dl></details>"
    return "".join(parts), glossary if used else ""


def _name(word: re.Match[str]) -> str:
    return NAMES[(word.lastindex or 0) - 1]


def _id(name: str) -> str:
    return "term-" + re.sub(r"\W", "-", name)
