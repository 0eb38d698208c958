"""Downloads of the models that were finetuned here: as they are saved, and as ONNX."""

import asyncio
import hashlib
import io
import os
import sys
import zipfile
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Response
from fastapi import Path as PathParameter
from fastapi.responses import FileResponse
from starlette.concurrency import run_in_threadpool

import horst
from horst.errors import CheckpointError, ExportError
from horst.extras import require
from horst.finetune import Finetuner
from horst.io import digest
from horst.models.card import CARD
from horst.models.checkpoint import CONFIG, LABELS, WEIGHTS
from horst.serving.errors import ApiError, file_response
from horst.threads import THREADS

FILES = (CONFIG, LABELS, WEIGHTS, CARD)
EXPORTS = 8  # ONNX files that are kept, newest first
TIMEOUT = 600.0  # seconds for one export, which takes less than one minute on a free machine
Name = Annotated[str, PathParameter(max_length=100)]


def download_routes(finetuner: Finetuner, exports: Path) -> APIRouter:
    """`exports`: folder of the ONNX files."""
    router, one_at_a_time = APIRouter(tags=["models"]), asyncio.Semaphore(1)

    @router.get("/api/models/{name}/model.zip", **file_response("application/zip", 404, 422))
    def saved(name: Name) -> Response:
        """A model that was finetuned here, as `horst.open_model` reads it once it is unpacked."""
        files = _read(finetuner, name)
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:  # weights do not get smaller
            for file, data in files.items():
                archive.writestr(zipfile.ZipInfo(file), data)
        attachment = {"content-disposition": f'attachment; filename="{name}.zip"'}  # letters, digits, - and _
        return Response(buffer.getvalue(), media_type="application/zip", headers=attachment)

    @router.get("/api/models/{name}/model.onnx", **file_response("application/octet-stream", 404, 422, 501))
    async def exported(name: Name) -> FileResponse:
        """A model that was finetuned here as ONNX, one frame at a time. The first call takes about a minute."""
        files = await run_in_threadpool(_read, finetuner, name)
        for module in ("onnx", "onnxscript", "onnxruntime"):
            await run_in_threadpool(require, module, "export")
        parts = {file: hashlib.sha256(data).hexdigest() for file, data in files.items() if file != CARD}
        path = exports / f"{digest(parts)}.onnx"  # an ONNX file has nothing of the card
        async with one_at_a_time:
            if not path.exists():
                await _export(finetuner.models_folder / name, path)
                for old in sorted(exports.glob("*.onnx"), key=lambda file: -file.stat().st_mtime)[EXPORTS:]:
                    old.unlink()
        return FileResponse(path, media_type="application/octet-stream", filename=f"{name}.onnx")

    return router


def _read(finetuner: Finetuner, name: str) -> dict[str, bytes]:
    """The files of a model; ApiError unless it was finetuned here."""
    if name not in finetuner.models():  # a name of the list is never a path of a client
        raise ApiError(404, f"there is no model {name!r} that was finetuned here")
    folder = finetuner.models_folder / name
    try:
        return {file: (folder / file).read_bytes() for file in FILES if (folder / file).exists()}
    except OSError as error:  # it is being replaced
        raise CheckpointError(f"the model {name} cannot be read: try again") from error


async def _export(model: Path, path: Path) -> None:
    """`horst export` in a process of its own: tracing a model would slow all streams of this one down."""
    path.parent.mkdir(parents=True, exist_ok=True)
    paths = [str(Path(horst.__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), THREADS: "1"}
    options = ["export", str(model), "--output", str(path), "--force"]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "horst", *options),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        env=environment,
    )
    try:
        async with asyncio.timeout(TIMEOUT):
            _, errors = await process.communicate()
    except TimeoutError:
        raise ExportError(f"the export took more than {TIMEOUT:g} s: try again when the machine is idle") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode or not path.exists():
        lines = errors.decode(errors="replace").replace(str(model), model.name).strip().splitlines()
        raise ExportError(f"the model cannot be exported: {lines[-1] if lines else 'the process was killed'}")
