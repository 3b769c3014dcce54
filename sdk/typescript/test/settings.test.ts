/** Where the API is: arguments, else the environment, else the file of `rejoin dev`. */
import { expect, test } from 'vitest';
import { ConfigurationError } from '../src/index.js';
import { type Given, resolve } from '../src/settings.js';

const HERE = 'http://127.0.0.1:7420';
const DEV = { url: HERE, apiKey: 'of dev', projectId: 'p', databaseUrl: null };

const files =
  (...entries: [path: string, content: string][]) =>
  async (path: string) =>
    new Map(entries).get(path);
const dev = files(['/data/current.json', JSON.stringify(DEV)]);

async function chosen(given: Given, environment: Record<string, string> = {}): Promise<unknown[]> {
  const { url, apiKey, projectId } = await resolve(given, { REJOIN_DATA_DIR: '/data', ...environment }, dev);
  return [url, apiKey, projectId];
}

test('what is given beats the environment, and that beats the file', async () => {
  expect(await chosen({})).toEqual([HERE, 'of dev', 'p']);
  expect(await chosen({}, { REJOIN_URL: '', REJOIN_API_KEY: '', REJOIN_PROJECT_ID: '' })).toEqual([
    HERE,
    'of dev',
    'p',
  ]);
  expect(await chosen({ apiKey: 'mine' })).toEqual([HERE, 'mine', undefined]);
  expect(await chosen({}, { REJOIN_API_KEY: 'mine' })).toEqual([HERE, 'mine', undefined]);
  const far = { REJOIN_URL: 'https://far.example/', REJOIN_API_KEY: 'mine' };
  expect(await chosen({}, far)).toEqual(['https://far.example', 'mine', undefined]);
  expect(await chosen({ url: 'https://other.example' }, far)).toEqual(['https://other.example', 'mine', undefined]);
  expect(await chosen({ url: `${HERE}/` })).toEqual([HERE, 'of dev', 'p']);
  expect(await chosen({}, { REJOIN_PROJECT_ID: 'q' })).toEqual([HERE, 'of dev', 'q']);
});

test('the key of dev goes to no other server', async () => {
  await expect(chosen({ url: 'https://far.example' })).rejects.toThrow('REJOIN_API_KEY');
});

test('the file is found where the command line writes it', async () => {
  const content = JSON.stringify(DEV);
  const found = files(
    ['/xdg/rejoin/dev/current.json', content],
    ['/home/.local/share/rejoin/dev/current.json', content],
  );
  expect((await resolve({}, { XDG_DATA_HOME: '/xdg', HOME: '/none' }, found)).apiKey).toBe('of dev');
  expect((await resolve({}, { HOME: '/home' }, found)).apiKey).toBe('of dev');
});

test('without anything the error explains what to do', async () => {
  for (const content of ['{', '[1]', 'null', '{"url": 1}', '{"url": "http://127.0.0.1:7420"}']) {
    const read = files(['/data/current.json', content]);
    await expect(resolve({}, { REJOIN_DATA_DIR: '/data' }, read)).rejects.toThrow(/rejoin dev.*REJOIN_API_KEY/);
  }
  await expect(resolve({}, {}, files())).rejects.toThrow(ConfigurationError);
});
