import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    // Tests wait for leases to end: on a machine that does several things at once, leases would end that should not.
    fileParallelism: false,
    testTimeout: 90_000,
    hookTimeout: 150_000,
  },
});
