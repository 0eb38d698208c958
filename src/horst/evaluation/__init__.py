"""How good a model is: predictions of whole splits (`evaluate`, `predictions`), metrics, protocol guard, reports."""
