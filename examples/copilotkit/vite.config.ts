import react from '@vitejs/plugin-react';
import { defineConfig, type ProxyOptions } from 'vite';

// Vite's server passes requests to Rejoin and adds the API key, so that the browser has none.
const { REJOIN_URL = 'http://127.0.0.1:7420', REJOIN_API_KEY = '' } = process.env;

const rejoin: ProxyOptions = {
  target: REJOIN_URL,
  changeOrigin: true,
  headers: { authorization: `Bearer ${REJOIN_API_KEY}` },
  // Without this, the browser does not notice that Rejoin has closed a connection in the middle.
  configure: (proxy) => {
    proxy.on('proxyRes', (answer, _request, response) => {
      answer.on('error', () => response.destroy());
    });
  },
};

export default defineConfig({
  plugins: [react()],
  build: { target: 'es2022', chunkSizeWarningLimit: 1000 },
  server: { proxy: { '/api': rejoin } },
});
