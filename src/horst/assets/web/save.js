// Downloads with the token: a link cannot send it, a request can.

import { request } from "./api.js";
import { make } from "./dom.js";

/** Request a file and save it under a name. */
export async function download(path, name, options) {
  const blob = await (await request(path, options)).blob();
  const address = URL.createObjectURL(blob);
  make("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000); // the browser reads it first
}
