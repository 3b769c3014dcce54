// Tests of the tools. Run: npm test
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { priceOf } from './tools.js';

test('a known order has a price', () => {
  assert.equal(priceOf('A-7'), 12.5);
});

test('an unknown order is an error for the model', () => {
  assert.throws(() => priceOf('X-1'), /A-7/);
});
