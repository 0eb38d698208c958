"""Studies: declared grids of runs, resumable, that end in tables and plots. `horst study NAME` runs one.

From its YAML file: config, plan, launcher, runner. From finished runs: results, statistics, compare, report, plots.
"""
