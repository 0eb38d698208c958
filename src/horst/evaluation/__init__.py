"""Evaluation of models: predictions for a split, metrics, reports and result tables."""
