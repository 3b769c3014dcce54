// A fetch for HttpAgent that survives cut connections: it reads on where the last one ended, by the id of the last whole frame. Without
// one it repeats the request, which streams the same run again.

/** Ends the run: nothing follows. */
const LAST = /"type":"RUN_(FINISHED|ERROR)"/;
/** Pause before a new connection, in milliseconds. */
const PAUSE = 100;

/** `cut` is given each connection's body, and returns what the client sees of it: tests end it early. */
export function resumingFetch(cut = (body) => body) {
  return async (url, init) => {
    const first = await fetch(url, init);
    if (!first.ok) return first;
    // Chosen by the server, so that the client needs to know nothing else.
    const location = new URL(first.headers.get("location"), url);
    let lastId = null;
    let isOver = false;
    let connection = first;
    const decoder = new TextDecoder();
    const encoder = new TextEncoder();

    async function* frames() {
      while (!isOver) {
        let text = "";
        try {
          for await (const bytes of cut(connection.body)) {
            text += decoder.decode(bytes, { stream: true });
            const whole = text.split("\n\n");
            text = whole.pop();
            for (const frame of whole) {
              lastId = /^id: (.*)$/m.exec(frame)?.[1] ?? lastId;
              isOver ||= LAST.test(frame);
              yield encoder.encode(`${frame}\n\n`);
            }
          }
        } catch (error) {
          if (init.signal?.aborted) throw error;
        }
        decoder.decode();
        if (isOver) return;
        await new Promise((resolve) => setTimeout(resolve, PAUSE));
        const { Authorization } = init.headers;
        try {
          connection = lastId === null
            ? await fetch(url, init)
            : await fetch(location, { headers: { Authorization, "Last-Event-ID": lastId }, signal: init.signal });
        } catch (error) {
          if (init.signal?.aborted) throw error;
          // There is no server just now.
          connection = { body: [], ok: true };
        }
        if (connection.status === 204) return;
        if (!connection.ok) throw new Error(`reconnecting: HTTP ${connection.status}: ${await connection.text()}`);
      }
    }

    return new Response(ReadableStream.from(frames()), { status: 200, headers: first.headers });
  };
}
