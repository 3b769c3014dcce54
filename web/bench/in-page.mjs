// What runs within the page that is measured. Each function stands by itself: it is sent there as text.

/** Time between frames, the work of each, and long tasks; `framesSeen()` gives them [ms]. */
export function watchFrames() {
  const frames = [];
  const work = [];
  const long = [];
  const channel = new MessageChannel();
  let last;
  let begun;
  // The first task behind a frame: its script, style and layout are over.
  channel.port1.onmessage = () => work.push(performance.now() - begun);
  const frame = (now) => {
    if (last !== undefined) frames.push(now - last);
    last = now;
    begun = performance.now();
    channel.port2.postMessage(null);
    requestAnimationFrame(frame);
  };
  requestAnimationFrame(frame);
  new PerformanceObserver((list) => long.push(...list.getEntries().map((entry) => entry.duration))).observe({
    type: 'longtask',
  });
  globalThis.framesSeen = () => ({ frames, work, long });
}

/** When words are in sight: `wordsSeenAt` [ms since the navigation began]. */
export function watchWords(words) {
  const look = () => {
    const last = [...document.querySelectorAll('article.turn')].at(-1)?.querySelectorAll('.markdown > *');
    const found = [...(last ?? [])].slice(-3).find((element) => element.textContent.includes(words));
    const place = found?.getBoundingClientRect();
    if (!place || place.height === 0 || place.top > innerHeight || place.bottom < 0) {
      requestAnimationFrame(look);
      return;
    }
    // Painted is what the frame has shown.
    requestAnimationFrame(() => setTimeout(() => (globalThis.wordsSeenAt = performance.now())));
  };
  requestAnimationFrame(look);
}

/** Largest contentful paint, and total blocking time until a second has gone by without a long task. */
export function watchLoad() {
  const QUIET_MS = 1000;
  const BLOCKS_MS = 50;
  let paintMs = 0;
  const long = [];
  new PerformanceObserver((list) => (paintMs = list.getEntries().at(-1).startTime)).observe({
    type: 'largest-contentful-paint',
    buffered: true,
  });
  new PerformanceObserver((list) => long.push(...list.getEntries())).observe({ type: 'longtask', buffered: true });
  globalThis.loadSeen = () =>
    new Promise((resolve) => {
      const look = () => {
        const firstMs = performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? Infinity;
        const last = long.at(-1);
        const quietSince = Math.max(firstMs, last ? last.startTime + last.duration : 0);
        if (performance.now() - quietSince < QUIET_MS || firstMs === Infinity) {
          setTimeout(look, 100);
          return;
        }
        const blocking = long.filter((task) => task.startTime + task.duration > firstMs);
        resolve({
          paintMs,
          blockedMs: blocking.reduce((sum, task) => sum + Math.max(0, task.duration - BLOCKS_MS), 0),
        });
      };
      look();
    });
}
