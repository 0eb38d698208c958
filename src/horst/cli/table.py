"""`horst table`."""

import json
from pathlib import Path

from horst.cli.options import Json


def table(*runs: Path, as_json: Json = False) -> None:
    """Print evaluated runs as Markdown tables, with the paper's numbers beside those that reproduce a row of it.

    Args:
        runs: Folders of runs. Runs that differ in their seed alone share a row.
    """
    from horst.console import Console
    from horst.evaluation.table import table as markdown
    from horst.evaluation.table import table_data

    if as_json:
        print(json.dumps(table_data(runs), indent=1))
    else:
        Console(highlight=False).print(markdown(runs))
