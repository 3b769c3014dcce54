import react from '@vitejs/plugin-react';
import { defineConfig } from 'vite';

// Where `rejoin dev` listens, for `npm run dev`.
const api = process.env.REJOIN_URL ?? 'http://127.0.0.1:7420';

export default defineConfig({
  plugins: [react()],
  build: {
    target: 'es2022',
    // The page's policy takes no data: modules, and small files as files cost nothing here.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
  },
  server: { proxy: { '/api': api, '/.well-known': api } },
});
