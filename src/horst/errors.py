"""The typed errors of the package: each message names the value at fault and what to do about it."""

import difflib
from collections.abc import Iterable


class HorstError(Exception):
    """Base of every error that the package raises on purpose."""


class InputError(HorstError, ValueError):
    """A tensor, length or argument that a call cannot work with."""


class BusyError(HorstError):
    """There is no room for another stream now; later there may be."""


class StateError(HorstError, ValueError):
    """A recurrent state that does not belong to this model, batch, device or dtype."""


class ConfigError(HorstError, ValueError):
    """An option with an unknown name, a wrong type or an impossible value."""


class CheckpointError(HorstError, ValueError):
    """A model folder or weights file that is missing, damaged or of another model."""


class ExistsError(CheckpointError):
    """A model folder that exists already and is not to be replaced without being asked."""


class DataError(HorstError, ValueError):
    """A data set that does not fit together: a label file, an annotation, a folder's layout."""


class VideoError(HorstError):
    """A video that cannot be used. `source` names it; the class says what is wrong."""

    def __init__(self, source: object, message: str) -> None:
        super().__init__(f"{source}: {message}")
        self.source = str(source)


class MissingVideoError(VideoError):
    """There is no such file, folder, camera or address."""


class EmptyVideoError(VideoError):
    """The file has no bytes, the folder no pictures."""


class NotAVideoError(VideoError):
    """The file is of another kind, or so damaged that its kind cannot be told."""


class NoVideoStreamError(VideoError):
    """The file is whole but holds no pictures, sound alone for example."""


class DamagedVideoError(VideoError):
    """Nothing of the video decodes, or less than was asked for."""


class ExportError(HorstError):
    """A model that cannot be exported, or a file that does not say what the model says."""


class MissingExtraError(HorstError, ImportError):
    """A feature that needs an optional package which is not installed."""


class DivergedError(HorstError):
    """The loss became NaN or infinite: the run stopped, its last good weights are kept."""


class LoggerError(HorstError):
    """A logger of a run that cannot be opened or reached."""


class TaskError(HorstError):
    """Some parts of a command failed on a cluster; the others are done and kept."""


class StudyError(HorstError):
    """Some runs of a study failed; the others are done, and their tables made."""


def with_file(path: object, error: Exception) -> str:
    """The message of an error, which names the file that it is about."""
    return str(error) if str(path) in str(error) else f"{path}: {error}"


def did_you_mean(name: object, known: Iterable[object], listing: str = "", *, separator: str = ", ") -> str:
    """The end of a message about an unknown name: ", did you mean 'a', 'b'?", the known names closest to `name`.

    It is empty when no name is close. With `listing`, such as "There are", all known names follow.
    """
    names = [str(one) for one in known]
    matches = difflib.get_close_matches(str(name), names, n=3, cutoff=0.5)
    close = f", did you mean {', '.join(map(repr, matches))}?" if matches else ""
    return f"{close or '.'} {listing}: {separator.join(names)}." if listing else close
