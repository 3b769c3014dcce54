// What programs pass as they have it: with `exactOptionalPropertyTypes` an option that may be absent must also take undefined. `tsc`,
// which is part of the tests, reads this file under that setting.
import { expect, test } from 'vitest';
import { type ClientOptions, createClient, type FollowOptions, type SendOptions } from '../src/index.js';

const absent = process.env.REJOIN_TEST_NOT_SET;

test('options take what an environment or a form leaves out', () => {
  const options: ClientOptions = { url: absent, apiKey: absent, projectId: absent, fetch: undefined };
  const send: SendOptions = {
    message: 'hello',
    conversationId: absent,
    agentDefinitionId: absent,
    consoleId: absent,
    onBusy: undefined,
    signal: undefined,
  };
  const follow: FollowOptions = { from: undefined, onEvent: undefined, onStatus: undefined, signal: undefined };
  expect(Object.values({ ...options, ...send, ...follow }).filter((value) => value !== undefined)).toEqual(['hello']);
  expect(createClient({ ...options, url: 'http://127.0.0.1:9' })).toBeDefined();
});
