"""Evaluation of models: predictions for a split, metrics, the protocol guard, reports and result tables."""
