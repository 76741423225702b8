/** Client of the HTTP API: errors as {@link Problem}, and ETags. */

import { signal } from "@preact/signals";
import { noteDate } from "../live/clock";
import type { ProblemDocument, Session } from "./types";

const BASE = "/api/v1";
const TIMEOUT = 30_000;

/** The session; undefined until it is known, null if there is none. */
export const session = signal<Session | null | undefined>(undefined);

/** An error response of the API, or a failed connection (status 0). */
export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    detail: string,
  ) {
    super(detail);
  }
}

export interface Tagged<T> {
  document: T;
  etag: string | null;
}

interface Options {
  method?: string;
  body?: unknown;
  headers?: Record<string, string>;
  signal?: AbortSignal;
}

async function problemOf(response: Response): Promise<Problem> {
  const fallback = `${response.status} ${response.statusText}`.trim();
  try {
    const document = (await response.json()) as Partial<ProblemDocument>;
    const code = document.code ?? "failed";
    return new Problem(response.status, code, document.detail ?? document.title ?? fallback);
  } catch {
    return new Problem(response.status, "failed", fallback);
  }
}

async function send(path: string, options: Options): Promise<Response> {
  const limit = AbortSignal.timeout(TIMEOUT);
  const abort = options.signal ? AbortSignal.any([options.signal, limit]) : limit;
  const headers: Record<string, string> = { Accept: "application/json", ...options.headers };
  const request: RequestInit = {
    method: options.method ?? "GET",
    headers,
    signal: abort,
    credentials: "same-origin",
    cache: "no-store",
  };
  if (options.body !== undefined) {
    headers["Content-Type"] = "application/json";
    request.body = JSON.stringify(options.body);
  }
  let response: Response;
  try {
    response = await fetch(BASE + path, request);
  } catch (error) {
    if (options.signal?.aborted) throw error;
    throw new Problem(0, "connection-failed", "The server does not respond.");
  }
  noteDate(response.headers.get("Date"));
  if (response.ok || response.status === 304) return response;
  if (response.status === 401) session.value = null;
  throw await problemOf(response);
}

async function read<T>(response: Response): Promise<T> {
  const text = await response.text();
  return (text === "" ? null : JSON.parse(text)) as T;
}

export async function get<T>(path: string, abort?: AbortSignal): Promise<T> {
  return read<T>(await send(path, abort ? { signal: abort } : {}));
}

/** Get a document with its ETag. */
export async function getTagged<T>(path: string, abort?: AbortSignal): Promise<Tagged<T>> {
  const response = await send(path, abort ? { signal: abort } : {});
  return { document: await read<T>(response), etag: response.headers.get("ETag") };
}

/** Get a document unless it still has *etag*; null then. */
export async function getIfChanged<T>(
  path: string,
  etag: string | null,
): Promise<Tagged<T> | null> {
  const response = await send(path, etag ? { headers: { "If-None-Match": etag } } : {});
  if (response.status === 304) return null;
  return { document: await read<T>(response), etag: response.headers.get("ETag") };
}

/** Put a document; with *etag* only if the resource has not changed (412 otherwise). */
export async function put<T>(path: string, body: unknown, etag?: string | null): Promise<T> {
  const headers: Record<string, string> = etag ? { "If-Match": etag } : {};
  return read<T>(await send(path, { method: "PUT", body, headers }));
}

export async function post<T>(path: string, body: unknown, abort?: AbortSignal): Promise<T> {
  return read<T>(await send(path, { method: "POST", body, ...(abort ? { signal: abort } : {}) }));
}

export async function remove<T>(path: string, body?: unknown): Promise<T> {
  return read<T>(await send(path, { method: "DELETE", body }));
}

/** Return *parameters* as a query with its question mark; empty ones are left out. */
export function query(parameters: Record<string, string | number | null | undefined>): string {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    if (value !== null && value !== undefined && value !== "") search.set(name, String(value));
  }
  const text = search.toString();
  return text === "" ? "" : `?${text}`;
}

/** Return the sentence of an error for the operator. */
export function sentence(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
