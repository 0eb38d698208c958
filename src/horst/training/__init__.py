"""Training: one YAML file is one run, which can be killed and resumed at any moment."""
