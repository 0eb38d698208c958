// The server's token: from the address (#token=...) or asked for; kept by this tab alone.

import { $ } from "./dom.js";

const NAME = "horst-token";

export const token = () => sessionStorage.getItem(NAME) ?? "";

/** Take a token out of the address, so that it does not stay in sight. */
export function takeFromAddress() {
  const words = new URLSearchParams(location.hash.slice(1) || location.search);
  if (!words.has("token")) return;
  sessionStorage.setItem(NAME, words.get("token"));
  history.replaceState(null, "", location.pathname);
}

let asking = null;

/** Ask for the token, once for all who wait for it. */
export function ask() {
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

$("token-dialog").addEventListener("cancel", (event) => event.preventDefault()); // nothing works without it
