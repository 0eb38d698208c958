"""Data sets: annotations in several formats, clips that are decoded on demand, and batches of them."""

from horst.data.config import DataConfig as DataConfig
from horst.data.example import Annotations as Annotations
from horst.data.example import Example as Example
from horst.data.source import Source as Source
from horst.data.source import open_source as open_source
from horst.data.source import register_source as register_source
