// Requests that are sent before the script that needs their answers is there. Each answer is used once, by the first request for the same path.

const sent = new Map<string, Promise<Response>>();

export const HEADERS = { accept: 'application/json' };

/** Sends a GET request whose answer a later request takes. */
export function sendEarly(path: string): void {
  const answer = fetch(path, { headers: HEADERS, credentials: 'same-origin' });
  // Who takes it hears of the failure.
  answer.catch(() => {});
  sent.set(path, answer);
}

/** The answer to an early request, if there was one. It is not given twice. */
export function takeEarly(path: string): Promise<Response> | undefined {
  const answer = sent.get(path);
  sent.delete(path);
  return answer;
}

/** A change was sent: answers from before it would be out of date. */
export function forgetEarly(): void {
  sent.clear();
}
