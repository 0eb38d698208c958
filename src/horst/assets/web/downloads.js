// Downloads: the selected model if it was trained here, and the video with its predictions.

import { $ } from "./dom.js";
import { sentence, showNotice } from "./notice.js";
import { download } from "./save.js";

/** `source`: the video; `model()`: name of the selected model. */
export function listenToDownloads(source, model) {
  const saved = (file, busy) => async () => {
    const name = model();
    $("download-text").textContent = busy;
    try {
      await download(`/api/models/${encodeURIComponent(name)}/model.${file}`, `${name}.${file}`);
      $("download-text").textContent = "";
    } catch (error) {
      $("download-text").textContent = sentence(error.message);
    }
  };
  once($("download-model"), saved("zip", ""));
  once($("download-onnx"), saved("onnx", "Exporting. The first time takes about a minute."));
  once($("download-video"), async () => {
    $("download-video").textContent = "Rendering...";
    try {
      const path = `/api/render?model=${encodeURIComponent(model())}&reset=never`;
      await download(path, `${source.name}-predictions.mp4`, { method: "POST", body: source.blob });
    } catch (error) {
      showNotice(error.message, { bad: true });
    } finally {
      $("download-video").textContent = "Download video";
    }
  });
}

/** Run `work` on a click, and not twice at once. */
function once(button, work) {
  button.addEventListener("click", async () => {
    button.disabled = true;
    await work();
    button.disabled = false;
  });
}
