"""`horst study` without a name: which studies there are, what each asks, and of how many runs."""

from __future__ import annotations

from rich.box import SIMPLE_HEAD
from rich.table import Table

from horst.console import Console
from horst.errors import ConfigError
from horst.studies.config import Study, known_studies


def show(console: Console) -> None:
    known = known_studies()
    table = Table(box=SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    table.add_column("study", no_wrap=True, vertical="top")
    table.add_column("runs", justify="right", vertical="top")
    table.add_column("asks")
    for name, file in known.items():
        try:
            study = Study.from_file(file)
        except ConfigError as error:  # of one, which does not hide the others
            table.add_row(name, "", str(error))
            continue
        table.add_row(name, str(len(study.runs) * len(study.seeds) * max(1, len(study.folds))), study.question)
    console.print(table)
    console.print("horst study NAME does the runs that are left of one, and makes its tables")
