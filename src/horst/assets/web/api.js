// Requests to the server. Errors have a readable message.

import { askForToken, token } from "./token.js";

export class ServerError extends Error {
  constructor(status, message, code = "") {
    super(message);
    this.status = status;
    this.code = code; // for programs
  }
}

/** Send a request; asks for the token if the server requires one. */
export async function request(path, { method = "GET", json, body, keepalive = false, signal } = {}) {
  const headers = {};
  if (token()) headers.Authorization = `Bearer ${token()}`;
  if (json !== undefined) headers["Content-Type"] = "application/json";
  else if (body !== undefined) headers["Content-Type"] = "application/octet-stream";
  let response;
  try {
    response = await fetch(path, { method, headers, keepalive, signal, body: json === undefined ? body : JSON.stringify(json) });
  } catch {
    throw new ServerError(0, "The server does not respond. Is horst serve still running?");
  }
  if (response.status === 401) {
    await askForToken();
    return request(path, { method, json, body, signal });
  }
  if (!response.ok) throw await errorOf(response);
  return response;
}

/** Send a request and parse the JSON of the response. */
export const data = async (path, options) => (await request(path, options)).json();

async function errorOf(response) {
  try {
    const { message, code } = (await response.json()).error;
    return new ServerError(response.status, message, code);
  } catch {
    return new ServerError(response.status, `The server returned status ${response.status} for ${new URL(response.url).pathname}.`);
  }
}
