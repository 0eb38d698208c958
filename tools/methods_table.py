"""Prints the tables of docs/reference/methods.md: descriptions, parameters, and the paper's numbers.

python tools/methods_table.py recognition    # or anticipation, ablations
"""

from __future__ import annotations

import argparse
import re

from methods_entries import ABLATIONS, CE, ENTRIES, Entry

from horst.evaluation.paper import paper_table
from horst.heads import head_options
from horst.models import model_config
from horst.models.registry import METHODS, Method
from horst.models.summary import summarize

TABLES = ("recognition", "anticipation", "ablations")


def trained(method: Method) -> int:
    """Parameters of its model for the paper's data that training changes: a frozen backbone's are none."""
    size = "ssv2" if method.task == "recognition" else "ek55"
    name, options = method.model_name(size), method.options_for(size)
    if "pairs" in head_options(model_config(name).head.name):
        # As many verbs and nouns as the data has. Which of them an action has does not change a count.
        actions = model_config(name).head.options["num_classes"]
        options |= {"num_verbs": 125, "num_nouns": 352, "pairs": [[0, 0]] * actions}
    config = model_config(name, **options)
    rows = summarize(config).rows
    return sum(row.parameters for row in rows[config.backbone.name == "bn_inception" :])


def printed(method: Method, metric: str, *tables: str) -> str:
    """What the paper prints of it, in the first of these tables that has it."""
    for name in tables:
        if name in method.rows:
            table = paper_table(name)
            value = table.values(table.row(method.rows[name])).get(metric)
            return "" if value is None else f"{value:.{table.decimals}f}"
    return ""


def table(name: str) -> str:
    """One of the page's tables, in Markdown."""
    first, second, text = "action/top1@25%", "action/top1@50%", ["idea", "memory", "learns from"]
    lines: list[list[str]]
    if name == "ablations":
        lines = [["ablation", "options", "trained parameters", "paper, 25 %"]]
        for method in (METHODS[name] for name in ABLATIONS):
            options = ", ".join(f"`{key}={value!r}`" for key, value in method.options.items()).replace("'", '"')
            value = printed(method, first, *method.rows)
            lines.append([method.title.removeprefix("HORST, "), options, f"{trained(method):,}", value])
    elif name == "recognition":
        lines = [["method", *text, "trained parameters", "published parameters", "paper, 25 / 50 %"]]
        for entry, method in _of_task("recognition"):
            values = " / ".join(printed(method, metric, "early-recognition") for metric in (first, second))
            lines.append([*_told(entry, method), f"{trained(method):,}", entry.published, values])
    else:
        ahead = ["paper, EK55", "paper, EK100"]
        lines = [["method", *text, "trained parameters", "published parameters", *ahead]]
        for entry, method in _of_task("anticipation"):
            top5 = printed(method, "action/top5@1s", "ek55", "ek55-backbones")
            recall = printed(method, "action/recall5@1s", "ek100")
            lines.append([*_told(entry, method), f"{trained(method):,}", entry.published, top5, recall])
    rule = ["---"] * len(lines[0])
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (lines[0], rule, *lines[1:])) + "\n"


def _of_task(task: str) -> list[tuple[Entry, Method]]:
    every = [(entry, METHODS[name]) for entry in ENTRIES for name in entry.methods if name not in ABLATIONS]
    order = list(METHODS)
    return sorted(((e, m) for e, m in every if m.task == task), key=lambda pair: order.index(pair[1].name))


def _told(entry: Entry, method: Method) -> list[str]:
    anchor = re.sub(r"[^\w -]", "", entry.title.lower()).replace(" ", "-")
    learns = f"{CE} of action, verb and noun" if method.name == "horst_anticipation" else entry.learns
    return [f"[{method.title}](#{anchor})", entry.idea, entry.memory, learns]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Print a table of the methods page.")
    parser.add_argument("table", choices=TABLES)
    print(table(parser.parse_args().table), end="")
