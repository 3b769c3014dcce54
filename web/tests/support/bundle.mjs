// Modules of the page in Node: with all that they need, and the little of a browser that they ask for while they are loaded.
import { join } from 'node:path';
import { build } from 'esbuild';

/** What modules of `src` export, in a browser whose user prefers these languages. */
export async function loaded(paths, { languages = ['en-US'] } = {}) {
  const contents = [paths].flat().map((path) => `export * from './${path}';`);
  const { outputFiles } = await build({
    stdin: { contents: contents.join('\n'), resolveDir: join(import.meta.dirname, '../../src') },
    bundle: true,
    format: 'esm',
    write: false,
    jsx: 'automatic',
    platform: 'node',
    // Modules of the same text are the same module.
    footer: { js: `// ${languages}` },
  });
  // An open channel would keep the process from ending.
  const browser = { navigator: { languages }, document: { documentElement: {} }, BroadcastChannel: class {} };
  const before = Object.keys(browser).map((name) => [name, Object.getOwnPropertyDescriptor(globalThis, name)]);
  for (const [name, value] of Object.entries(browser))
    Object.defineProperty(globalThis, name, { value, configurable: true, writable: true });
  try {
    return await import(`data:text/javascript,${encodeURIComponent(outputFiles[0].text)}`);
  } finally {
    for (const [name, descriptor] of before) {
      if (descriptor) Object.defineProperty(globalThis, name, descriptor);
      else delete globalThis[name];
    }
  }
}
