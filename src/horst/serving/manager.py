"""The models of a server, and which sessions it accepts.

A new session is rejected as busy if there are too many, or if serving it would exceed `Limits.load`. The handshake is
refused if no session fits, so that a load balancer can try another server; `start` is, if the one that it asks for does
not. If the machine becomes slower later and stays overloaded, the newest session is evicted, so that the others keep
their frame rate. The last session is never evicted, and none is while a model is being finetuned, as that ends soon.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from horst.errors import BusyError, CheckpointError, ConfigError, did_you_mean
from horst.finetune import Finetuner
from horst.models import Predictor, PredictorConfig, open_model, pretrained_models
from horst.models.checkpoint import WEIGHTS, read_config, read_labels
from horst.models.predictor import Labels
from horst.serving.limits import Limits
from horst.serving.metrics import Metrics
from horst.serving.scheduler import Scheduler, Session
from horst.streaming import ResetPolicy
from horst.streaming.pool import class_names

OVERLOAD_SECONDS = 5.0  # duration of an overload after which the newest session is evicted
OVERLOAD_FACTOR = 1.25  # times `Limits.load` is an overload: a session that was just accepted survives small changes
TITLES = {"somethings": "Hands and objects (24 actions)", "kitchen": "Kitchen, next action (anticipation)"}
log = logging.getLogger("horst.serving")


@dataclass(frozen=True, slots=True)
class ModelInfo:
    name: str
    title: str
    fps: float
    size: tuple[int, int]
    tasks: dict[str, int]
    finetuned: bool
    synthetic: bool  # it knows synthetic clips only, so it is not for a camera
    error: str | None = None  # why it cannot be used


class ModelManager:
    """Models by name, loaded on first use, and their schedulers."""

    def __init__(self, name: str, model: Predictor, finetuner: Finetuner, limits: Limits, device: str = "cpu") -> None:
        """`name` and `model`: the default model; `device`: of the other ones, such as those of the finetuner."""
        self.name, self.finetuner, self.limits, self.device = name, finetuner, limits, device
        self.metrics = Metrics()
        self._models: dict[str, tuple[float, Predictor]] = {name: (0.0, model)}
        self._schedulers: dict[str, Scheduler] = {}
        self._lock = threading.RLock()
        self._overloaded_since: float | None = None
        self.stopped = threading.Event()
        self.draining = False  # it will stop soon and accepts no further session
        self._expected = 0  # WebSockets that are accepted and have not started a session; of the event loop only
        self._scheduler(name, model)  # now, so that the first session does not wait
        threading.Thread(target=self._watch, name="load", daemon=True).start()

    @property
    def load(self) -> float:
        """Fraction of time that the models need for the open sessions."""
        return sum(scheduler.load() for scheduler in tuple(self._schedulers.values()))

    def names(self) -> list[str]:
        """The default model, then those of the package, then those finetuned here."""
        return list(dict.fromkeys((self.name, *pretrained_models(), *self.finetuner.models())))

    def model(self, name: str | None) -> tuple[str, Predictor]:
        """The name of a model (the default one if None), and the model, which may have to be loaded."""
        name = name or self.name
        with self._lock:
            if name not in self.names():
                raise ConfigError(f"there is no model {name!r}{did_you_mean(name, self.names())}")
            folder = self._folder(name)
            weights = folder and folder / WEIGHTS
            modified = weights.stat().st_mtime if weights and weights.exists() else 0.0
            if name not in self._models or self._models[name][0] != modified:
                self._unload(name, "the model was replaced by a new one: start again")
                assert folder is not None
                self._make_room()
                try:
                    self._models[name] = modified, open_model(folder, device=self.device)
                except CheckpointError as error:  # clients must not see paths of the server
                    raise CheckpointError(str(error).replace(str(folder), name)) from error
            return name, self._models[name][1]

    def describe(self, name: str) -> ModelInfo:
        """Facts about a model, without loading it if possible."""
        finetuned = name in self.finetuner.models()
        try:
            model, labels = self.facts(name)
        except BusyError as error:
            reason = str(error)
        except Exception as error:  # clients must not see paths of the server
            log.warning("model %s: %s", name, error)
            reason = "the model is damaged, or of another version"
        else:
            tasks = {task: len(names) for task, names in labels.items()}
            synthetic = name in pretrained_models() and not finetuned
            return ModelInfo(name, TITLES.get(name, name), model.fps, model.size, tasks, finetuned, synthetic)
        return ModelInfo(name, name, 0.0, (0, 0), {}, finetuned, synthetic=not finetuned, error=reason)

    def facts(self, name: str) -> tuple[PredictorConfig | Predictor, Labels]:
        """The config of a model, and its class names by task. If they cannot be read, the model is loaded."""
        folder = self._folder(name) if name in self.names() else None
        with suppress(OSError, ValueError):  # damaged, or being written: `model` raises the error
            if folder is not None and (labels := read_labels(folder)):
                return read_config(folder), labels
        model = self.model(name)[1]
        return model, class_names(model)

    @property
    def full(self) -> bool:
        """Whether not even a session with one state of the default model is accepted."""
        expected = self.metrics.streams + self._expected
        if expected >= self.limits.streams:
            return True
        scheduler = self._schedulers.get(self.name)
        if scheduler is None:  # the model was replaced: the next session loads it
            return False
        more = scheduler.load(1) - scheduler.load()
        return expected > 0 and self.load + (1 + self._expected) * more > self.limits.load

    @contextmanager
    def expect_session(self) -> Iterator[None]:
        """Reserve room for a session while its client connects. BusyError if there is none; the client tries again."""
        if self.draining or self.full:
            self.metrics.add(busy=1)
            raise BusyError("the server is stopping" if self.draining else "server full")
        self._expected += 1
        try:
            yield
        finally:
            self._expected -= 1

    def open(
        self, session: Session, name: str | None, policy: Callable[[Predictor], ResetPolicy], **options: Any
    ) -> None:
        """Start a session; options: `SessionPool.open`. Blocks, as a model may be loaded. BusyError if it is full."""
        with self._lock:
            try:
                if self.metrics.streams >= self.limits.streams:
                    raise BusyError("server full")
                name, model = self.model(name)
                reset, scheduler = policy(model), self._scheduler(name, model)
                more = scheduler.load(reset.states) - scheduler.load()
                if self.metrics.streams and self.load + more > self.limits.load:
                    raise BusyError("server overloaded")
                scheduler.open(session, reset, **options)
            except BusyError:
                self.metrics.add(busy=1)
                raise
            self.metrics.add(streams=1, opened=1)

    def close(self, session: Session) -> None:
        """The session has ended."""
        self.metrics.add(streams=-1)
        if not self.stopped.is_set():
            session.scheduler.close(session)

    def stop(self) -> None:
        """Stop all threads."""
        self.stopped.set()
        with self._lock:
            while self._schedulers:
                self._schedulers.popitem()[1].stop()

    def _scheduler(self, name: str, model: Predictor) -> Scheduler:
        if name not in self._schedulers:
            states = self.limits.streams * self.limits.states
            self._schedulers[name] = Scheduler(name, model, states, self.metrics)
        return self._schedulers[name]

    def _make_room(self) -> None:
        """Unload unused models, oldest first, until one more fits."""
        for name in tuple(self._models):
            if len(self._models) < self.limits.models:
                return
            if name != self.name and not (name in self._schedulers and self._schedulers[name].sessions):
                self._unload(name, "the model was unloaded")
        if len(self._models) >= self.limits.models:
            raise BusyError(f"{len(self._models)} models are in use, which is the limit")

    def _unload(self, name: str, reason: str) -> None:
        self._models.pop(name, None)
        scheduler = self._schedulers.pop(name, None)
        if scheduler is not None:
            scheduler.stop(reason)

    def _folder(self, name: str) -> Path | None:
        """Folder of a model; `name` is one of `names`, never a path from a client."""
        if name in self.finetuner.models():  # may also be the default model
            return self.finetuner.models_folder / name
        return None if name == self.name else Path(str(files("horst") / "assets" / "models" / name))

    def _watch(self) -> None:
        while not self.stopped.wait(1.0):
            try:
                self._relieve(time.monotonic())
            except BusyError:
                pass  # that scheduler is stopping
            except Exception:
                log.exception("watching the load")

    def _relieve(self, now: float) -> None:
        """Evict the newest session after some seconds of overload."""
        sessions = [session for scheduler in tuple(self._schedulers.values()) for session in tuple(scheduler.sessions)]
        overloaded = self.load > OVERLOAD_FACTOR * self.limits.load
        if not overloaded or len(sessions) < 2 or self.finetuner.state().state == "running":
            self._overloaded_since = None
        elif self._overloaded_since is None:
            self._overloaded_since = now
        elif now - self._overloaded_since >= OVERLOAD_SECONDS:
            newest = max(sessions, key=lambda session: session.opened)
            newest.scheduler.evict(newest, "server overloaded")
            self.metrics.add(busy=1)
            self._overloaded_since = now - OVERLOAD_SECONDS / 2
