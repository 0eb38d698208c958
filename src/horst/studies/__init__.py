"""Studies: declared grids of runs, resumable, that end in tables and plots. `horst study NAME` runs one.

config      a study as plain data, one YAML file
plan        its runs, one by one, and how far each has come
children    the processes that train and evaluate them
statistics  intervals, as pure functions
values      what each example counts in a metric, from stored predictions
outcomes    finished runs, read back; folds put together
compare     the rows of the table
report      results.json, results.md; `plots` draws
"""
