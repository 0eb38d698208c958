// The token of the server: from the URL (#token=...) or from the user; kept in this tab only.

import { $ } from "./dom.js";

const NAME = "horst-token";

export const token = () => sessionStorage.getItem(NAME) ?? "";

/** Take the token from the URL and remove it there. */
export function takeTokenFromUrl() {
  const parameters = new URLSearchParams(location.hash.slice(1) || location.search);
  if (!parameters.has("token")) return;
  sessionStorage.setItem(NAME, parameters.get("token"));
  history.replaceState(null, "", location.pathname);
}

let asking = null;

/** Ask the user for the token; concurrent calls share one dialog. */
export function askForToken() {
  asking ??= new Promise((resolve) => {
    const dialog = $("token-dialog");
    const done = () => {
      sessionStorage.setItem(NAME, $("token").value.trim());
      $("token").value = "";
      asking = null;
      resolve();
    };
    dialog.addEventListener("close", done, { once: true });
    $("token-wrong").hidden = !token();
    dialog.showModal();
  });
  return asking;
}

$("token-dialog").addEventListener("cancel", (event) => event.preventDefault()); // nothing works without a token
