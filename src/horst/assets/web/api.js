// The server's REST interface. What fails is told as a plain sentence.

import { ask, token } from "./token.js";

export class ServerError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/** The answer to a request; asks for the token where the server wants one. */
export async function request(path, { method = "GET", json, body } = {}) {
  const headers = {};
  if (token()) headers.Authorization = `Bearer ${token()}`;
  if (json !== undefined) headers["Content-Type"] = "application/json";
  else if (body !== undefined) headers["Content-Type"] = "application/octet-stream";
  let response;
  try {
    response = await fetch(path, { method, headers, body: json === undefined ? body : JSON.stringify(json) });
  } catch {
    throw new ServerError(0, "The server does not answer. Is horst serve still running?");
  }
  if (response.status === 401) {
    await ask();
    return request(path, { method, json, body });
  }
  if (!response.ok) throw new ServerError(response.status, await sentence(response));
  return response;
}

/** As `request`, and what its JSON says. */
export const data = async (path, options) => (await request(path, options)).json();

async function sentence(response) {
  try {
    return (await response.json()).error.message;
  } catch {
    return `The server answered ${response.status} to ${new URL(response.url).pathname}.`;
  }
}
