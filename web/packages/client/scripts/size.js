// Prints what the core weighs: minified, and compressed as servers do.
import { gzipSync } from 'node:zlib';
import { build } from 'esbuild';

for (const entry of ['src/index.ts', 'src/react.ts']) {
  const { outputFiles } = await build({
    entryPoints: [entry], bundle: true, minify: true, format: 'esm', target: 'es2022', external: ['react'], write: false,
  });
  const { length } = outputFiles[0].contents;
  console.log(`${entry}: ${length} B minified, ${gzipSync(outputFiles[0].contents, { level: 9 }).length} B gzip`);
}
