// A user with many chats: the list of 1,000 of them, and the search over their 100,000 messages.
import assert from 'node:assert/strict';
import { sql } from '../tests/support/database.mjs';
import { loadMore, scrollThrough, watchFrames, watchRows, watchSearch } from './in-page.mjs';
import { slowDown } from './midrange.mjs';
import { greatest, median, quantile } from './statistics.mjs';

/** Number of different words in the messages. The first ones are frequent, the last ones rare, as in a language. */
const VOCABULARY = 2_000;
/** How fast the list is scrolled [px/frame]: 7,200 a second at 60 Hz. */
const SCROLL_STEP = 120;
/** Between two keys [ms]. */
const KEY_MS = 40;

const SYLLABLES = [...'bdfgklmnprstvz'].flatMap((consonant) => [...'aeiou'].map((vowel) => consonant + vowel));

/** The nth word: three syllables, so that none is left out of the index. */
function word(nth) {
  const at = (nth * 171 + 11) % SYLLABLES.length ** 3;
  return [at, at / SYLLABLES.length, at / SYLLABLES.length ** 2]
    .map((part) => SYLLABLES[Math.floor(part) % SYLLABLES.length])
    .join('');
}

/** Stores chats with messages, as if the user had written them, one chat an hour. A trigger makes the index of the search. */
export function store(dev, { chats, messagesEach }) {
  const words = Array.from({ length: VOCABULARY }, (_, nth) => word(nth)).join(' ');
  sql(
    dev,
    `with made as (
       insert into kb.chat_conversations (id, project_id, owner_user_id, title, created_at, updated_at, last_read_seq)
       select gen_random_uuid(), '${dev.projectId}', '${dev.userId}', 'Stored chat ' || n,
              now() - n * interval '1 hour', now() - n * interval '1 hour', ${messagesEach}
       from generate_series(1, ${chats}) n
       returning id
     )
     insert into stream.logs (log_id) select id from made`,
  );
  // The ids begin with the time, as the server's do: the search takes the newest messages by them.
  sql(
    dev,
    `insert into kb.chat_messages (id, conversation_id, role, content, seq, created_at)
     select (substr(hex, 1, 8) || '-' || substr(hex, 9, 4) || '-7' || substr(gen_random_uuid()::text, 16))::uuid,
            id, case when m % 2 = 0 then 'assistant' else 'user' end,
            (select string_agg(said, ' ')
             from (select words[1 + floor(${VOCABULARY} * power(random(), 3))::int] as said
                   from generate_series(1, 40 + (nth * 7 + m) % 60)) spoken) || ' ticket' || ((nth - 1) * ${messagesEach} + m),
            m, at
     from (select id, updated_at, row_number() over (order by updated_at) as nth
           from kb.chat_conversations where project_id = '${dev.projectId}' and title like 'Stored chat %') chats
     cross join generate_series(1, ${messagesEach}) m
     cross join (select string_to_array('${words}', ' ') as words) vocabulary
     cross join lateral (select updated_at - (${messagesEach} - m) * interval '10 seconds' as at) moment
     cross join lateral (select lpad(to_hex((extract(epoch from at) * 1000)::bigint), 12, '0') as hex) prefix`,
  );
  // As the server's own upkeep does, sooner or later.
  for (const table of ['kb.chat_conversations', 'kb.chat_messages', 'kb.message_words', 'stream.logs'])
    sql(dev, `vacuum (analyze) ${table}`);
  const stored = sql(dev, `select count(*) from kb.message_words`);
  assert.ok(Number(stored) >= chats * messagesEach, `${stored} messages are in the index`);
}

/** The list: until its first page is shown, until each further one is, and as all of it is scrolled through. */
export async function list(browser, dev, { state, viewport, chats, isMidrange = false }) {
  const context = await browser.newContext({ storageState: state, viewport });
  const page = await context.newPage();
  if (isMidrange) await slowDown(page);
  await page.addInitScript(watchRows);
  await page.goto(dev.url);
  await page.waitForFunction(() => globalThis.rowsSeenAt !== undefined, undefined, { timeout: 60_000 });
  const shown = await page.evaluate(() => globalThis.rowsSeenAt);
  const pages = [];
  for (let ms = await page.evaluate(loadMore); ms !== null; ms = await page.evaluate(loadMore)) pages.push(ms);
  const rows = await page.locator('.conversations .listed li[data-row]').count();
  assert.ok(rows >= chats, `${rows} rows are shown`);
  await page.evaluate(watchFrames);
  await page.evaluate(scrollThrough, SCROLL_STEP);
  const { frames, long } = await page.evaluate(() => globalThis.framesSeen());
  await context.close();
  return {
    rows,
    shown_ms: shown,
    page_median_ms: median(pages),
    page_longest_ms: greatest(pages),
    scroll_frame_median_ms: median(frames),
    scroll_frame_p95_ms: quantile(frames, 0.95),
    scroll_frame_longest_ms: greatest(frames),
    scroll_long_tasks: long.length,
  };
}

/** What is searched: words of most messages, of some, of one, and two words. All of them are found. */
function searched({ chats, messagesEach }) {
  const count = chats * messagesEach;
  const nth = [0, 1, 2, 3, 4];
  return {
    frequent: nth.map((one) => word(one)),
    rare: nth.map((one) => word(VOCABULARY / 2 + one)),
    single: nth.map((one) => `ticket${1 + Math.floor(((one + 0.5) * count) / 5)}`),
    two: nth.map((one) => `${word(one)} ${word(40 + one)}`),
  };
}

/** The search beside the chat: its requests, and the time until what it found is shown. */
export async function search(browser, dev, { state, viewport, chats, messagesEach }) {
  const context = await browser.newContext({ storageState: state, viewport });
  const page = await context.newPage();
  await page.goto(dev.url);
  const field = page.getByRole('searchbox', { name: 'Search chats' });
  const once = async (words) => {
    await field.fill('');
    await page.waitForFunction(() => document.querySelector('.conversations li.hit') === null);
    await page.evaluate(watchSearch, words);
    await field.pressSequentially(words, { delay: KEY_MS });
    await page.waitForFunction(() => globalThis.searchSeen !== undefined, undefined, { timeout: 60_000 });
    return await page.evaluate(() => globalThis.searchSeen);
  };
  // What shows results is loaded with the first search.
  await once(word(10));
  const kinds = {};
  const all = [];
  for (const [kind, terms] of Object.entries(searched({ chats, messagesEach }))) {
    const seen = [];
    for (const words of terms) seen.push(await once(words));
    all.push(...seen);
    kinds[kind] = { request_median_ms: median(seen.map(({ request }) => request)) };
  }
  await context.close();
  const of = (name) => all.map((one) => one[name]);
  return {
    searches: all.length,
    kinds,
    request_median_ms: median(of('request')),
    request_p95_ms: quantile(of('request'), 0.95),
    shown_median_ms: median(of('shown')),
    shown_p95_ms: quantile(of('shown'), 0.95),
    typed_median_ms: median(of('typed')),
    chats_median_ms: median(of('chats')),
    chats_p95_ms: quantile(of('chats'), 0.95),
  };
}
