import react from '@vitejs/plugin-react';
import { defineConfig } from 'vite';

// Where `rejoin dev` listens, for `npm run dev`.
const api = process.env.REJOIN_URL ?? 'http://127.0.0.1:7420';

/** Leaves out the older formats of KaTeX's fonts: all browsers that the app supports read WOFF2. */
const woff2Only = {
  name: 'woff2-only',
  enforce: 'pre' as const,
  transform: (code: string, id: string) =>
    id.includes('katex') && id.endsWith('.css')
      ? code.replaceAll(/,url\([^)]*\.(?:woff|ttf)\) format\("[^"]*"\)/g, '')
      : undefined,
};

export default defineConfig({
  plugins: [react(), woff2Only],
  build: {
    target: 'es2022',
    // The page's policy takes no data: modules, and small files as files cost nothing here.
    assetsInlineLimit: 0,
    // The layout of diagrams, which is loaded on request.
    chunkSizeWarningLimit: 1_600,
    modulePreload: { polyfill: false },
  },
  server: { proxy: { '/api': api, '/.well-known': api } },
});
