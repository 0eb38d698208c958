"""All models of a server and who may come in: a stream is let in where there is room for it and time to serve it.

Room is a number of streams. Time is what a step costs here and now (`load.py`): a stream with which the models would be
at work for more than `Limits.load` of the time is told "busy" at the door. Where a machine gets slower later and stays
so, such that those inside can no longer be held, the newest is sent away, over skipping frames of all of them without
end. The last one stays, and nobody has to go for a lesson: that ends by itself.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

from horst.errors import BusyError, CheckpointError, ConfigError, InputError, did_you_mean
from horst.finetune.names import taught_models
from horst.models import Predictor, load, pretrained_models
from horst.models.checkpoint import read_config
from horst.serving.engine import Engine, Guest
from horst.serving.limits import Limits
from horst.serving.metrics import Metrics
from horst.streaming import ResetPolicy, reset_policy

STRAINED = 5.0
"""Seconds of more work than there is time for, after which the newest stream is sent away."""
STRAIN = 1.25
"""More work than there is time for, in parts of `Limits.load`: of its default that is all the time there is. Whoever
was let in just below the limit need not go for a small change."""
BUSY = "all places are taken: try again in a while"

log = logging.getLogger("horst.serving")


class Hall:
    """The models, by name, opened when they are first asked for."""

    def __init__(
        self,
        name: str,
        model: Predictor,
        *,
        limits: Limits,
        metrics: Metrics,
        taught: Path | None = None,
        device: str = "cpu",
        lesson: Callable[[], bool] = lambda: False,
    ) -> None:
        """
        Args:
            name: Of the model that is served where none is asked for.
            model: In evaluation mode.
            limits: What is granted.
            metrics: Where streams are counted.
            taught: The folder of models that were taught here.
            device: Where further models run.
            lesson: Whether a model is being taught, which makes the others slower for a while.
        """
        self.name, self.limits, self.metrics, self.taught, self.device = name, limits, metrics, taught, device
        self._lesson = lesson
        self._models: dict[str, tuple[float, Predictor]] = {name: (0.0, model)}
        self._engines: dict[str, Engine] = {}
        self._lock = threading.RLock()
        self._strained_since: float | None = None
        self._closed = threading.Event()
        self._engine(name, model)  # now, so that the first stream does not wait for it
        threading.Thread(target=self._watch, name="load", daemon=True).start()

    @property
    def load(self) -> float:
        return sum(engine.load() for engine in tuple(self._engines.values()))

    def names(self) -> list[str]:
        """The one that is served first, then the package's, then those taught here."""
        return list(dict.fromkeys((self.name, *pretrained_models(), *self._taught())))

    def model(self, name: str | None) -> tuple[str, Predictor]:
        """A model by its name, ready to be asked; it takes a moment the first time."""
        name = name or self.name
        with self._lock:
            if name not in self.names():
                raise ConfigError(f"there is no model {name!r}{did_you_mean(name, self.names())}")
            folder = self._folder(name)
            stamp = 0.0 if folder is None else _stamp(folder)
            if name in self._models and self._models[name][0] == stamp:
                return name, self._models[name][1]
            self._forget(name, "the model was taught anew: start again")
            assert folder is not None
            self._make_room()
            try:
                self._models[name] = stamp, load(folder, device=self.device).eval()
            except CheckpointError as error:  # where it lies is nobody's business
                raise CheckpointError(str(error).replace(str(folder), name)) from error
            return name, self._models[name][1]

    def describe(self, name: str) -> dict[str, Any]:
        """What a list of models says of one, without opening it."""
        folder = self._folder(name)
        try:
            config = read_config(folder) if folder is not None else None
            labels = json.loads((folder / "labels.json").read_text(encoding="utf-8")) if folder is not None else None
        except (OSError, ValueError):  # without labels, damaged, or being written just now: `model` tells
            config = None
        if config is None or not isinstance(labels, dict):
            model = self.model(name)[1]
            fps, size, tasks = model.fps, model.size, dict(model.head.classes)
        else:
            fps, size, tasks = config.fps, config.size, {task: len(names) for task, names in labels.items()}
        taught = name in self._taught()
        return {
            "name": name,
            "title": TITLES.get(name, name),
            "fps": fps,
            "size": list(size),
            "tasks": tasks,
            "taught": taught,
        }

    def open(
        self, name: str | None, policy: Callable[[Predictor], ResetPolicy], threshold: float, attention: bool,
        notify: Callable[[], None],
    ) -> tuple[Engine, Guest]:  # fmt: skip
        """A new stream; BusyError where there is no room or no time. Not from the event loop: a model may be opened."""
        with self._lock:
            if self.metrics.streams >= self.limits.streams:
                self.metrics.add(busy=1)
                raise BusyError(BUSY)
            name, model = self.model(name)
            restarts = policy(model)
            try:
                engine = self._engine(name, model)
                more = engine.load(restarts.states) - engine.load()
                if self.metrics.streams and self.load + more > self.limits.load:
                    raise BusyError("the models have no time for another stream: try again in a while")
                guest = engine.open(restarts, threshold, attention, notify)
            except BusyError:
                self.metrics.add(busy=1)
                raise
            self.metrics.add(streams=1, opened=1)
            return engine, guest

    def leave(self, engine: Engine, guest: Guest) -> None:
        """The stream has ended."""
        self.metrics.add(streams=-1)
        if not self._closed.is_set():
            engine.close(guest)

    def close(self) -> None:
        """Ends all threads."""
        self._closed.set()
        with self._lock:
            for engine in self._engines.values():
                engine.stop()
            self._engines.clear()

    def _engine(self, name: str, model: Predictor) -> Engine:
        if name not in self._engines:
            places = self.limits.streams * self.limits.states
            self._engines[name] = Engine(name, model, places, self.metrics)
        return self._engines[name]

    def _make_room(self) -> None:
        """Forgets models that nobody uses, the oldest first, until one more fits."""
        for name in tuple(self._models):
            if len(self._models) < self.limits.models:
                return
            if name != self.name and not len(self._engines.get(name, ())):
                self._forget(name)
        if len(self._models) >= self.limits.models:
            raise BusyError(f"{len(self._models)} models are in use, and no more fit: try again in a while")

    def _forget(self, name: str, why: str = "the model makes room for another one") -> None:
        self._models.pop(name, None)
        engine = self._engines.pop(name, None)
        if engine is not None:
            engine.stop(why)

    def _taught(self) -> list[str]:
        return [] if self.taught is None else taught_models(self.taught)

    def _folder(self, name: str) -> Path | None:
        """Names come from lists of what there is, never from a path that a client wrote."""
        if name in self._taught():  # also where it is the one that is served: it may have been taught anew
            assert self.taught is not None
            return self.taught / name
        if name == self.name:
            return None
        return Path(str(files("horst") / "assets" / "models" / name))

    def _watch(self) -> None:
        while not self._closed.wait(1.0):
            try:
                self._ease(time.monotonic())
            except BusyError:
                pass  # that model is stopping
            except Exception:
                log.exception("the watch over the load")

    def _ease(self, now: float) -> None:
        """Sends the newest stream away where those inside have needed more time than there is for some seconds."""
        engines = [engine for engine in tuple(self._engines.values()) if len(engine)]
        few = sum(map(len, engines)) < 2
        if few or self.load <= STRAIN * self.limits.load or self._lesson():
            self._strained_since = None
        elif self._strained_since is None:
            self._strained_since = now
        elif now - self._strained_since >= STRAINED:
            newest = max(engines, key=lambda engine: engine.newest)
            newest.send_away_newest("the models have no time for this stream any more: try again in a while")
            self.metrics.add(busy=1)
            self._strained_since = now - STRAINED / 2


TITLES = {"somethings": "Hands and things (24 actions)", "kitchen": "What a cook does next (anticipation)"}


def choose_policy(
    model: Predictor, restarts: str, seconds: float, states: int, limits: Limits, *, endless: bool = True
) -> ResetPolicy:
    """By name, within the limits."""
    chosen = reset_policy(restarts, model.head.classes, seconds=seconds, states=states, live=endless)
    if chosen.states > limits.states:
        raise InputError(f"states is {states}; at most {limits.states} are granted")
    return chosen


def _stamp(folder: Path) -> float:
    weights = folder / "model.safetensors"
    return weights.stat().st_mtime if weights.exists() else 0.0
