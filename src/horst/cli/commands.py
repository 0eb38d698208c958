"""The commands as typed functions: signatures are the options, docstrings the help. What they do is imported on use."""

from __future__ import annotations

from typing import Any, Literal


def demo(
    *,
    folder: str = "horst-demo",
    clips: int = 96,
    videos: int = 4,
    seed: int = 1000,
    streams: int = 4,
    frames: int = 100,
    threads: int | None = None,
) -> None:
    """See it work: parity with the paper's release, the speed of a step, and small trained models on fresh videos.

    Args:
        folder: Where the clips, the videos and the report go.
        clips: How many clips to make, in which an action is to be recognised early.
        videos: How many videos of a cook to make, in which the next action is to be foreseen.
        seed: Another seed makes others; the models were trained with seed 0.
        streams: How many of the clips to stream frame by frame.
        frames: How many frames to time.
        threads: CPU threads to use; torch's own choice by default.
    """
    from horst.cli.demo import run

    run(folder=folder, clips=clips, videos=videos, seed=seed, streams=streams, frames=frames, threads=threads)


def info(
    model: str,
    *,
    variant: Literal["paper", "released"] | None = None,
    size: tuple[int, int] | None = None,
    json: bool = False,
) -> None:
    """Show what a model costs: parameters, operations a frame, bytes of state, layer by layer.

    Args:
        model: Name of a model, such as horst_tiny, or a saved one: a folder, a run, hf://user/name, `somethings`.
        variant: The form of the paper or of its official release; of named models only.
        size: Height and width of the frames, such as [224,224]; the model's own by default.
        json: Print plain data instead of tables.
    """
    from horst.cli.info import run

    run(model, variant=variant, size=size, as_json=json)


def list_models(
    method: str | None = None,
    *,
    data: Literal["paper", "ek100", "tiny"] = "paper",
    task: Literal["recognition", "anticipation"] | None = None,
    json: bool = False,
) -> None:
    """List the methods of the paper's tables: the model and loss of each, its costs, and the paper's figures.

    Args:
        method: Name of one, such as rulstm, to see what it is, its models, its configs and its rows of the paper.
        data: The models for the paper's data (Something-Something v2, EPIC-Kitchens 55), for EPIC-Kitchens 100, or the
            small ones for drawn videos.
        task: Those of one task alone.
        json: Print plain data instead of tables.
    """
    from horst.cli.models import run

    run(method, data=data, task=task, as_json=json)


def make_somethings(
    folder: str,
    *,
    clips: int = 1000,
    seed: int = 0,
    size: int = 112,
    templates: int = 0,
    packed: bool = False,
    processes: int | None = None,
) -> None:
    """Make clips of hands and things in the format of Something-Something v2, for early recognition.

    Args:
        folder: Where to; a run that was stopped goes on.
        clips: How many.
        seed: Another seed makes other clips.
        size: Height and width in pixels.
        templates: How many of the 24 actions, beginning with the simplest; 0: all.
        packed: Write the packed form instead of files, which needs no FFmpeg.
        processes: How many at once; all cores by default.
    """
    from horst.console import Console
    from horst.synth.make import make_somethings

    options: dict[str, Any] = {"templates": templates, "packed": packed, "processes": processes}
    Console().print(str(make_somethings(folder, clips, seed=seed, size=size, **options)))


def make_kitchen(
    folder: str,
    *,
    videos: int = 40,
    seed: int = 0,
    size: tuple[int, int] = (128, 228),
    packed: bool = False,
    processes: int | None = None,
) -> None:
    """Make long videos of a cook at work in the format of EPIC-Kitchens 100, for anticipation.

    Args:
        folder: Where to; a run that was stopped goes on.
        videos: How many, of one to two minutes each.
        seed: Another seed makes other videos.
        size: Height and width in pixels, such as [128,228].
        packed: Write the packed form instead of files, which needs no FFmpeg.
        processes: How many at once; all cores by default.
    """
    from horst.console import Console
    from horst.synth.make import make_kitchen

    Console().print(str(make_kitchen(folder, videos, seed=seed, size=size, packed=packed, processes=processes)))


def check_data(
    data: str,
    *,
    depth: Literal["files", "headers", "frames"] = "headers",
    json: bool = False,
    processes: int | None = None,
) -> None:
    """Look through a data set: counts, classes, missing and damaged files, overlap between splits.

    Args:
        data: The data set's YAML file.
        depth: Whether files must be there, open, or decode to their ends.
        json: Print plain data instead of tables.
        processes: How many at once; all cores by default.
    """
    from horst.cli.data import check

    check(data, depth=depth, as_json=json, processes=processes)


def pack_data(data: str, folder: str, *, quality: int = 90, processes: int | None = None) -> None:
    """Pack a data set into a few large files that are read without FFmpeg.

    Args:
        data: The data set's YAML file; its clip's size and fps are what is packed.
        folder: Where to; a run that was stopped goes on.
        quality: Of the JPEG pictures, 1 to 95.
        processes: How many at once; all cores by default.
    """
    from horst.cli.data import pack

    pack(data, folder, quality=quality, processes=processes)


def extract(
    data: str,
    folder: str,
    *,
    backbone: str = "bn_inception",
    options: dict[str, Any] | None = None,
    weights: str | None = None,
    part: int = 0,
    parts: int = 1,
    batch: int = 16,
    device: str = "cpu",
) -> None:
    """Run a backbone over all frames that a data set's clips show, and store its maps (fp16) for training.

    Args:
        data: The data set's YAML file.
        folder: Where to; a run that was stopped goes on.
        backbone: Name of the backbone: bn_inception, efficientnet_lite0, stem or timm.
        options: Its options, such as {pretrained: true}.
        weights: RULSTM's TSN checkpoint for bn_inception, or a model (a folder, a run, hf://user/name) whose backbone
            is taken.
        part: Which part of the work this process does, from 0.
        parts: In how many parts processes or machines share the work.
        batch: Frames that go through the backbone at once.
        device: Where it runs: cpu, cuda, cuda:1, ...
    """
    from horst.cli.extract import run

    run(data, folder, backbone, options or {}, weights, part=part, parts=parts, batch=batch, device=device)


def train(
    run: str | None = None,
    *,
    folder: str | None = None,
    resume: str | None = None,
    init: str | None = None,
    dry_run: bool = False,
    evaluate: bool = False,
    set: list[str] | None = None,
) -> None:
    """Train a model as a YAML file says; any entry of it can be changed: --trainer.epochs 3 --seed 1.

    Args:
        run: A YAML file, or the name of a packaged run, such as somethings/cpu.
        folder: Where the run is kept; runs/<name> by default.
        resume: The folder of a run that was stopped, to go on with it.
        init: A saved model, a run or hf://user/name to start from; where its labels are others, the head starts afresh.
        dry_run: Open the data, build the model, print the run as resolved, and stop.
        evaluate: Go on with `horst evaluate` when it is trained.
        set: Entries to change, as key=value; `--key value` is short for it.
    """
    from horst.cli.train import run as start

    start(run, folder=folder, resumed=resume, init=init, dry_run=dry_run, evaluated=evaluate, overrides=set or [])


def evaluate(
    run: str,
    *,
    data: str | None = None,
    split: str = "val",
    weights: Literal["best", "last"] = "best",
    mode: Literal["rulstm", "strict"] | None = None,
    device: str = "auto",
    batch: int | None = None,
    workers: int | None = None,
    challenge: str | None = None,
    json: bool = False,
) -> None:
    """Evaluate a run: accuracy over the observed part of a clip, or at every time before an action.

    Args:
        run: The folder of a run; with --data also a saved model's, hf://user/name, or `somethings` or `kitchen`.
        data: A data set's YAML file, in place of the run's own.
        split: Which part of it.
        weights: The best model of the run or its last one, whose files are RUN/evaluation/<split>-last.*.
        mode: Anticipation: what positions before a video's start show; the data's own by default.
        device: auto, cpu, cuda, cuda:1, ...
        batch: Clips at a time.
        workers: Processes that decode.
        challenge: Write predictions for the EPIC-Kitchens 100 challenge to this file.
        json: Print plain data instead of tables.
    """
    from horst.cli.evaluate import run as start

    start(
        run,
        data=data,
        split=split,
        weights=weights,
        mode=mode,
        device=device,
        batch=batch,
        workers=workers,
        challenge=challenge,
        as_json=json,
    )


def predict(
    model: str,
    source: str,
    *,
    restart: Literal["auto", "never", "every", "motion"] = "auto",
    seconds: float = 3.0,
    states: int = 3,
    threshold: float = 0.0,
    top: int = 5,
    fps: float | None = None,
    patience: float = 0.0,
    device: str = "auto",
    json: bool = False,
    render: str | None = None,
) -> None:
    """Say what happens in a video while it unfolds: a file, a folder of frames, a camera or an address.

    Args:
        model: A run, a saved model, hf://user/name, or `somethings` or `kitchen`, the package's own.
        source: clip.mp4, a folder of frames, camera:0, rtsp://...
        restart: When the model starts afresh by itself: never, every so many seconds, or when something begins to move;
            auto: every for recognition of a camera or an address, which have no start, else never.
        seconds: Of `every`, how long one state lives.
        states: Of `every`, how many states there are, one after the other; the surest answers.
        threshold: The probability below which there is no answer.
        top: How many classes to show.
        fps: Of a folder, how many frames there are a second.
        patience: Of a camera or an address, seconds without a frame until it is given up.
        device: auto, cpu, cuda, cuda:1, ...
        json: Print a line of JSON for each prediction.
        render: out.mp4, a video to make of it: frames, names with bars, their course, and where the model looked. Of a
            camera or an address until Ctrl-C.
    """
    from horst.cli.predict import run

    run(
        model,
        source,
        restart=restart,
        seconds=seconds,
        states=states,
        threshold=threshold,
        top=top,
        fps=fps,
        patience=patience,
        device=device,
        as_json=json,
        render=render,
    )


def serve(
    model: str = "somethings",
    *,
    port: int = 8000,
    host: str = "127.0.0.1",
    token: str | None = None,
    origin: str | None = None,
    streams: int = 32,
    folder: str = "horst-live",
    device: str = "auto",
    threads: int | None = None,
    open: bool = False,
) -> None:
    """Serve a model: a page for the webcam and for teaching it, a WebSocket for live video, and a REST API.

    Args:
        model: A run, a saved model, hf://user/name, or `somethings` or `kitchen`, the package's own.
        port: Where it listens; 0 takes a free one.
        host: The address it listens at; other machines can reach any but the default, which then takes a token.
        token: What clients must bring, at least 8 characters.
        origin: Pages of other sites that may call, such as https://example.org, with commas between.
        streams: Live streams at once.
        folder: Where recordings, taught models and samples are kept.
        device: auto, cpu, cuda, cuda:1, ...
        threads: CPU threads of the models; all cores but one by default.
        open: Show the page in a browser.
    """
    from horst.cli.serve import run

    run(
        model,
        host=host,
        port=port,
        token=token,
        origin=origin,
        streams=streams,
        folder=folder,
        device=device,
        threads=threads,
        open_page=open,
    )


def report(
    run: str,
    *,
    data: str | None = None,
    split: str = "val",
    clips: int = 6,
    output: str | None = None,
    device: str = "auto",
) -> None:
    """Write a page about a run: curves, mistakes, calibration, and clips with what was said and attended to.

    Args:
        run: The folder of a run; with --data also a saved model's, hf://user/name, or `somethings` or `kitchen`.
        data: A data set's YAML file, in place of the run's own.
        split: Which part of it.
        clips: How many to show: some that are right, some that are wrong, some with a change of mind.
        output: The HTML file; RUN/evaluation/<split>.html by default, or <model>-report.html.
        device: auto, cpu, cuda, cuda:1, ...
    """
    from horst.cli.report import run as start

    start(run, data=data, split=split, clips=clips, output=output, device=device)


def table(runs: list[str], *, json: bool = False) -> None:
    """Print evaluated runs as Markdown tables, with the paper's numbers beside those that reproduce a row of it.

    Args:
        runs: Folders of runs; those that differ in their seed alone are one row.
        json: Print plain data instead.
    """
    from horst.cli.evaluate import table as start

    start(runs, as_json=json)


def study(
    study: list[str],
    *,
    folder: str | None = None,
    parallel: int = 1,
    only: list[str] | None = None,
    seeds: list[int] | None = None,
    devices: list[int] | None = None,
    report: bool = False,
    set: list[str] | None = None,
) -> None:
    """Run a study: a declared grid of runs, resumable, that ends in tables and plots.

    Args:
        study: A packaged study, such as table1, or a YAML file; several are done in one queue. Without any,
            they are listed.
        folder: Where its runs and results are kept; runs/studies/<name> by default.
        parallel: How many runs at once, on each device.
        only: These of its runs alone: --only horst conv_lstm.
        seeds: In place of the study's own: --seeds 0 1 2.
        devices: GPUs to spread runs over: --devices 0 1.
        report: Make the tables of what is done, and run nothing.
        set: Entries of all runs to change, as key=value; `--trainer.epochs 3` is short for it.
    """
    from horst.cli.study import run

    run(
        study,
        folder=folder,
        parallel=parallel,
        only=only or [],
        seeds=seeds or [],
        devices=devices or [],
        report=report,
        overrides=set or [],
    )


def export(
    model: str,
    *,
    what: Literal["step", "clip"] = "step",
    format: Literal["onnx", "torch", "aoti"] = "onnx",
    output: str | None = None,
    frames: int | None = None,
    unroll: int | None = None,
    opset: int | None = None,
    force: bool = False,
) -> None:
    """Write a model as a file that runs without this package, and check that it says the same.

    Args:
        model: A run, a saved model, hf://user/name, `somethings` or `kitchen`, or a name such as horst_tiny.
        what: One frame with the state passed in and out, or a whole clip that starts afresh (ONNX alone).
        format: ONNX; torch.export's .pt2; or a .pt2 that AOTInductor compiles for this machine (a C++ compiler).
        output: The file; <model>-<what>.onnx or .pt2 by default.
        frames: Of a clip: a fixed number of frames; any number by default.
        unroll: Of an unrolling head: how many LSTM steps off the action is, at every frame.
        opset: Of ONNX, 18 to 23; 20 by default.
        force: Replace a file that exists.
    """
    from horst.cli.export import run

    run(
        model,
        what=what,
        format=format,
        output=output,
        frames=frames,
        unroll=unroll,
        opset=opset,
        force=force,
    )


COMMANDS: dict[str, Any] = {
    "demo": demo,
    "train": train,
    "evaluate": evaluate,
    "predict": predict,
    "serve": serve,
    "report": report,
    "table": table,
    "study": study,
    "models": list_models,  # a function `models` would be looked for as horst.models, and `--help` wait for torch
    "info": info,
    "export": export,
    "extract": extract,
    "data": {
        "_help": "Make, check and pack data sets.",
        "make": {
            "_help": "Make a data set by drawing it.",
            "somethings": make_somethings,
            "kitchen": make_kitchen,
        },
        "check": check_data,
        "pack": pack_data,
    },
}
