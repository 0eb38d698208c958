"""A video through an exported step, without torch or horst: numpy, onnxruntime and PyAV.

horst export somethings && python examples/onnx_step.py somethings-step.onnx clip.mp4
"""

import json
import sys

import av
import numpy as np
import onnxruntime

options = onnxruntime.SessionOptions()
options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # waiting threads leave the cores to others
session = onnxruntime.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
about = json.loads(session.get_modelmeta().custom_metadata_map["horst"])
height, width = about["size"]
labels = about["labels"]["action"]
outputs = [value.name for value in session.get_outputs()]
# A stream starts from zeros; what a step returns as next_NAME is NAME at the next one.
ports = {port["name"]: port for port in about["inputs"]}
state = {name: np.zeros([1, *ports[name]["shape"][1:]], ports[name]["dtype"]) for name in about["state"]}

shown, start = 0, None  # frames that the model has seen, and the time of the first: not every video begins at 0
with av.open(sys.argv[2]) as video:
    for picture in video.decode(video=0):
        start = picture.time if start is None else start
        while picture.time - start + 1e-3 >= shown / about["fps"]:  # the model's rate, not the video's
            pixels = picture.to_ndarray(format="rgb24", width=width, height=height)
            found = session.run(None, {"frame": pixels.transpose(2, 0, 1)[None], **state})
            found = dict(zip(outputs, found, strict=True))
            state = {name: found[after] for name, after in about["state"].items()}
            shown += 1
            if shown % 4 == 0:
                scores = np.exp(found["action"][0] - found["action"][0].max())
                best = np.argsort(-scores)[:3]
                print(f"{picture.time:6.2f} s ", ", ".join(f"{labels[i]} {scores[i] / scores.sum():.0%}" for i in best))
