"""Studies: declared grids of runs, resumable, that end in tables and plots. `horst study NAME` runs one.

config      a study as one YAML file
plan        its runs, and the state of each
launcher    the processes that train and evaluate them
runner      run what is left of a study
results     finished runs, with folds pooled
statistics  metrics by example, and intervals
compare     the rows of the table
report      results.json, results.md; `plots` draws
"""
