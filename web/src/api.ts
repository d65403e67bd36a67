/** Calls to the server that the page came from, and to no other. */

import { key } from "./key";

export class ApiError extends Error {
  constructor(
    readonly kind: string,
    message: string,
    readonly status: number,
  ) {
    super(message);
  }
}

export interface ServerEvent {
  name: string;
  data: unknown;
}

const EVENT_CHARS_MAX = 64 << 20; // beyond it the server is not ours

// A form's type is the browser's to say: its boundary stands there.
function headers(body: unknown): HeadersInit {
  return {
    ...(body === undefined || body instanceof FormData ? {} : { "Content-Type": "application/json" }),
    ...(key() ? { Authorization: `Bearer ${key()}` } : {}),
  };
}

async function send(
  method: string,
  path: string,
  body?: unknown,
  signal?: AbortSignal,
): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(path, {
      method,
      headers: headers(body),
      cache: "no-store",
      credentials: "omit",
      ...(body === undefined ? {} : { body: body instanceof FormData ? body : JSON.stringify(body) }),
      ...(signal ? { signal } : {}),
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new ApiError("NoConnection", "The server doesn't answer. Does it still run?", 0);
  }
  if (!response.ok) throw await refusal(response);
  return response;
}

async function refusal(response: Response): Promise<ApiError> {
  const found: unknown = await response.json().catch(() => null);
  return asError(found, response.status);
}

/** Reads an error's reply, or the data of an `error` event. */
export function asError(found: unknown, status: number): ApiError {
  const error = (found as { error?: { type?: unknown; message?: unknown } } | null)?.error;
  if (typeof error?.message !== "string") {
    return new ApiError("Unknown", `The server replied with status ${status}.`, status);
  }
  const hint = status === 401 ? " Put your key into the field “API key” above." : "";
  return new ApiError(String(error.type), `${error.message}${hint}`, status);
}

export async function get<T>(path: string, signal?: AbortSignal): Promise<T> {
  return (await send("GET", path, undefined, signal)).json() as Promise<T>;
}

export async function post<T>(path: string, body: unknown, signal?: AbortSignal): Promise<T> {
  return (await send("POST", path, body, signal)).json() as Promise<T>;
}

export async function remove(path: string): Promise<void> {
  await send("DELETE", path);
}

/** Posts a question and yields the events of its stream, each as it comes. */
export async function* events(
  path: string,
  body: unknown,
  signal: AbortSignal,
): AsyncGenerator<ServerEvent> {
  const response = await send("POST", path, body, signal);
  if (!response.body) return;
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    text += value;
    if (text.length > EVENT_CHARS_MAX) {
      await reader.cancel();
      throw new ApiError("TooLong", "The server's reply is too long.", 0);
    }
    let end = text.indexOf("\n\n");
    while (end >= 0) {
      const event = parsed(text.slice(0, end));
      text = text.slice(end + 2);
      end = text.indexOf("\n\n");
      if (event) yield event;
    }
  }
}

function parsed(frame: string): ServerEvent | null {
  let name = "message";
  const data: string[] = [];
  for (const line of frame.split("\n")) {
    if (line.startsWith("event: ")) name = line.slice(7);
    else if (line.startsWith("data: ")) data.push(line.slice(6));
  }
  return data.length ? { name, data: JSON.parse(data.join("\n")) as unknown } : null;
}
