// Requests to the server. Errors have a readable message.

import { askForToken, token } from "./token.js";

export class ServerError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/** Send a request; asks for the token if the server requires one. */
export async function request(path, { method = "GET", json, body } = {}) {
  const headers = {};
  if (token()) headers.Authorization = `Bearer ${token()}`;
  if (json !== undefined) headers["Content-Type"] = "application/json";
  else if (body !== undefined) headers["Content-Type"] = "application/octet-stream";
  let response;
  try {
    response = await fetch(path, { method, headers, body: json === undefined ? body : JSON.stringify(json) });
  } catch {
    throw new ServerError(0, "The server does not respond. Is horst serve still running?");
  }
  if (response.status === 401) {
    await askForToken();
    return request(path, { method, json, body });
  }
  if (!response.ok) throw new ServerError(response.status, await errorMessage(response));
  return response;
}

/** Send a request and parse the JSON of the response. */
export const data = async (path, options) => (await request(path, options)).json();

async function errorMessage(response) {
  try {
    return (await response.json()).error.message;
  } catch {
    return `The server returned status ${response.status} for ${new URL(response.url).pathname}.`;
  }
}
