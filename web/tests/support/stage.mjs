// What a file of tests in a browser begins with.
import { after } from 'node:test';
import { launch, PROGRAM } from './browser.mjs';
import { BINARY, startDev } from './dev.mjs';
import { startModel } from './model.mjs';
import { skipWithout } from './needs.mjs';

/** Why there is nothing to test here; false: there is. */
export const skip = skipWithout(BINARY && PROGRAM, 'REJOIN_TEST_BIN names no binary, or there is no Chromium');

/** A model that answers so, `rejoin dev` over it and a browser, until the file's tests are over. Nothing where they are skipped. */
export async function stage(reply = () => ({ text: 'Well.' }), options = { workers: 1 }) {
  if (skip) return {};
  const model = await startModel(reply);
  const dev = await startDev(model.url, options);
  const browser = await launch();
  after(async () => {
    await browser.close();
    await dev.stop();
    await model.stop();
  });
  return { model, dev, browser };
}
