// A fetch for HttpAgent that survives lost connections: it continues after the last complete event, by its id. If none has arrived, it
// repeats the request: its runId makes that safe.

/** Pause before the next connection, in milliseconds. */
const PAUSE_MS = 500;
/** Maximum number of connections in a row without an event. */
const ATTEMPTS = 120;

/** The fields of an event that are read here and in ThreadAgent. */
export interface RunEvent {
  type: string;
  outcome?: { type: string };
}

/** `adapt` changes events before the client reads them. */
export async function resumingFetch(url: string, init: RequestInit, adapt: (event: RunEvent) => void) {
  const first = await fetch(url, init);
  const location = first.headers.get('location');
  // An error, or a thread without an active run.
  if (!first.ok || !location) return first;
  const encoder = new TextEncoder();
  let lastId = '';
  let isOver = false;

  /** Passes the events of a connection on, until it or the run ends. */
  async function read(body: NonNullable<Response['body']>, controller: ReadableStreamDefaultController) {
    const reader = body.pipeThrough(new TextDecoderStream()).getReader();
    let text = '';
    while (!isOver) {
      const { done, value } = await reader.read();
      if (done) return;
      const frames = (text + value).split('\n\n');
      text = frames.pop() ?? '';
      // A frame without an id belongs to the next one with an id.
      const complete = frames.findLastIndex((frame) => /^id: /m.test(frame)) + 1;
      text = [...frames.splice(complete), text].join('\n\n');
      for (const frame of frames) {
        lastId = /^id: (.*)$/m.exec(frame)?.[1] ?? lastId;
        const data = /^data: (.*)$/m.exec(frame)?.[1];
        if (!data) continue;
        const event: RunEvent = JSON.parse(data);
        adapt(event);
        controller.enqueue(encoder.encode(`data: ${JSON.stringify(event)}\n\n`));
        isOver ||= event.type === 'RUN_FINISHED' || event.type === 'RUN_ERROR';
      }
    }
  }

  function reconnect() {
    if (!lastId) return fetch(url, init);
    const headers = { ...init.headers, 'Last-Event-ID': lastId };
    return fetch(location as string, { ...init, method: 'GET', body: null, headers });
  }

  async function readAll(controller: ReadableStreamDefaultController) {
    let response: Response | null = first;
    for (let attempts = 1; attempts <= ATTEMPTS; attempts += 1) {
      const before = lastId;
      // The connection may be lost at any time.
      if (response?.ok && response.body) await read(response.body, controller).catch(() => {});
      // 204: the client has all events.
      if (isOver || response?.status === 204) return controller.close();
      init.signal?.throwIfAborted();
      // The server refuses: it would refuse again.
      if (response && response.status >= 400 && response.status < 500) break;
      if (lastId !== before) attempts = 1;
      await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
      response = await reconnect().catch(() => null);
    }
    throw new Error(`The connection was lost (${response ? `HTTP ${response.status}` : 'the server is unreachable'}).`);
  }

  const body = new ReadableStream({
    start: (controller) => void readAll(controller).catch((error) => controller.error(error)),
    cancel: () => {
      isOver = true;
    },
  });
  return new Response(body, { headers: first.headers });
}
