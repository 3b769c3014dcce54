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

/** Leaves out the names of SVG's attributes: Markdown is rendered without them, as it never contains SVG. */
const withoutSvg = {
  name: 'without-svg',
  enforce: 'pre' as const,
  transform: (_: string, id: string) =>
    id.endsWith('/property-information/lib/svg.js') ? "export { html as svg } from './html.js';" : undefined,
};

/** Files of the script: of several groups that have a module, the first one takes it, with what it needs. */
const GROUPS = [
  // What runs before the rest is there, with the bundler's part that loads files on request.
  { name: 'early', test: /\/src\/(early\/|api\/localStore\.ts)|vite\/preload-helper/ },
  // What the page loads first is one file: several dozens are larger together, and each is a request.
  { name: 'app', tags: ['$initial'] },
  // So is what shows a conversation.
  { name: 'chat', test: /\/src\/chat\/ChatView\.tsx$/ },
];

export default defineConfig({
  plugins: [react(), woff2Only, withoutSvg],
  build: {
    target: 'es2022',
    // The page's policy takes no data: modules, and small files as files cost nothing here.
    assetsInlineLimit: 0,
    // The layout of diagrams, which is loaded on request.
    chunkSizeWarningLimit: 1_600,
    modulePreload: { polyfill: false },
    // Which files make up the app, for scripts/worker.mjs.
    manifest: true,
    rolldownOptions: { output: { codeSplitting: { groups: GROUPS } } },
  },
  server: { proxy: { '/api': api, '/.well-known': api } },
});
