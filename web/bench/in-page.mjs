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

/** Interactions whose next frame came 16 ms later or more: `interactionsSeen()` gives these, and the number of all, where the browser counts them. */
export function watchInteractions() {
  const slow = new Map();
  new PerformanceObserver((list) => {
    for (const { interactionId, duration, name, target } of list.getEntries()) {
      if (!interactionId || duration <= (slow.get(interactionId)?.duration ?? 0)) continue;
      const of = target ? `${target.localName}${target.id ? `#${target.id}` : ''}` : '';
      slow.set(interactionId, { duration, what: `${name} ${of}`.trim() });
    }
  }).observe({ type: 'event', durationThreshold: 16 });
  const before = performance.interactionCount;
  globalThis.interactionsSeen = () => ({
    slow: [...slow.values()],
    count: before === undefined ? null : performance.interactionCount - before,
  });
}

/** Where the last of the matching elements can be clicked that is in sight; null: none is. */
export function placeOf(selector) {
  for (const element of [...document.querySelectorAll(selector)].slice(-6).reverse()) {
    const { left, top, width, height } = element.getBoundingClientRect();
    const [x, y] = [left + Math.min(width / 2, 40), top + height / 2];
    if (element.contains(document.elementFromPoint(x, y))) return { x, y };
  }
  return null;
}

/** When the first rows of the list of chats are painted: `rowsSeenAt` [ms since the navigation began]. */
export function watchRows() {
  const look = () => {
    if (!document.querySelector('.conversations .listed li[data-row]')) {
      requestAnimationFrame(look);
      return;
    }
    requestAnimationFrame(() => setTimeout(() => (globalThis.rowsSeenAt = performance.now())));
  };
  requestAnimationFrame(look);
}

/** Shows the next page of the list of chats. Returns how long that took [ms]; null: there is none. */
export function loadMore() {
  const button = [...document.querySelectorAll('.conversations .listed > button')].at(-1);
  if (!button) return null;
  const count = () => document.querySelectorAll('.conversations .listed li[data-row]').length;
  const before = count();
  const begun = performance.now();
  button.click();
  return new Promise((resolve) => {
    const look = () => {
      if (count() === before) requestAnimationFrame(look);
      else requestAnimationFrame(() => setTimeout(() => resolve(performance.now() - begun)));
    };
    requestAnimationFrame(look);
  });
}

/** Scrolls through the list of chats, so many pixels a frame. */
export function scrollThrough(step) {
  const list = document.querySelector('.conversations .listed');
  return new Promise((resolve) => {
    const scroll = () => {
      const before = list.scrollTop;
      list.scrollTop = before + step;
      if (list.scrollTop === before) resolve();
      else requestAnimationFrame(scroll);
    };
    requestAnimationFrame(scroll);
  });
}

/** What a search takes whose words are typed next: `searchSeen` has the time of its requests, until messages are shown, and since the last key [ms]. */
export function watchSearch(words) {
  globalThis.searchSeen = undefined;
  performance.clearResourceTimings();
  let typedAt = 0;
  const typed = ({ timeStamp }) => (typedAt = timeStamp);
  addEventListener('input', typed, true);
  const requestOf = (path) =>
    performance.getEntriesByType('resource').find(({ name }) => {
      const { pathname, searchParams } = new URL(name);
      return pathname === path && searchParams.get('q') === words;
    });
  let shownAt;
  const look = () => {
    const [messages, chats] = [requestOf('/api/messages/search'), requestOf('/api/conversations')];
    if (shownAt === undefined && messages && document.querySelector('.conversations li.hit mark'))
      requestAnimationFrame(() => setTimeout(() => (shownAt ??= performance.now())));
    if (shownAt === undefined || !chats) {
      requestAnimationFrame(look);
      return;
    }
    removeEventListener('input', typed, true);
    globalThis.searchSeen = {
      request: messages.duration,
      chats: chats.duration,
      shown: shownAt - messages.startTime,
      typed: shownAt - typedAt,
    };
  };
  requestAnimationFrame(look);
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
          firstMs,
          paintMs,
          blockedMs: blocking.reduce((sum, task) => sum + Math.max(0, task.duration - BLOCKS_MS), 0),
        });
      };
      look();
    });
}
