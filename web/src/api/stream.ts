/** Client of server-sent events over fetch: it also sees the keep-alive comments. */

export interface StreamEvent {
  name: string;
  id: string | null;
  data: string;
}

export interface StreamHandlers {
  opened(): void;
  event(event: StreamEvent): void;
}

/** Without a byte for this time the connection counts as broken; the server sends every 15 s. */
const SILENCE = 35_000;

/** Parser of the event stream format; feed it text, it calls back for each event. */
export class EventParser {
  private rest = "";
  private name = "";
  private id: string | null = null;
  private data: string[] = [];

  constructor(private readonly emit: (event: StreamEvent) => void) {}

  feed(text: string): void {
    const lines = (this.rest + text).split(/\r\n|\n|\r(?!$)/);
    this.rest = lines.pop() ?? "";
    for (const line of lines) this.line(line);
  }

  private line(line: string): void {
    if (line === "") {
      if (this.data.length > 0) {
        this.emit({ name: this.name || "message", id: this.id, data: this.data.join("\n") });
      }
      this.name = "";
      this.data = [];
      return;
    }
    const colon = line.indexOf(":");
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (field === "event") this.name = value;
    else if (field === "data") this.data.push(value);
    else if (field === "id") this.id = value;
  }
}

/** Read one connection until it ends or breaks; never returns normally before that. */
export async function readStream(
  url: string,
  lastId: string | null,
  handlers: StreamHandlers,
  abort: AbortSignal,
): Promise<void> {
  const silent = new AbortController();
  let timer = 0;
  const restart = (): void => {
    window.clearTimeout(timer);
    timer = window.setTimeout(() => silent.abort(), SILENCE);
  };
  restart();
  try {
    const headers: Record<string, string> = { Accept: "text/event-stream" };
    if (lastId !== null) headers["Last-Event-ID"] = lastId;
    const response = await fetch(url, {
      headers,
      credentials: "same-origin",
      cache: "no-store",
      signal: AbortSignal.any([abort, silent.signal]),
    });
    if (!response.ok || response.body === null) throw new Error(`status ${response.status}`);
    handlers.opened();
    const parser = new EventParser((event) => handlers.event(event));
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      restart();
      parser.feed(value);
    }
  } finally {
    window.clearTimeout(timer);
  }
}
