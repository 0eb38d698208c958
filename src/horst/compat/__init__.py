"""Other people's checkpoints in these models."""

from horst.compat.official import heads_from_official, horst_from_official

__all__ = ["heads_from_official", "horst_from_official"]
