"""Write the tables of docs/reference/methods.md from the registered methods.

python tools/methods_tables.py

A table is between `<!-- table: NAME -->` and `<!-- end -->`.
"""

from __future__ import annotations

import re
from pathlib import Path

from horst.cli.models import cost_cells
from horst.evaluation.paper import paper_table
from horst.heads import head_options
from horst.models import Method, list_methods, model_config
from horst.models.summary import summarize
from horst.training.methods import config_files, costs, loss_title

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "methods.md"
REGION = r"(<!-- table: (\w+) -->\n).*?(<!-- end -->)"


def filled(page: str) -> str:
    """The page with its tables up to date."""
    return re.sub(REGION, lambda found: f"{found[1]}\n{table(found[2])}\n{found[3]}", page, flags=re.DOTALL)


def table(name: str) -> str:
    """One of the tables, in Markdown: recognition, anticipation, ablations or runs."""
    if name == "runs":
        lines = [["method", "models", "runs"]]
        for method in (m for m in list_methods() if not m.options):
            models = ", ".join(f"`{model}`" for model in method.models.values())
            lines.append([method.title, models, ", ".join(f"`{config}`" for config in config_files(method))])
    elif name == "ablations":
        lines = [["ablation", "options", "trained parameters", "paper, 25%"]]
        for method in (m for m in list_methods() if m.options):
            options = ", ".join(f"`{key}={value!r}`" for key, value in method.options.items()).replace("'", '"')
            title = method.title.removeprefix("HORST, ")
            lines.append([title, options, f"{trained(method):,}", printed(method, "action/top1@25%", *method.rows)])
    elif name == "recognition":
        lines = [["method", "idea", "state", "trained parameters", "published parameters", "paper, 25% / 50%"]]
        for method in (m for m in list_methods(name) if not m.options):
            results = [printed(method, f"action/top1@{share}%", "early-recognition") for share in (25, 50)]
            lines.append(
                [*described(method), f"{trained(method):,}", method.parameters, " / ".join(filter(None, results))]
            )
    else:
        lines = [["method", "idea", "loss", "state", "trained parameters", "published parameters", "EK55", "EK100"]]
        for method in list_methods(name):
            title, idea, state = described(method)
            top5 = printed(method, "action/top5@1s", "ek55", "ek55-backbones")
            recall = printed(method, "action/recall5@1s", "ek100")
            cells = [title, idea, loss_title(method), state, f"{trained(method):,}", method.parameters, top5, recall]
            lines.append(cells)
    rule = ["---"] * len(lines[0])
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (lines[0], rule, *lines[1:])) + "\n"


def described(method: Method) -> list[str]:
    """Its title, linked to its section if there is one, its idea, and the size of its state."""
    headings = re.findall(r"^## (.+)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    section = next((h for h in headings if method.title in re.split(", | and ", h)), "")
    anchor = re.sub(r"[^\w -]", "", section.lower()).replace(" ", "-")
    title = f"[{method.title}](#{anchor})" if section else method.title
    return [title, method.idea, cost_cells(costs(next(iter(method.models.values())), {}))["state"]]


def trained(method: Method) -> int:
    """Parameters of its model for the paper's data, without those of a frozen backbone."""
    name, options = next(iter(method.models.values())), dict(method.options)
    config = model_config(name)
    if "pairs" in head_options(config.head.name):  # the numbers of the data; which pairs does not matter
        pairs = [[0, 0]] * config.head.options["num_classes"]
        options |= {"num_verbs": 125, "num_nouns": 352, "pairs": pairs}
    rows = summarize(model_config(name, **options)).rows
    return sum(row.parameters for row in rows[config.backbone.name == "bn_inception" :])


def printed(method: Method, metric: str, *tables: str) -> str:
    """The paper's value, from the first of these tables that has the method."""
    for name in tables:
        if name in method.rows:
            found = paper_table(name)
            value = found.values(method.rows[name]).get(metric)
            return "" if value is None else f"{value:.{found.decimals}f}"
    return ""


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
